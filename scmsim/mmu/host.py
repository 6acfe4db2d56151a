"""Build this machine's table from CPUID and Linux, with estimates for values that neither reports.

x86 on Linux.  CPUID runs on one CPU, since other cores of a hybrid part have other TLBs.  Values that no source reports
(page-walk caches, latencies, walkers, costs of an invalidation) are estimates, and are listed as not seen.
"""

import contextlib
import ctypes
import json
import mmap
import os
import pathlib
import platform
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from scmsim.core.errors import EnvironmentProblem
from scmsim.core.units import format_bytes
from scmsim.mmu import cpuid
from scmsim.mmu.cpuid import DATA, INSTRUCTION, LOAD, STORE, UNIFIED, Array, Registers

NAME = "host"  # name of this machine for --machine
_CPUINFO = pathlib.Path("/proc/cpuinfo")
_CEILING = pathlib.Path("/sys/kernel/debug/x86/tlb_single_page_flush_ceiling")
# void cpuid(uint32_t leaf, uint32_t subleaf, uint32_t out[4]) in the System V ABI; RBX is callee-saved
_CODE = bytes.fromhex("53 89f8 89f1 4989d0 0fa2 418900 41895804 41894808 4189500c 5b c3")
_LEAVES = (*range(0x20), *range(0x80000000, 0x80000022))
_SUBLEAVES = {4: 8, 7: 1, 0x18: 32, 0x8000001D: 8}
_PAGES = {"4K": "4KiB", "2M": "2MiB", "4M": "2MiB", "2M/4M": "2MiB", "1G": "1GiB"}
_SIDES = {
    DATA: ("load", "store"),
    UNIFIED: ("load", "store", "fetch"),
    INSTRUCTION: ("fetch",),
    LOAD: ("load",),
    STORE: ("store",),
}
_ASSUMED = "; LRU is an assumption"
_NS = {"memory": 90, "scm": 305, "invlpg": 100, "sync": 590, "shootdown": 2140, "shootdown_cpu": 37.5}
_LATR = (
    "the straight line of 2.7 us for 16 cores and 6.6 us for 120 (Kumar et al., Latr, ASPLOS 2018), as in the presets"
)
_INVLPGB = 6, 15  # first Linux version that uses INVLPGB where the CPU has it
_MOST_LINES = 12288  # most lines of page tables in a cache: a machine's arrays have 32 Ki slots together
_CYCLES = {1: 5, 2: 15, 3: 60}  # cycles of a cache, by level


@dataclass
class Seen:
    """Facts that CPUID and Linux report of a machine; `unseen` lists the facts that neither reports."""

    registers: Registers
    flags: frozenset[str] = frozenset()  # of /proc/cpuinfo
    cpus: int = 1  # physical cores; logical CPUs if /proc/cpuinfo lists no cores
    ghz: float = 0.0
    ghz_source: str = ""
    ceiling: int | None = None
    linux: tuple[int, int] = (0, 0)  # version
    unseen: list[str] = field(default_factory=list)


def look(cpu: int | None = None) -> Seen:
    """Return what CPUID (on `cpu`, by default the first CPU that this process may use), /proc and /sys report.

    Raises
    ------
    EnvironmentProblem
        If this machine is not x86 with Linux, has no such CPU, or forbids executable memory.
    """
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "AMD64"):
        raise EnvironmentProblem(
            f"the TLBs of {platform.machine()} with {platform.system()} cannot be read; "
            "copy the nearest of 'scmsim list machine' to a TOML file and edit it"
        )
    with _on(cpu), _instruction() as ask:
        registers = {
            (leaf, sub): ask(leaf, sub) for leaf in _LEAVES for sub in range(_SUBLEAVES.get(leaf, 1)) if _has(ask, leaf)
        }
    text = _CPUINFO.read_text(encoding="utf-8", errors="replace")
    facts = dict(line.partition(":")[::2] for line in text.partition("\n\n")[0].splitlines())
    known = {name.strip(): value.strip() for name, value in facts.items()}
    seen = Seen(registers, frozenset(known.get("flags", "").split()), _cores(text))
    with contextlib.suppress(OSError, ValueError):
        seen.ceiling = int(_CEILING.read_text())
    with contextlib.suppress(ValueError):
        major, minor = platform.release().split(".")[:2]
        seen.linux = int(major), int(minor)
    base = registers.get((0x16, 0), (0,))[0] & 0xFFFF
    if base:
        seen.ghz, seen.ghz_source = base / 1000, "vendor: CPUID leaf 16H, base frequency"
    else:
        seen.ghz = round(float(known.get("bogomips", "0") or 0) / 2000, 2)
        seen.ghz_source = "measured: BogoMIPS / 2 of /proc/cpuinfo, the rate of the time-stamp counter"
    return seen


def _has(ask: Any, leaf: int) -> bool:
    return bool(leaf <= ask(leaf & 0x80000000, 0)[0])


def _cores(text: str) -> int:
    """Return the number of cores in the lines of /proc/cpuinfo: distinct pairs of `physical id` and `core id`."""
    ids = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith(("physical id", "core id"))]
    return len(set(zip(ids[::2], ids[1::2], strict=False))) or os.cpu_count() or 1


@contextlib.contextmanager
def _on(cpu: int | None) -> Iterator[None]:
    before = os.sched_getaffinity(0)
    if cpu is not None and cpu not in before:
        raise EnvironmentProblem(f"no CPU {cpu} here; choose one of {', '.join(map(str, sorted(before)))}")
    os.sched_setaffinity(0, {min(before) if cpu is None else cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def _instruction() -> Iterator[Any]:
    """Yield the instruction CPUID as a function of leaf and subleaf."""
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError as error:
        raise EnvironmentProblem(f"no executable memory ({error.strerror}); run where it is allowed") from None
    page.write(_CODE)
    start = ctypes.c_char.from_buffer(page)
    call = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(ctypes.addressof(start))

    def ask(leaf: int, sub: int) -> tuple[int, int, int, int]:
        out = (ctypes.c_uint32 * 4)()
        call(leaf, sub, out)
        eax, ebx, ecx, edx = out
        return eax, ebx, ecx, edx

    try:
        yield ask
    finally:
        del start
        page.close()


def table(seen: Seen) -> dict[str, Any]:
    """Return the machine's table (see `scmsim.mmu.presets`); list the assumed values in `seen.unseen`.

    Raises
    ------
    EnvironmentProblem
        If CPUID reports no TLB for loads, or none for fetches.
    """
    brand = cpuid.text(seen.registers)
    found = cpuid.arrays(seen.registers)
    is_amd = "AMD" in brand or "Hygon" in brand
    tlb, held = tlbs(found, is_amd=is_amd), caches(seen, is_amd)
    if not {"load", "fetch"} <= {side for entry in tlb for side in entry.get("first_level_for", [])}:
        raise EnvironmentProblem(
            f"{brand!r} reports no TLBs through CPUID (some virtual machines hide them); "
            "copy the nearest of 'scmsim list machine' to a TOML file"
        )
    if not seen.ghz:
        seen.ghz, seen.ghz_source = 3.0, "estimate: not reported"
        seen.unseen.append("the clock: 3 GHz is taken")
    if "hypervisor" in seen.flags:
        seen.unseen.append(
            "the machine below this virtual one: CPUID shows what that shows, and walks are not nested here"
        )
    seen.unseen += [
        "page-walk caches, walkers and replacement: defaults of simulators",
        "latencies of caches and memory, and the cost of an invalidation, of a system call and of a second-level hit: estimates",
    ]
    ghz = seen.ghz
    return {
        "summary": f"{brand} (as seen by scmsim machine detect)",
        "tlb": tlb,
        "walk_cache": [
            {"entry": name, "entries": entries, "ways": ways, "source": "estimate: not seen; default of the ChampSim simulator"}
            for name, entries, ways in (("pde", 32, 8), ("pdpte", 4, 4), ("pml4e", 4, 4))
        ],
        "walk_memory": [*_walk_memory(seen)],
        **({"flush": cpuid.flush_instruction(seen.registers), "cache": held} if held else {}),
        "walk": _walk(seen),
        "invalidate": _invalidate(seen),
        "time": {
            "ghz": ghz, "cpi": 1.0, "stlb_hit_cycles": 7, "walk_hidden": 0.0,
            "copy_gb_s": round(640 / _NS["memory"], 1), "lines_in_flight": 16, "syscall_ns": round(120 / ghz),
            "source": {
                "ghz": seen.ghz_source,
                "cpi": "estimate: kernel code that waits for neither TLB nor memory; calibrate with a measurement",
                "stlb_hit_cycles": "estimate: not seen; 7 as the preset sapphire-rapids has",
                "walk_hidden": "estimate: none, the upper bound that a share of walk_active cycles states too",
                "copy_gb_s": f"estimate: 10 lines in flight x 64 bytes / {_NS['memory']} ns of memory latency",
                "lines_in_flight": "estimate: as measured on Broadwell (e5-2640v4)",
                "syscall_ns": "estimate: 120 cycles of getppid() without page-table isolation, as the preset sapphire-rapids has",
            },
        },
    }  # fmt: skip


def tlbs(found: list[Array], *, is_amd: bool) -> list[dict[str, Any]]:
    """Return the [[tlb]] tables of CPUID's arrays, with each page size of a side in one array only."""
    out = []
    for level, key in ((1, "first_level_for"), (2, "second_level_for")):
        for kind in _SIDES:
            group = [array for array in found if array.level == level and array.kind == kind]
            for name, pages, entries, ways, more in _amd(group, kind) if is_amd else _intel(group):
                entry = {"name": f"l{level}-{kind}-{name}", "pages": pages, "entries": entries, "ways": ways}
                if is_amd and pages != ["1GiB"] and kind in (DATA, INSTRUCTION) and (level, kind) != (2, INSTRUCTION):
                    entry["coalesce"] = 4 if level == 1 else 8
                leaves = " and ".join(sorted({f"{array.leaf}H" for array in group}))
                out.append({**entry, key: [*_SIDES[kind]], "source": f"vendor: CPUID leaf {leaves}{more}{_ASSUMED}"})
    return out


Group = Iterator[tuple[str, list[str], int, int, str]]  # name, pages, entries, ways, assumptions (for the source)


def _intel(group: list[Array]) -> Group:
    """Yield arrays as reported; if several hold one page size, merge them for that size and keep one each for other sizes."""
    sizes = [[*dict.fromkeys(_PAGES[page] for page in array.pages)] for array in group]
    for page in dict.fromkeys(page for pages in sizes for page in pages):
        holders = [array for array, pages in zip(group, sizes, strict=True) if page in pages]
        if len(holders) == 1:
            mine = sizes[group.index(holders[0])]
            alone = [other for other in mine if sum(other in pages for pages in sizes) == 1]
            if page == alone[0]:
                yield "-".join(alone).lower(), alone, holders[0].entries, holders[0].ways, ""
            continue
        entries, sets = sum(array.entries for array in holders), {array.entries // array.ways for array in holders}
        equal = len({array.entries for array in holders}) == 1
        ways = holders[0].ways if equal or len(sets) > 1 else sum(array.ways for array in holders)
        yield page.lower(), [page], entries, ways, ": several arrays, here as one, which is an assumption"


def _amd(group: list[Array], kind: str) -> Group:
    """Yield arrays from AMD's report per page size, assuming that sizes with equally many entries share one array."""
    by_entries: dict[int, list[Array]] = {}
    for array in group:
        by_entries.setdefault(array.entries, []).append(array)
    for entries, same in by_entries.items():
        pages = [_PAGES[array.pages[0]] for array in same]
        pages.sort(key=["4KiB", "2MiB", "1GiB"].index)
        ways, more = same[0].ways, ", coalescing of neighbouring pages as AMD's TLBs are described, not checked"
        if len(same) > 1 and {array.ways for array in same} != {entries}:
            each = ", ".join(f"{array.ways} to {array.pages[0]}" for array in same)
            ways = 8 if kind == INSTRUCTION else entries // (256 if entries > 3072 else 128)
            more += f"; CPUID gives, of the ways of a skewed array, {each} pages: {ways} ways are an assumption"
        yield "-".join(pages).lower(), pages, entries, ways, more


def caches(seen: Seen, is_amd: bool) -> list[dict[str, Any]]:
    """Return the [[cache]] tables of the data caches that CPUID reports."""
    found = []
    for cache in cpuid.caches(seen.registers)[:3]:
        fill, why = "non-inclusive", ""
        if cache.level > 1 and cache.is_inclusive:
            fill = "inclusive"
        elif cache.level == 3 and is_amd:
            fill, why = "exclusive", "; AMD's last levels hold what the second level evicts"
        elif cache.level == 3:
            why = "; how a last level that is not inclusive is filled, is not seen"
        found.append({
            "name": f"l{cache.level}{'d' if cache.level == 1 else ''}",
            "size": format_bytes(cache.size),
            "ways": cache.ways,
            "fill": fill,
            "cycles": _CYCLES.get(cache.level, 60),
            "source": f"vendor: CPUID leaf 4 or 8000001DH{why}; the cycles are not seen; LRU is an assumption",
        })  # fmt: skip
    return found


def _walk_memory(seen: Seen) -> Iterator[dict[str, Any]]:
    for cache in cpuid.caches(seen.registers)[:3]:
        cores = max(1, min(cache.sharers // 2, seen.cpus)) if cache.level == 3 else 1
        lines = min(cache.size // cores // 64 // 8, _MOST_LINES) // cache.ways * cache.ways
        yield {
            "name": f"l{cache.level}{'d' if cache.level == 1 else ''}",
            "entries": max(lines, cache.ways),
            "ways": cache.ways,
            "cycles": _CYCLES.get(cache.level, 60),
            "source": f"estimate: an eighth of the lines of {cache.size // cores >> 10} KiB (CPUID leaf 4 or 8000001DH) of "
            f"{cache.ways} ways, at most {_MOST_LINES}; the cycles are not seen",
        }  # fmt: skip


def _walk(seen: Seen) -> dict[str, Any]:
    levels, is_giga = 5 if "la57" in seen.flags else 4, "pdpe1gb" in seen.flags
    return {
        "levels": levels,
        "largest_page": "1GiB" if is_giga else "2MiB",
        "memory_cycles": round(_NS["memory"] * seen.ghz),
        "scm_cycles": round(_NS["scm"] * seen.ghz),
        "walkers": 2,
        "source": {
            "levels": f"vendor: {'' if levels == 5 else 'no '}la57 among the flags of /proc/cpuinfo",
            "largest_page": f"vendor: {'' if is_giga else 'no '}pdpe1gb among the flags of /proc/cpuinfo",
            "memory_cycles": f"estimate: {_NS['memory']} ns, not seen, at the clock below",
            "scm_cycles": "estimate: 305 ns of a random load from an Optane module (Izraelevitz et al., 2019) at the clock below",
            "walkers": "estimate: not seen; two",
        },
    }


def _invalidate(seen: Seen) -> dict[str, Any]:
    told = seen.ceiling is not None
    table: dict[str, Any] = {
        "cores": seen.cpus,
        "ceiling": seen.ceiling if told else 33,
        "invlpg_cycles": round(_NS["invlpg"] * seen.ghz),
        "flush_cycles": 500,
        "shootdown_cycles": round(_NS["shootdown"] * seen.ghz),
        "shootdown_cpu_cycles": round(_NS["shootdown_cpu"] * seen.ghz),
        "pcid": int("pcid" in seen.flags),
        "source": {
            "cores": "vendor: cores that Linux uses (/proc/cpuinfo)",
            "ceiling": f"vendor: {_CEILING if told else 'Linux arch/x86/mm/tlb.c, tlb_single_page_flush_ceiling, its default'}",
            "invlpg_cycles": "estimate: Linux reckons with about 100 ns a page (arch/x86/mm/tlb.c), at the clock below",
            "flush_cycles": "estimate: not seen; as the preset sapphire-rapids has",
            **dict.fromkeys(("shootdown_cycles", "shootdown_cpu_cycles"), f"estimate: {_LATR}, at the clock below"),
            "pcid": "vendor: pcid among the flags of /proc/cpuinfo or not",
        },
    }
    if cpuid.broadcast_pages(seen.registers) and seen.linux >= _INVLPGB:
        table |= {
            "broadcast_pages": cpuid.broadcast_pages(seen.registers), "broadcast_from": 4,
            "broadcast_cycles": round(_NS["invlpg"] * seen.ghz), "sync_cycles": round(_NS["sync"] * seen.ghz),
        }  # fmt: skip
        table["source"] |= {
            "broadcast_pages": "vendor: INVLPGB (CPUID leaf 80000008H), and a Linux that uses it (6.15)",
            "broadcast_from": "vendor: Linux arch/x86/mm/tlb.c, consider_global_asid",
            "broadcast_cycles": "estimate: as INVLPG",
            "sync_cycles": f"estimate: at most {_NS['sync']} ns, as the preset zen4-epyc has, at the clock below",
        }
    return table


def toml(table: dict[str, Any], unseen: list[str]) -> str:
    """Return a machine's table as the text of its file; values that were not seen come first, as comments."""
    lines = [f"# Not seen: {what}." for what in unseen]
    lines += [f"{name} = {_value(table[name])}" for name in ("summary", "flush") if name in table]
    for name, value in table.items():
        if isinstance(value, list):
            for entry in value:
                lines += ["", f"[[{name}]]", *(f"{key} = {_value(what)}" for key, what in entry.items())]
        elif isinstance(value, dict):
            numbers = {key: what for key, what in value.items() if key != "source"}
            lines += ["", f"[{name}]", *(f"{key} = {_value(what)}" for key, what in numbers.items())]
            lines += ["", f"[{name}.source]", *(f"{key} = {_value(what)}" for key, what in value["source"].items())]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    return json.dumps(value)  # TOML and JSON write texts, numbers and lists of texts the same way
