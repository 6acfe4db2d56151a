"""Experiments on the rows of the thesis."""

import sys
from collections.abc import Iterator
from statistics import mean

from scmsim.pipeline import replay
from scmsim.reproduce import thesis
from scmsim.workload import filebench
from tests.verification.reasons.lines import LONG, Line

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


EXPERIMENTS = (of_set_time, of_files, of_misses)
