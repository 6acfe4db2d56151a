"""The thesis on the TLB overhead of ext4, ext4-DAX and NOVA (University of Maine, 2020): its chapters 4 and 5.

It ran Linux 4.1 and the NOVA of 2016 on an i7-8700K with DRAM as persistent memory.  The models are NOVA's FAST'16 variant and
ext4 with the costs of a 5.13 kernel: in 4.1 an append of ext4-DAX went through direct I/O on indirect blocks, a shorter way than
the journalled one of 5.13 (7,300 loads and stores, where its figures need about 1,700).  Ratios to ext4-DAX inherit that.
"""

import math
from functools import cache
from typing import cast

from scmsim.core.records import Source
from scmsim.reproduce.replays import replay
from scmsim.reproduce.rows import Answer, full_only
from scmsim.result import Run
from scmsim.workload import filebench, microbench

TITLE = "TLB overhead of NVM file systems (thesis, 2020)"
SOURCES = ("nvm-tlb-thesis",)

MACHINE = "i7-8700k-thesis"
NOVA, EXT4, DAX = "nova-fast16", "ext4", "ext4-dax"
ALL = f"{EXT4},{DAX},{NOVA}"
KI, MI, GI = 1 << 10, 1 << 20, 1 << 30
OTHER_KERNEL = "costs of a 5.13 kernel, the thesis ran 4.1 (ext4-DAX by direct I/O on indirect blocks)"
MANY_GIB = full_only("24 GiB of appends")


@cache
def _appends(systems: str, unit: int, total: int, paging: str = "directmap-1g") -> dict[str, Run]:
    params = (
        {DAX: {"copy_fence": 0}} if DAX in systems.split(",") else {}
    )  # the time of 4.1's direct I/O, as published here
    work = cast(Source, microbench.Workload("append", unit, total))
    return {run.fs: run for run in replay(work, systems, MACHINE, paging=paging, params=params).runs}


@cache
def _filebench(personality: str) -> dict[str, Run]:
    return {run.fs: run for run in replay(cast(Source, filebench.Workload(personality=personality)), ALL, MACHINE).runs}


def _metric(run: Run, name: str) -> float:
    return run.metrics[name] or 0.0


def _traffic(run: Run) -> float:
    return _metric(run, "tlb_traffic")


def _share(run: Run, *sites: str) -> float:
    """Percent of the run's loads and stores that the sites retired."""
    fields = ("mem_inst_retired_all_loads", "mem_inst_retired_all_stores")
    return 100 * sum(run.sites.get(site, {}).get(field, 0) for site in sites for field in fields) / _traffic(run)


def _matrix(quick: bool, metric: str, paging: str = "directmap-1g") -> tuple[float, float]:
    """Least and greatest value of a metric over units and file systems."""
    total = 64 * MI if quick else 10 * GI
    units = (KI, 64 * KI, 4 * MI) if quick else tuple(KI << i for i in range(13))
    values = [_metric(run, metric) for unit in units for run in _appends(ALL, unit, total, paging).values()]
    return min(values), max(values)


def _data_walks(quick: bool) -> Answer:
    low, high = _matrix(quick, "walk_cycles_percent_data", "base-4k")
    note = (
        "persistent memory on 4 KiB pages, the upper bound: on the direct map's 1 GiB pages walks are below 0.1 %. The models "
        "walk for the calls alone; the published share is of a whole machine"
    )
    return Answer((round(low, 4), round(high, 4)), "derived", note)


def _code_walks(quick: bool) -> Answer:
    note = "an upper bound, and without footprints the code of one call never misses: nothing could exceed it"
    return Answer(round(_matrix(quick, "walk_cycles_percent_instruction")[1], 6), "not comparable", note)


def _against_ext4(personality: str, quick: bool) -> Answer:
    runs = _filebench(personality)
    ratio = {fs: _traffic(run) / _traffic(runs[EXT4]) for fs, run in runs.items()}
    each = f"loads and stores for the same calls: nova {ratio[NOVA]:.2f}, ext4-dax {ratio[DAX]:.2f} of ext4's"
    if personality == "varmail":
        why = "Filebench runs for a set time, so calls done enter the published ratio; waiting for the journal is not modelled"
        return Answer(round(ratio[NOVA], 3), "derived", f"{each}. {why}")
    return Answer(round((ratio[NOVA] + ratio[DAX]) / 2, 3), "derived", each)


def _miss_rate(personality: str, quick: bool) -> Answer:
    rates = [_metric(run, "tlb_miss_percent") for run in _filebench(personality).values()]
    mean = sum(rates) / len(rates)
    note = f"mean of three; the programs of Filebench are not modelled, whose pages miss too ({min(rates):.3f} to {max(rates):.3f})"
    return Answer(round(mean, 3), "derived", note)


def _fwrite(quick: bool) -> Answer:
    runs = _appends(f"{DAX},{NOVA}", 4 * KI, 64 * MI)  # stdio hands over whole buffers of 4 KiB
    return Answer(round(_traffic(runs[DAX]) / _traffic(runs[NOVA]), 3), "derived", OTHER_KERNEL)


def _nova_over_dax(gigabytes: int, quick: bool) -> Answer:
    if quick:
        return MANY_GIB
    nova, dax = (_appends(fs, KI, gigabytes * GI)[fs] for fs in (NOVA, DAX))
    return Answer(round(_traffic(nova) / _traffic(dax), 3), "derived", OTHER_KERNEL)


def _loads_per_store(quick: bool) -> Answer:
    runs = [run for unit in (KI, 4 * KI, 64 * KI) for run in _appends(ALL, unit, 64 * MI).values() if run.fs != EXT4]
    each = [_metric(run, "tlb_loads_per_store") for run in runs]
    return Answer(round(sum(each) / len(each), 3), "derived", "mean over NOVA and ext4-DAX, units of 1, 4 and 64 KiB")


def _growth(quick: bool) -> Answer:
    small, large = (_traffic(_appends(DAX, 64 * KI, total)[DAX]) for total in (64 * MI, GI))
    exponent = math.log(large / small) / math.log(16)
    return Answer(round(exponent, 3), "derived", "64 MiB against 1 GiB of appends", abs(exponent - 1) < 0.05)


def _scan(unit: int, quick: bool, *sites: str) -> Answer:
    if quick:
        return MANY_GIB
    run = _appends(NOVA, unit, 24 * GI)[NOVA]
    return Answer(
        round(_share(run, *sites), 2), "derived", "loads and stores of " + " + ".join(sites) + "; " + OTHER_KERNEL
    )


def _nova_traffic(quick: bool) -> Answer:
    if quick:
        return MANY_GIB
    return Answer(_traffic(_appends(NOVA, KI, 24 * GI)[NOVA]), "derived", OTHER_KERNEL)


def _extra(quick: bool) -> Answer:
    extra = [
        100 * (_traffic(runs[NOVA]) / min(_traffic(runs[EXT4]), _traffic(runs[DAX])) - 1)
        for runs in (*(_appends(ALL, unit, 64 * MI) for unit in (KI, 64 * KI, 4 * MI)), *map(_filebench, PERSONALITIES))
    ]
    return Answer(
        round(max(extra), 1),
        "derived",
        "NOVA's loads and stores beyond the better of ext4 and ext4-DAX, worst case; 'up to 50 %' wants at least half of that",
        least=25,
    )


PERSONALITIES = ("fileserver", "webserver", "varmail")
CACHES = Answer(
    None,
    "not comparable",
    "data caches are not modelled; the thesis' array is never initialised, so every read hits the one page of zeros",
)
OLD_PATH = Answer(
    None, "not comparable", "dax_do_io of 4.1 holds look-up, allocation and copy; 5.13 has no such function"
)
WITH_CALLEES = Answer(
    None,
    "not comparable",
    "the profile gives a function with the functions it calls; sites are mechanisms, not functions",
)
OLD_KERNEL = "ext4-DAX costs what Linux 5.13 does; 4.1's structure would take 0.7 of that (docs/reproduce.md), a quarter is needed"
PER_CALL = "not known: for the same estimated time, as Filebench runs, it is 0.73 (docs/reproduce.md)"
PROGRAM = "neither the kernel's own objects nor what else runs change it (docs/systems.md); the program's own pages are not known"
REASONS = {
    "TLB-1": PROGRAM,
    "TLB-5": PER_CALL,
    "TLB-7": PROGRAM,
    "TLB-8": PROGRAM,
    "TLB-9": OLD_KERNEL,
    "TLB-10": OLD_KERNEL,
    "TLB-11": OLD_KERNEL,
    "TLB-12": OLD_KERNEL,
    "TLB-24": OLD_KERNEL,
}

ANSWERS = {
    "TLB-1": _data_walks,
    "TLB-2": _code_walks,
    "TLB-3": _code_walks,
    "TLB-4": lambda quick: CACHES,
    "TLB-5": lambda quick: _against_ext4("varmail", quick),
    "TLB-6": lambda quick: _against_ext4("webserver", quick),
    "TLB-7": lambda quick: _miss_rate("webserver", quick),
    "TLB-8": lambda quick: _miss_rate("varmail", quick),
    "TLB-9": _fwrite,
    "TLB-10": lambda quick: _nova_over_dax(4, quick),
    "TLB-11": lambda quick: _nova_over_dax(16, quick),
    "TLB-12": lambda quick: _nova_over_dax(24, quick),
    "TLB-13": _loads_per_store,
    "TLB-14": _growth,
    "TLB-15": _nova_traffic,
    "TLB-16": lambda quick: _scan(KI, quick, "log scan"),
    "TLB-17": lambda quick: _scan(4 * KI, quick, "log scan"),
    "TLB-18": lambda quick: _scan(16 * KI, quick, "log scan"),
    "TLB-19": lambda quick: _scan(KI, quick, "log extension"),
    "TLB-20": lambda quick: _scan(4 * KI, quick, "data copy"),
    "TLB-21": lambda quick: _scan(16 * KI, quick, "data copy"),
    "TLB-22": lambda quick: OLD_PATH,
    "TLB-23": lambda quick: WITH_CALLEES,
    "TLB-24": _extra,
}
