"""What CPUID says of the parts behind the presets: decoded here and by another program, as machine tables, beside the presets."""

import csv
import os
import platform
from collections import defaultdict
from pathlib import Path

import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.core.errors import EnvironmentProblem
from scmsim.core.units import format_bytes
from scmsim.mmu import cpuid, host, presets

DATA = Path(__file__).parents[1] / "data" / "cpuid"
DOCS = Path(__file__).parents[2] / "docs/models/machines.md"
ON_X86 = platform.system() == "Linux" and platform.machine() == "x86_64"

# Arrays of CPUID and of the preset where they differ: (sides, level, pages) -> (entries, ways) in CPUID, in the preset.
# Why: docs/models/machines.md, "CPUID beside the presets".
FETCH, ALL = ("fetch",), ("load", "store", "fetch")
HALF = {(FETCH, 1, "4KiB"): ((64, 8), (128, 8))}
SKYLAKE = HALF | {(ALL, 2, "4KiB 2MiB"): ((1536, 6), (1536, 12))}
GUIDE = {(FETCH, 2, "4KiB 2MiB"): ((1024, 8), (512, 8))}
DIFFERENT = {
    "core2-q8200": {
        (("load", "store"), 1, "4KiB"): ((16, 4), None), (("load", "store"), 1, "2MiB"): ((16, 4), None),
        (("load", "store"), 2, "4KiB"): ((256, 4), None), (("load", "store"), 2, "2MiB"): ((32, 4), None),
        (("load",), 1, "4KiB"): (None, (16, 4)), (("load",), 1, "2MiB"): (None, (16, 4)),
        (("load",), 2, "4KiB"): (None, (256, 4)), (("load",), 2, "2MiB"): (None, (32, 4)),
        (("store",), 1, "4KiB"): (None, (256, 4)), (("store",), 1, "2MiB"): (None, (32, 4)),
    },
    "e5-2640v4": HALF, "i7-8700k": SKYLAKE, "skylake-sp": SKYLAKE,
    "ice-lake-sp": {
        (FETCH, 1, "4KiB 2MiB"): ((8, 8), None), (FETCH, 1, "4KiB"): (None, (128, 8)), (FETCH, 1, "2MiB"): (None, (16, 8)),
    },
    "sapphire-rapids": {(("load",), 1, "4KiB"): ((64, 4), (96, 6))},
    "emerald-rapids": {(("load",), 1, "4KiB"): ((64, 4), (96, 6))},
    "zen1": GUIDE, "zen2": GUIDE,
}  # fmt: skip
Registers = dict[tuple[int, int], tuple[int, int, int, int]]


def _read() -> tuple[dict[str, Registers], dict[str, str]]:
    registers: dict[str, Registers] = defaultdict(dict)
    files = {}
    with open(DATA / "registers.csv", encoding="ascii") as text:
        for row in csv.DictReader(text):
            eax, ebx, ecx, edx = (int(row[name], 16) for name in ("eax", "ebx", "ecx", "edx"))
            registers[row["preset"]][int(row["leaf"], 16), int(row["subleaf"])] = eax, ebx, ecx, edx
            files[row["preset"]] = row["file"]
    return dict(registers), files


REGISTERS, FILES = _read()


def _tlbs(tables: list) -> dict:
    found = {}
    for entry in tables:
        for level, key in ((1, "first_level_for"), (2, "second_level_for")):
            if key in entry:
                found[tuple(entry[key]), level, " ".join(entry["pages"])] = (entry["entries"], entry["ways"])
    return found


@pytest.mark.parametrize("name", sorted(REGISTERS))
def test_a_preset_is_what_cpuid_says_but_for_what_is_explained(name: str) -> None:
    told = _tlbs(host.tlbs(cpuid.arrays(REGISTERS[name]), is_amd=name.startswith("zen")))
    preset = _tlbs(presets.read(name)["tlb"])
    different = {at: (told.get(at), preset.get(at)) for at in told | preset if told.get(at) != preset.get(at)}
    assert different == DIFFERENT.get(name, {})


def test_every_preset_of_an_x86_part_is_looked_at_and_each_difference_is_in_the_document() -> None:
    others = {"cortex-a75", "neoverse-n1", "neoverse-v2", "xscale", "tps", "i7-8700k-thesis"}
    from scmsim import mmu

    assert set(mmu.names()) - others == set(REGISTERS)
    told = DOCS.read_text(encoding="utf-8").partition("## CPUID beside the presets")[2].partition("\n## ")[0]
    table = [[cell.strip() for cell in line.split("|")[1:4]] for line in told.splitlines() if line.startswith("| ")]
    rows = {name.strip(): differs for names, _, differs in table[1:] for name in names.split(",")}
    assert set(rows) == set(REGISTERS)
    assert {name for name, differs in rows.items() if differs != "nothing"} == set(DIFFERENT)


def test_another_decoder_says_the_same_of_the_same_dumps() -> None:
    """`tlb.csv` has no arrays for fetches of AMD's but 4K, nor the factor 32; a hybrid part has the arrays of all its cores."""
    other = defaultdict(set)
    with open(DATA / "tlb.csv", encoding="ascii") as text:
        for row in csv.DictReader(text):
            if row["ways"] != "disabled":
                entries = int(row["entries"])
                ways = entries if row["ways"] == "full" else int(row["ways"])
                other[row["file"]].add((row["leaf"], int(row["level"]), row["type"], row["pages"], entries, ways))
    checked = 0
    for name, registers in REGISTERS.items():
        mine = {(a.leaf, a.level, a.kind, "/".join(a.pages), a.entries, a.ways) for a in cpuid.arrays(registers)}
        if name.startswith("zen"):
            by = 32 if name.startswith("zen5") else 1
            mine = {
                (*a[:4], a[4] // (by if a[1] == 2 else 1), a[5])
                for a in mine
                if a[2] == "data" or a[3:] == ("4K", 64, 64)
            }
        if FILES[name] in other:
            assert mine <= other[FILES[name]], name
            checked += 1
            if name not in ("lion-cove", "skymont", "crestmont", "panther-lake"):
                assert mine == other[FILES[name]], name
    assert checked == 15  # leaf 2 is not in that table


def test_caches_and_names() -> None:
    caches = cpuid.caches(REGISTERS["granite-rapids"])
    assert [(cache.level, cache.size >> 10, cache.ways) for cache in caches] == [
        (1, 48, 12),
        (2, 2048, 16),
        (3, 147456, 16),
    ]
    assert cpuid.text(REGISTERS["granite-rapids"]) == "Intel(R) Xeon(R) 658X"
    assert [cache.size >> 10 for cache in cpuid.caches(REGISTERS["zen5-epyc"])] == [48, 1024, 32768]


def test_fields_of_a_cache() -> None:
    """Leaf 4: kind, level and sharers - 1 in EAX, ways, partitions and bytes of a line in EBX, sets in ECX, each less 1."""

    def cache(
        kind: int, level: int, sharers: int, ways: int, parts: int, line: int, sets: int
    ) -> tuple[int, int, int, int]:
        return kind | level << 5 | 7 << 8 | sharers - 1 << 14, ways - 1 << 22 | parts - 1 << 12 | line - 1, sets - 1, 5

    rows = [
        (*cache(3, 3, 64, 11, 2, 64, 32)[:3], 7),
        cache(1, 1, 2, 12, 1, 128, 64),
        cache(2, 1, 2, 8, 1, 64, 64),
        cache(3, 2, 4096, 1024, 1024, 4096, 3),
    ]
    expected = [
        (1, 12 * 128 * 64, 12, 2, False),
        (2, 1024 * 1024 * 4096 * 3, 1024, 4096, False),
        (3, 11 * 2 * 64 * 32, 11, 64, True),
    ]
    registers = {(4, at): row for at, row in zip((0, 2, 3, 7), rows, strict=True)}
    assert cpuid.caches(registers) == expected
    moved = {(0x8000001D, sub): row for (_, sub), row in registers.items()}
    assert cpuid.caches(moved | {(4, 0): cache(1, 1, 1, 1, 1, 1, 1)}) == expected
    silent = moved | {(0x8000001D, 0): (0, 0, 0, 0), (4, 0): cache(1, 1, 1, 2, 3, 4, 5)}
    assert cpuid.caches(silent) == [(1, 2 * 3 * 4 * 5, 2, 1, False)]
    assert cpuid.caches({}) == [] and cpuid.arrays({}) == [] and cpuid.broadcast_pages({}) == 0


def test_fields_of_leaf_18() -> None:
    """The number of the last subleaf in EAX; ways and sizes in EBX, sets in ECX, kind and level in EDX."""
    registers = {
        (0x18, 0): (4, 0, 0, 0), (0x18, 1): (9, 6 << 16 | 0b0111, 16, 1 | 1 << 5 | 1 << 8),
        (0x18, 2): (0, 3 << 16 | 0b1101, 5, 4 | 2 << 5),
        (0x18, 3): (0, 8 << 16 | 0b0010, 1, 3), (0x18, 4): (0, 2 << 16 | 0b0010, 7, 5 | 7 << 5),
        (0x18, 5): (0, 8 << 16 | 1, 1, 1 | 1 << 5),
    }  # fmt: skip
    assert cpuid.arrays(registers) == [
        ("18", 1, "data", ("4K", "2M/4M"), 96, 6), ("18", 2, "load", ("4K", "4M", "1G"), 15, 3),
        ("18", 7, "store", ("2M",), 14, 2),
    ]  # fmt: skip


def test_descriptors_of_leaf_2() -> None:
    """A byte each; the lowest one of EAX is none, and a register with the highest bit set has none."""
    found = cpuid.arrays(
        {(2, 0): (0x03_05_55_03, 0x80_00_00_03, 0x00_00_00_57, 0xB1_00_00_00 & 0x7FFFFFFF | 0x5A << 16)}
    )
    assert [(array.kind, array.pages, array.entries) for array in found] == [
        ("data", ("2M/4M",), 32), ("data", ("4K",), 16), ("data", ("4K",), 64), ("instruction", ("2M/4M",), 7),
        ("data", ("4M",), 32),
    ]  # fmt: skip


def test_fields_of_amd() -> None:
    registers = {(0x80000005, 0): (0x08_20_FF_10, 0x02_40_01_08, 0, 0),
    (0x80000006, 0): (0x5_200_F_100, 0x8_003_0_005, 0, 0),
                 (0x80000019, 0): (0xF_040_1_002, 0x4_010_2_008, 0, 0),
                 (1, 0): (0xF << 8 | 0x0A << 20, 0, 0, 0)}  # fmt: skip
    large = ("2M/4M",)
    expected = [
        ("80000005", 1, "data", large, 0x20, 8), ("80000005", 1, "instruction", large, 16, 16),
        ("80000005", 1, "data", ("4K",), 64, 2),
        ("80000005", 1, "instruction", ("4K",), 8, 1), ("80000006", 2, "data", large, 0x200, 6),
        ("80000006", 2, "instruction", large, 0x100, 0x100), ("80000006", 2, "data", ("4K",), 3, 16),
        ("80000019", 1, "data", ("1G",), 64, 64), ("80000019", 1, "instruction", ("1G",), 2, 1),
        ("80000019", 2, "data", ("1G",), 16, 4), ("80000019", 2, "instruction", ("1G",), 8, 2),
    ]  # fmt: skip
    assert cpuid.arrays(registers) == sorted(expected)
    newer = registers | {(1, 0): (0xF << 8 | 0x0B << 20, 0, 0, 0)}
    by_32 = [(*a[:4], a[4] * 32, a[5] * 32 if a[5] == a[4] else a[5]) if a[1] == 2 else a for a in expected]
    assert cpuid.arrays(newer) == sorted(by_32) == cpuid.arrays(registers | {(0x80000021, 0): (1 << 14, 0, 0, 0)})
    assert cpuid.arrays(registers | {(0x80000021, 0): (1 << 13, 1 << 14, 0, 0)}) == sorted(expected)


def test_instruction_and_names_by_their_bits() -> None:
    assert [cpuid.broadcast_pages({(0x80000008, 0): (1, ebx, 2, 7 << 16 | 6)}) for ebx in (0, 8, 4, 16, 24)] == [
        0,
        7,
        0,
        0,
        7,
    ]
    words = [int.from_bytes(b"Genu", "little"), int.from_bytes(b"ntel", "little"), int.from_bytes(b"ineI", "little")]
    assert cpuid.text({(0, 0): (9, *words)}) == "GenuineIntel"
    brand = {
        (0x80000002 + k, 0): tuple(
            int.from_bytes(b" A%d " % (4 * k + i), "little") if 4 * k + i < 9 else 0 for i in range(4)
        )
        for k in range(3)
    }
    assert cpuid.text(brand | {(0, 0): (9, *words)}) == "A0 A1 A2 A3 A4 A5 A6 A7 A8"


@pytest.mark.parametrize("name", sorted(REGISTERS))
def test_each_part_gives_a_machine_that_runs(name: str, tmp_path: Path) -> None:
    flags = frozenset(("la57", "pdpe1gb", "pcid", "hypervisor"))
    seen = host.Seen(REGISTERS[name], flags, cpus=8, ghz=2.5, ghz_source="measured: a test says it")
    table = host.table(seen)
    (tmp_path / "m.toml").write_text(host.toml(table, seen.unseen), encoding="utf-8")
    read = presets.read(str(tmp_path / "m.toml"))
    assert read == table and read["walk"]["levels"] == 5 and read["time"]["ghz"] == 2.5
    assert any("virtual one" in what for what in seen.unseen)
    assert (tmp_path / "m.toml").read_text(encoding="utf-8").startswith("# Not seen: ")
    presets.machine(read)


def test_broadcast_invalidations_are_those_that_cpuid_tells_of() -> None:
    """INVLPGB: server parts of Zen 4 and 5, and no desktop part; a machine that is detected has it where its Linux uses it."""
    told = {name: cpuid.broadcast_pages(registers) for name, registers in REGISTERS.items()}
    assert {name: pages for name, pages in told.items() if pages} == {"zen4-epyc": 8, "zen5-epyc": 8}
    for name, pages in told.items():
        assert presets.read(name)["invalidate"].get("broadcast_pages", 0) == pages
        for linux, used in (((6, 14), 0), ((6, 15), pages)):
            seen = host.Seen(REGISTERS[name], cpus=8, ghz=2.5, ghz_source="measured: a test says it", linux=linux)
            assert host.table(seen)["invalidate"].get("broadcast_pages", 0) == used


def test_zen_5_counts_in_units_of_32_even_where_a_hypervisor_hides_it() -> None:
    masked = {at: value for at, value in REGISTERS["zen5-epyc"].items() if at[0] not in (0x80000021, 0x80000019)}
    assert {a.entries for a in cpuid.arrays(masked) if a.level == 2} == {4096, 2048}


@pytest.mark.parametrize("name", ["i7-8700k", "zen4-epyc"])
def test_an_estimate_is_that_of_the_preset_that_it_names(name: str) -> None:
    """And of the machine whose documents it names: INVLPGB is used from four CPUs on (Linux, consider_global_asid)."""
    table = host.table(host.Seen(REGISTERS[name], cpus=8, ghz=3.7, ghz_source="measured: a test", linux=(6, 15)))
    checked = 0
    for part in ("walk", "invalidate", "time"):
        for key, source in table[part]["source"].items():
            if "as the preset sapphire-rapids has" in source and key != "syscall_ns":  # which follows the clock
                assert table[part][key] == presets.read("sapphire-rapids")[part][key], key
                checked += 1
    costs, preset = table["invalidate"], presets.read("sapphire-rapids")
    for key in ("invlpg_cycles", "shootdown_cycles", "shootdown_cpu_cycles"):
        assert costs[key] / 3.7 == pytest.approx(preset["invalidate"][key] / preset["time"]["ghz"], rel=0.01), key
    assert checked == 2 and table["invalidate"].get("broadcast_from", 4) == 4
    assert table["invalidate"]["cores"] == 8 and table["invalidate"]["ceiling"] == 33
    assert host.table(host.Seen(REGISTERS[name], ceiling=77))["invalidate"]["ceiling"] == 77


def test_numbers_of_a_detected_machine() -> None:
    """Estimates in ns at 2 GHz; an eighth of a cache's lines hold entries of page tables, of a shared one a core's part."""
    caches = {(4, 0): (1 | 1 << 5 | 1 << 14, 11 << 22 | 63, 63, 0), (4, 1): (3 | 2 << 5 | 1 << 14, 15 << 22 | 63, 2047, 0),
              (4, 2): (3 | 3 << 5 | 31 << 14, 11 << 22 | 63, 40959, 0), (4, 3): (3 | 4 << 5, 63, 1, 0)}  # fmt: skip
    leaf_18 = {
        (0x18, 0): (2, 0, 0, 0),
        (0x18, 1): (0, 4 << 16 | 1, 16, 1 | 1 << 5),
        (0x18, 2): (0, 8 << 16 | 1, 8, 2 | 1 << 5),
    }
    seen = host.Seen(caches | leaf_18 | {(0, 0): (9, 1, 2, 3)}, cpus=8, ghz=2.0, ghz_source="measured: a test says it")
    table = host.table(seen)
    memory = [(entry["name"], entry["entries"], entry["ways"], entry["cycles"]) for entry in table["walk_memory"]]
    # 48 KiB, 2 MiB, and 30 MiB of 16 cores of which 8 are there: the most that a machine has room for, in sets of 12 ways
    assert memory == [("l1d", 96, 12, 5), ("l2", 4096, 16, 15), ("l3", 7680, 12, 60)]
    numbers = {
        part: {key: value for key, value in table[part].items() if key != "source"}
        for part in ("walk", "invalidate", "time")
    }
    assert numbers == {
        "walk": {"levels": 4, "largest_page": "2MiB", "memory_cycles": 180, "scm_cycles": 610, "walkers": 2},
        "invalidate": {"cores": 8, "ceiling": 33, "invlpg_cycles": 200, "flush_cycles": 500, "shootdown_cycles": 4280,
                       "shootdown_cpu_cycles": 75, "pcid": 0},
        "time": {"ghz": 2.0, "cpi": 1.0, "stlb_hit_cycles": 7, "walk_hidden": 0.0, "copy_gb_s": 7.1, "lines_in_flight": 16,
                 "syscall_ns": 60},
    }  # fmt: skip
    assert [(entry["entry"], entry["entries"], entry["ways"]) for entry in table["walk_cache"]] == [
        ("pde", 32, 8),
        ("pdpte", 4, 4),
        ("pml4e", 4, 4),
    ]
    told = host.table(
        host.Seen(
            seen.registers | {(0x80000008, 0): (0, 8, 0, 7)},
            frozenset(("pcid", "pdpe1gb")),
            8,
            2.0,
            "measured",
            5,
            (6, 15),
        )
    )
    assert told["invalidate"] | {"source": 0} == numbers["invalidate"] | {
        "pcid": 1, "ceiling": 5, "broadcast_pages": 8, "broadcast_from": 4, "broadcast_cycles": 200, "sync_cycles": 1180,
        "source": 0,
    }  # fmt: skip
    assert told["walk"]["largest_page"] == "1GiB" and len(seen.unseen) == 2
    slow = host.Seen(seen.registers)
    assert host.table(slow)["time"]["ghz"] == 3.0 and len(slow.unseen) == 3


def test_arrays_that_share_a_page_size_are_one() -> None:
    def told(
        *arrays: tuple[tuple[str, ...], int, int], kind: str = "data", is_amd: bool = False, level: int = 1
    ) -> list[tuple]:
        found = [cpuid.Array("18", level, kind, *array) for array in arrays]
        return [
            (e["name"], e["pages"], e["entries"], e["ways"], e.get("coalesce")) for e in host.tlbs(found, is_amd=is_amd)
        ]

    assert told((("4K",), 64, 4), (("2M/4M",), 32, 4)) == [
        ("l1-data-4kib", ["4KiB"], 64, 4, None),
        ("l1-data-2mib", ["2MiB"], 32, 4, None),
    ]
    assert told((("4K", "2M"), 64, 4), (("2M", "1G"), 16, 4)) == [
        ("l1-data-4kib", ["4KiB"], 64, 4, None), ("l1-data-2mib", ["2MiB"], 80, 4, None), ("l1-data-1gib", ["1GiB"], 16, 4,
        None),
    ]  # fmt: skip
    assert told((("4K",), 64, 4), (("4K",), 32, 2)) == [("l1-data-4kib", ["4KiB"], 96, 6, None)]  # 16 sets each
    assert told((("4K",), 64, 4), (("4K",), 64, 4)) == [("l1-data-4kib", ["4KiB"], 128, 4, None)]
    amd = told((("4K",), 64, 64), (("2M/4M",), 64, 64), (("1G",), 16, 16), is_amd=True)
    assert amd == [("l1-data-4kib-2mib", ["4KiB", "2MiB"], 64, 64, 4), ("l1-data-1gib", ["1GiB"], 16, 16, None)]
    for entries, ways in ((2048, 16), (3072, 24), (4096, 16)):
        assert told((("4K",), entries, 8), (("2M/4M",), entries, 4), is_amd=True, level=2)[0][2:] == (entries, ways, 8)
    assert told((("4K",), 512, 8), (("2M/4M",), 512, 4), kind="instruction", is_amd=True, level=2) == [
        ("l2-instruction-4kib-2mib", ["4KiB", "2MiB"], 512, 8, None),
    ]  # fmt: skip


def test_cores_are_pairs_of_package_and_core() -> None:
    threads = [(0, 0), (0, 1), (0, 0), (0, 1), (1, 0), (1, 1)]
    lines = "".join(f"processor\t: 9\nphysical id\t: {a}\nsiblings\t: 4\ncore id\t\t: {b}\n\n" for a, b in threads)
    assert host._cores(lines) == 4


def test_a_cpu_that_tells_nothing_is_an_error_of_the_environment() -> None:
    silent = {at: value for at, value in REGISTERS["i7-8700k"].items() if at[0] not in (2, 0x18)}
    with pytest.raises(EnvironmentProblem, match="reports no TLBs"):
        host.table(host.Seen(silent, ghz=1.0))


@pytest.mark.skipif(not ON_X86, reason="this machine is no x86 with Linux")
def test_this_machine(tmp_path: Path) -> None:
    before = os.sched_getaffinity(0)
    seen = host.look()
    assert os.sched_getaffinity(0) == before and seen.registers[0, 0][0] >= 1 and seen.ghz > 0
    vendor = cpuid.text({(0, 0): seen.registers[0, 0]})
    told = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    assert f": {vendor}\n" in told and f": {cpuid.text(seen.registers)}\n" in " ".join(told.split(" ")).replace(
        "  ", " "
    )
    done = CliRunner().invoke(cli.main, ["machine", "detect", "-o", str(tmp_path / "m.toml")])
    if done.exit_code == 3:
        assert "reports no TLBs" in done.stderr
        pytest.skip("CPUID of this machine reports no TLBs")
    assert done.exit_code == 0 and "not seen: " in done.stdout
    assert presets.read(str(tmp_path / "m.toml")) == presets.read("host")
    bad = CliRunner().invoke(cli.main, ["machine", "detect", "--cpu", "99999"])
    assert bad.exit_code == 3 and "no CPU 99999 here" in bad.stderr


@pytest.mark.parametrize(
    ("leaf", "there"),
    [
        (0, True),
        (21, True),
        (22, True),
        (23, False),
        (0x80000000, True),
        (0x80000005, True),
        (0x8000001F, True),
        (0x80000020, False),
    ],
)
def test_the_highest_leaf_of_each_half_says_which_there_are(leaf, there):
    highest = {0: (22, 0, 0, 0), 0x80000000: (0x8000001F, 0, 0, 0)}
    assert host._has(lambda asked, sub: highest[asked], leaf) == there


# Where a preset's data caches are not those of CPUID, and why: its source says it.
OTHER_CACHES = {
    "core2-q8200": {2: ("3MiB", 12, "2MiB", 8)},  # the dump is of a Q9300
    "e5-2640v4": {3: ("20MiB", 20, "25MiB", 20)},  # the dump's part has fewer cores
}


@pytest.mark.parametrize("name", sorted(REGISTERS))
def test_the_caches_of_a_preset_are_what_cpuid_says_but_for_what_is_explained(name: str) -> None:
    preset, different = presets.read(name), {}
    seen = {cache.level: cache for cache in cpuid.caches(REGISTERS[name])}
    assert len(seen) == len(preset["cache"]) and preset["flush"] == cpuid.flush_instruction(REGISTERS[name])
    for level, entry in enumerate(preset["cache"], 1):
        told = (format_bytes(seen[level].size), seen[level].ways)
        if told != (entry["size"], entry["ways"]):
            different[level] = (*told, entry["size"], entry["ways"])
        if level > 1:
            assert (entry["fill"] == "inclusive") == seen[level].is_inclusive
    assert different == OTHER_CACHES.get(name, {})


def test_the_caches_of_a_detected_machine_are_those_of_its_preset() -> None:
    """But for how a last level is filled, which CPUID does not say of Intel's."""
    for name in ("i7-8700k", "zen1", "zen4-epyc", "lion-cove"):
        table, preset = host.table(host.Seen(REGISTERS[name], cpus=8, ghz=3.7)), presets.read(name)
        shapes = [
            [(e["name"], e["size"], e["ways"], e.get("fill", "non-inclusive")) for e in machine["cache"]]
            for machine in (table, preset)
        ]
        assert shapes[0] == shapes[1] and table["flush"] == preset["flush"]


def test_the_instruction_of_a_flush_is_the_best_that_there_is() -> None:
    told = {bits: cpuid.flush_instruction({(7, 0): (0, bits, 0, 0)}) for bits in (0, 1 << 23, 1 << 24, 3 << 23)}
    assert told == {0: "clflush", 1 << 23: "clflushopt", 1 << 24: "clwb", 3 << 23: "clwb"}
