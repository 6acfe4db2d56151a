"""The reasons of `scmsim reproduce` put to the test: what the reason of a row names is changed, and its figure moves or does not.

Run: python -m tests.verification.reasons [scmfs|thesis|vsm|scm_manager] [--long]   (Markdown; a minute, with --long five)
A line has the figure as it is, the same with the change, and what was published.  docs/reproduce.md says what follows from it.
"""

import contextlib
import sys
from collections.abc import Iterator
from functools import cache
from statistics import mean
from typing import Any, NamedTuple

import numpy as np

from scmsim.core.records import READ, SETUP, WRITE
from scmsim.fs.engine import costs
from scmsim.pipeline import replay
from scmsim.reproduce import scm_manager, scmfs, thesis, vsm
from scmsim.result import Run
from scmsim.workload import filebench, memory_objects, postmark

Figures = tuple[float, ...]
LONG = "--long"  # TLB-11, -12 and -24 too: up to 24 GiB


class Line(NamedTuple):
    """A change, and what it does to a row."""

    row: str
    change: str
    before: Figures
    after: Figures
    published: str


@contextlib.contextmanager
def instructions(table: str, **counts: float) -> Iterator[None]:
    """Within it, those costs of a table take `counts` instructions."""

    def change(name: str, found: dict[str, Any]) -> dict[str, Any]:
        changed = {cost: {**found[cost], "instructions": count} for cost, count in counts.items() if name == table}
        return {**found, **changed}

    with costs.changed(change):
        yield


# SCMFS


def of_sizes() -> Iterator[Line]:
    """SCMFS-3: the size of Postmark's files."""
    large = postmark.Workload(
        files=16, transactions=32, size_low=4 << 10, size_high=256 << 20, buffering=0, read=256 << 10, write=256 << 10
    )
    small, large_files = (scmfs._waste_percent(trace) for trace in (scmfs.mail(False)[0], large))
    yield Line("SCMFS-3, Postmark", "files of up to 256 MiB, not 8 MiB", (small,), (large_files,), "at most 1 %")


# The thesis


TWO, KI = (thesis.NOVA, thesis.DAX), 1 << 10
FWRITES = (
    4 * 145
)  # loads and stores of four fwrite() of 1 KiB, by valgrind --tool=lackey --detailed-counts=yes (glibc 2.36, AVX2)
PROGRAM = 5  # the same of Program 1's loop and write() (gcc -O0)


def of_set_time() -> Iterator[Line]:
    """TLB-5: Filebench runs for a set time, so a system that is faster has more loads and stores."""
    runs = thesis._filebench("varmail")
    nova, ext4 = (runs[fs] for fs in (thesis.NOVA, thesis.EXT4))
    same_calls = thesis._traffic(nova) / thesis._traffic(ext4)
    faster = sum(ext4.time_ns.values()) / sum(nova.time_ns.values())
    yield Line("TLB-5", "for the same estimated time, not the same calls", (same_calls,), (same_calls * faster,), "5")


def of_file(row: str, total: int, there: str) -> Iterator[Line]:
    """The file of ten runs: a new one each time, one on NOVA too; of the last TLB-24 too."""
    new = {fs: thesis._traffic(thesis._writes(fs, KI, total)[fs]) for fs in TWO}
    nova, dax = (thesis._of_ten(fs, total) for fs in TWO)
    as_it_is, own = (new[TWO[0]] / dax,), PROGRAM * (total // KI)
    yield Line(row, "a new file each time on both", as_it_is, (new[TWO[0]] / new[TWO[1]],), there)
    yield Line(row, "ten runs over one file on both", as_it_is, (nova / dax,), there)
    change = f"with the program's own {PROGRAM} loads and stores a call"
    yield Line(row, change, as_it_is, ((new[TWO[0]] + own) / (dax + own),), there)
    if row == "TLB-12":
        small = (float(str(thesis._extra(True).simulated)),)
        yield Line("TLB-24", "24 GiB by 1 KiB, not 64 MiB", small, (100 * (new[TWO[0]] / new[TWO[1]] - 1),), "50 %")


def of_files() -> Iterator[Line]:
    """TLB-10 to -12: which file a run writes over; TLB-9: what libc itself adds."""
    for row, gib, there in (("TLB-10", 4, "1.3"), ("TLB-11", 16, "2.5"), ("TLB-12", 24, "3.5")):
        if gib == 4 or LONG in sys.argv:
            yield from of_file(row, gib << 30, there)
    nova, dax = (thesis._traffic(thesis._writes(fs, 4 * KI, 1 << 30)[fs]) for fs in TWO)
    for whose, libc in (("glibc 2.36's, counted", FWRITES * (1 << 18)), ("as Figure 24 has it", thesis.LIBC * dax)):
        yield Line("TLB-9", f"with libc {whose}", (dax / nova,), ((dax + libc) / (nova + libc),), "1.5 to 2.5")


def of_misses() -> Iterator[Line]:
    """TLB-1: the pages that persistent memory lies on; TLB-7 and -8: what counts as a miss."""
    before, after = (
        max(thesis._metric(run, "walk_cycles_percent_data") for run in thesis._writes(thesis.ALL, 4 << 20, 64 << 20, how).values())
        for how in ("base-4k", "directmap-1g")
    )  # fmt: skip
    yield Line("TLB-1, 64 MiB by 4 MiB", "memory on pages of 1 GiB, not 4 KiB", (before,), (after,), "1 to 3")
    for row, personality, there in (("TLB-7", "webserver", "0.7"), ("TLB-8", "varmail", "0.6")):
        walks = mean(thesis._metric(run, "tlb_miss_percent") for run in thesis._filebench(personality).values())
        runs = replay(filebench.Workload(personality=personality), thesis.ALL, thesis.MACHINE).runs  # with footprints
        hits = [sum(run.counters.get(f"dtlb_{side}_misses_stlb_hit", 0) for side in ("load", "store")) for run in runs]
        first = mean(
            thesis._metric(run, "tlb_miss_percent") + 100 * hit / thesis._traffic(run)
            for run, hit in zip(runs, hits, strict=True)
        )
        yield Line(row, "first-level misses with footprints, not walks", (walks,), (first,), there)


# Virtual superpages

JOURNAL = dict.fromkeys(("transaction", "log_call", "log_entry"), 0.0)  # of PMFS
PER_WRITE = dict.fromkeys(("allocate", "append_entry", "assign_entry", "page_insert", "node_allocate"), 0.0)  # of NOVA


COPY_AS_PUBLISHED = 7.9  # GB/s: 2 MiB in 98 times 2.7 us (Figure 1)
THROUGH_CACHE = (
    2 / 3
)  # a line that is copied through the cache passes memory three times, not twice: its place is loaded too


def vsm_run(fs: str, source: Any, paging: str = "", gb_s: float = vsm.CORE_GB_S, **params: str | int) -> Run:
    """As `scmsim.reproduce.vsm.run`, with another paging; other CPUs need not forget, as the paper's figures leave it out."""
    machine = {**vsm.machine(), "time": {**vsm.machine()["time"], "copy_gb_s": gb_s, "load_gb_s": gb_s}}
    given = {**vsm.PARAMS[fs], **({"shootdown": vsm.LOCAL} if fs == "vsm" else {}), **params}
    return replay(source, fs, machine, paging=paging or vsm.PAGING.get(fs, "directmap-1g"), params={fs: given}).runs[0]


def took(run: Run, without: tuple[str, ...] = ()) -> float:
    """Nanoseconds of a run, less some terms of the estimate."""
    return sum(ns for term, ns in run.time_ns.items() if term not in without)


def reads(order: str, than: str, mine: dict[str, Any], theirs: dict[str, Any], unit: int | None = None) -> Figures:
    """Throughput of vsm's reads over another's, the mean over sizes; the file was laid out by writes of `unit` (0: one entry)."""
    ratios = []
    for size in vsm.SIZES:
        source = vsm.Requests(READ, order, size, 500, vsm.GIB // 4, unit)
        ratios.append(took(vsm_run(than, source, **theirs)) / took(vsm_run("vsm", source, **mine)))
    return (mean(ratios),)


def writes(
    fs: str, than: str, order: str, sizes: tuple[int, ...], gb_s: float = vsm.CORE_GB_S, mine: tuple[str, ...] = ()
) -> Figures:
    """Throughput of `fs`, without some terms of the estimate, over another's; a core moves `gb_s` each way."""
    ratios = []
    for size in sizes:
        source = vsm.Requests(WRITE, order, size, 500, vsm.GIB // 4)
        ratios.append(took(vsm_run(than, source, gb_s=gb_s)) / took(vsm_run(fs, source, gb_s=gb_s), mine))
    return (mean(ratios),)


def of_writes() -> Iterator[Line]:
    """VSM-7, -9 and -11: the bandwidth of a copy; VSM-13, -14, -16: what a swap takes besides the index."""
    for row, fs, order, there in (
        ("VSM-7", "pmfs-4k", "seq", "98"),
        ("VSM-9", "vsm", "seq", "94"),
        ("VSM-11", "vsm", "random", "225"),
    ):
        before = writes(fs, "pmfs-2m", order, (KI,))
        after = writes(fs, "pmfs-2m", order, (KI,), 2 * COPY_AS_PUBLISHED)
        yield Line(row, f"a core copies {COPY_AS_PUBLISHED} GB/s, not 5.6", before, after, there)
        after = writes(fs, "pmfs-2m", order, (KI,), THROUGH_CACHE * vsm.CORE_GB_S)
        yield Line(row, "a copied line passes memory three times, not twice", before, after, there)
    dear = ("invalidations", "fences")
    for row, than, order, there in (
        ("VSM-13", "pmfs-4k", "seq", "1.36"),
        ("VSM-14", "pmfs-4k", "random", "1.36"),
        ("VSM-16", "nova-fast16", "random", "1.22"),
    ):
        before, after = (writes("vsm", than, order, vsm.SIZES, mine=terms) for terms in ((), dear))
        yield Line(row, "VSM without INVLPG and fences", before, after, there)


def of_reads() -> Iterator[Line]:
    """VSM-19, -20, and the reads of VSM-23."""
    before, after = (reads("random", "pmfs-2m", {}, {"lookup": lookup}) for lookup in ("block", "page"))
    yield Line("VSM-23, random reads", "PMFS-2MB looks up each page, as its source does", before, after, "below 1")
    for row, order, there in (("VSM-19", "seq", "1.14"), ("VSM-20", "random", "1.11")):
        before = reads(order, "nova-fast16", {}, {})
        for change, after in (
            ("`vsm.entries=2MiB`", reads(order, "nova-fast16", {"entries": 2 << 20}, {})),
            ("the file was written by 4 KiB before", reads(order, "nova-fast16", {}, {}, 4096)),
            ("the file is one entry of NOVA's log", reads(order, "nova-fast16", {}, {}, 0)),
        ):
            yield Line(row, change, before, after, there)


@cache
def mail(fs: str, **params: str) -> float:
    """Milliseconds of the Postmark of VSM-21 to -23."""
    sizes = {"size_low": 2_000_000, "size_high": 6_000_000, "write": 4096, "read": 4096}
    run = vsm_run(fs, postmark.Workload(files=60, transactions=60, **sizes), capacity=4 * vsm.GIB, **params)
    return took(run) / 1e6


def of_mail() -> Iterator[Line]:
    """VSM-21 and -22, and Postmark of VSM-23."""
    before, after = (mail("vsm") / mail("pmfs-2m", version=version) for version in ("original", "dax"))
    change = "PMFS-2MB as ported to DAX kernels, which clears the rest of a new block"
    yield Line("VSM-23, Postmark (inverse)", change, (before,), (after,), "above 1")
    for row, than, table, none, there in (
        ("VSM-21", "pmfs-4k", "pmfs-5.13", JOURNAL, "0.67"),
        ("VSM-22", "nova-fast16", "nova-5.13", PER_WRITE, "0.82"),
    ):
        before = mail("vsm") / mail(than)
        mail.cache_clear()
        with instructions(table, **none):
            after = mail("vsm") / mail(than)
        mail.cache_clear()
        yield Line(row, f"no instructions for {', '.join(none)}", (before,), (after,), there)


# The SCM manager

SIZES = (512, 1024, 4096)
TIMES = 10
# ext2 of Linux 5.13 takes 17,719 instructions for a create and 4,035 for an open (costs/ext2-dax-5.13.toml), and ext2's open took
# 8,100 cycles of this board: the rest of a create, in its cycles, beside what an open costs here.
REST = (17_719 - 4_035) * 8_100 / 4_035
CREATE = {"fat-scm": 26_400 + REST, "ext2-scm": 6_400 + REST}
HOPS = 28  # from a chain's first object to each of the eight of 4096 bytes: 0 + 1 + ... + 7


def table_of(fs: str) -> str:
    """The cost table of a system."""
    return "fat-scm" if fs.startswith("fat") else fs


def micro(
    fs: str,
    op: str,
    size: int = 512,
    others: int = 0,
    at: int = 0,
    params: dict[str, str] | None = None,
    **counts: float,
) -> float:
    """Microseconds of an operation of Table 3 in a directory with `others` files, a transfer at offset `at`."""
    calls = [("create", 0, 0), ("close", 0, 0), ("open", 0, 0), ("write", 0, at + size), ("close", 0, 0)]
    calls += [("open", 0, 0), ("read", at, size), ("close", 0, 0)]
    rows = [("create", i, 0, 0, 0, SETUP) for i in range(1, others + 2)]
    for i in range(others + 2, others + 2 + TIMES):
        rows += [(name, i, offset, length, 0 if name == "create" else -1, 0) for name, offset, length in calls]
        rows.insert(-2, ("read", i, 0, 512, -1, SETUP))  # the walk of the one that counts begins at the first object
        rows.append(("unlink", i, 0, 0, 0, SETUP))
    cold = {} if fs == "scm-manager" else {"mount": "sync", "page_cache": "cold"}
    with instructions(table_of(fs), **counts):
        run = scm_manager.run(fs, scm_manager._Rows(rows, others + 2 + TIMES), "", **{**cold, **(params or {})})
    times = 2 * TIMES if op == "open" else TIMES
    return scm_manager.nanoseconds(run, op, times) / times / 1000


def each(fs: str, op: str, **how: Any) -> Figures:
    """The three sizes of Table 3."""
    return tuple(micro(fs, op, size, **how) for size in SIZES)


def of_calls() -> Iterator[Line]:
    """SCMM-9 and SCMM-11 to -16."""
    for fs, there in (("fat-scm", "200"), ("ext2-scm", "332")):
        yield Line(
            f"SCMM-9, {fs}",
            "400 other files in the directory",
            (micro(fs, "create"),),
            (micro(fs, "create", others=400),),
            there,
        )
        cost = CREATE[fs]
        yield Line(
            f"SCMM-9, {fs}",
            "a create's own work, as of 5.13's ext2",
            (micro(fs, "create"),),
            (micro(fs, "create", create=cost),),
            there,
        )
    writes = "SCMM-11 to -13, "
    there = "346, 541, 1,717"
    yield Line(
        writes + "fat-scm",
        "50 us more a sector (`request` + 20,000)",
        each("fat-scm", "write"),
        each("fat-scm", "write", request=20_654),
        there,
    )
    there = "55,739, 135,024, 305,947"
    for change, how in (
        ("`fat-nand.replacements=2`", {"params": {"replacements": "2"}}),
        (
            "the longest times of the data sheet (program 500 us, erase 3 ms)",
            {"nand_program": 2e5, "nand_erase": 1.2e6},
        ),
    ):
        yield Line(writes + "fat-nand", change, each("fat-nand", "write"), each("fat-nand", "write", **how), there)
    before, there = each("scm-manager", "write"), "51, 105, 732"
    hop = (micro("scm-manager", "read", 512, at=3584) - micro("scm-manager", "read", 512)) / 7
    walked = tuple(time + hops * hop for time, hops in zip(before, (0, 1, HOPS), strict=True))
    yield Line(
        writes + "scm-manager", f"a walk from the first object to each ({hop:.2f} us an object)", before, walked, there
    )
    yield Line(
        writes + "scm-manager",
        "50.8 us more an allocation (`take_unit` + 20,330)",
        before,
        each("scm-manager", "write", take_unit=24_550),
        there,
    )
    yield Line(
        "SCMM-9, scm-manager",
        "the same",
        (micro("scm-manager", "create"),),
        (micro("scm-manager", "create", take_unit=24_550),),
        "66",
    )
    before, there = each("fat-nand", "read"), "21,198, 26,275, 43,995"
    for change, cost in (("a page of the array takes 450 us, not 15", 180_000), ("a page takes 3.26 ms", 1_300_000)):
        yield Line("SCMM-14 to -16, fat-nand", change, before, each("fat-nand", "read", nand_read=cost), there)


def calls_of_mail(fs: str, mount: str, **counts: float) -> float:
    """Seconds of the calls of Table 4's Postmark."""
    with instructions(table_of(fs), **counts):
        run = scm_manager.run(fs, postmark.Workload(), **({} if fs == "scm-manager" else {"mount": mount}))
    return scm_manager.nanoseconds(run, None, run.calls) / 1e9


def of_own_work() -> Iterator[Line]:
    """SCMM-19, -20: what synchronous writes add, and what FAT and ext2 add to the SCM manager, hold no work of the program."""
    manager = calls_of_mail("scm-manager", "")
    dear = calls_of_mail("scm-manager", "", name=600)
    for fs, added, over in (("fat-scm", "8 - 5", "5 - 2"), ("ext2-scm", "4 - 3", "3 - 2")):
        here = calls_of_mail(fs, "async")
        more = calls_of_mail(fs, "sync") - here
        slower = calls_of_mail(fs, "sync", request=20_654) - here
        yield Line(f"SCMM-19 less -20, {fs}", "50 us more a sector", (more,), (slower,), added)
        named = calls_of_mail(fs, "async", name=600) - dear
        row = f"SCMM-20, {fs} less scm-manager"
        yield Line(row, "a name compared takes ten times as long", (here - manager,), (named,), over)
        lacking = calls_of_mail(fs, "async", take_unit=80_400)
        change = "0.2 ms more a unit allocated, which SCMM-11 lacks"
        yield Line(row, change, (here - manager,), (lacking - manager,), over)
    for fs, there in (("fat-scm", "3.664, 0.531"), ("ext2-scm", "2.814, 0.509"), ("fat-nand", "103.2, 35.7")):
        apps = ("distillery", "cp")
        before = tuple(calls_of_program(fs, app) - calls_of_program("scm-manager", app) for app in apps)
        warm = tuple(
            calls_of_program(fs, app, page_cache="warm") - calls_of_program("scm-manager", app) for app in apps
        )
        yield Line(f"SCMM-21, -24, {fs} less scm-manager", "`page_cache=warm`", before, warm, there)


def calls_of_program(fs: str, app: str, **params: str) -> float:
    """Milliseconds of the calls of a program of Table 5 for 512 bytes."""
    kind = "objects" if fs == "scm-manager" else "files"
    source = memory_objects.Workload(app=app, interface=kind, repeats=TIMES)
    cold = {} if fs == "scm-manager" else {"mount": "sync", "page_cache": "cold"}
    run = scm_manager.run(fs, source, **{**cold, **params})
    touched = [scm_manager.OPS.index(op) for op in scm_manager.OBJECT_OPS]
    calls = run.calls - sum(int(np.isin(batch.op, touched).sum()) for batch in source.batches())
    pieces = sum(-(-size // memory_objects.PIECE) for size in memory_objects.FILES)
    return scm_manager.nanoseconds(run, None, calls) / TIMES / 1e6 / pieces


EXPERIMENTS = {
    "scmfs": (of_sizes,),
    "thesis": (of_set_time, of_files, of_misses),
    "vsm": (of_writes, of_reads, of_mail),
    "scm_manager": (of_calls, of_own_work),
}


def figures(values: Figures) -> str:
    """As a cell of the table: three digits."""
    return ", ".join(f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}" for value in values)


def main() -> None:
    """Print the experiments of the documents that are named, or of all."""
    print("| row | what is changed | as it is | changed | published |\n|---|---|---|---|---|")
    for document in [name for name in sys.argv[1:] if name != LONG] or EXPERIMENTS:
        for experiment in EXPERIMENTS[document]:
            for line in experiment():
                row = (line.row, line.change, figures(line.before), figures(line.after), line.published)
                print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
