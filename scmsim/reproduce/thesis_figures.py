"""Draw the thesis's figures from the models, with numbers printed in the thesis as points.

Left out are Figures 8 to 13 (see matrix.py), 1 and 2 (drawings), 14 to 16 (data caches, not modelled), and the hard disk (not
modelled).
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple, cast

from scmsim.core.records import Source
from scmsim.plot.documents import PUBLISHED, bars, lines, panels
from scmsim.plot.library import Chart, Rows
from scmsim.reproduce import thesis
from scmsim.reproduce.replays import replay
from scmsim.reproduce.thesis import ALL, DAX, EXT4, GI, KI, MACHINE, MI, NOVA
from scmsim.result import Result, Run
from scmsim.workload import iozone

UNITS = tuple(KI << i for i in range(0, 13, 2))
TOTALS = {26: 1, 27: 2, 28: 4, 29: 8, 30: 16, 31: 32}  # figure -> GiB written
STDIO_TOTALS = {18: 1, 19: 2, 20: 4, 21: 8, 22: 16, 23: 20}
STDIO_BUFFER = 4 * KI  # shorter fwrites are combined to writes of this length (workload/_stdio.py)
IOZONE = {5: ("0", "write and rewrite"), 6: ("0,4", "rewrite of one record"), 7: ("0,6", "fwrite and refwrite")}


class Profile(NamedTuple):
    """A figure of the thesis with shares of TLB traffic: the model's sites, and the published shares of the same code in %."""

    fs: str
    unit: int
    total: int  # GiB
    sites: Mapping[str, tuple[str, ...]]  # mechanism -> sites; remaining sites are "other"
    published: Mapping[str, float]


# Published: the thesis's Figures 24, 25 (shares of the write system call, 78.58 and 73.25 % of all) and 32 to 34 (of all traffic).
_SCAN = {
    "log scan": ("log scan",),
    "log extension, append": ("log extension", "log append"),
    "data copy": ("data copy",),
}
PROFILES = {
    24: Profile(DAX, STDIO_BUFFER, 20, {
        "dax_do_io: mapping, allocation, zeroing, copy": ("mapping", "allocation", "zeroing", "copy"),
        "orphan list": ("orphan list",), "inode": ("inode",), "journal handle": ("journal handle",),
    }, {
        "dax_do_io: mapping, allocation, zeroing, copy": 45.15 / 0.7858, "orphan list": (5.47 + 5.47) / 0.7858,
        "inode": 4.37 / 0.7858, "journal handle": (4.20 + 2.84 + 0.17) / 0.7858,
    }),
    25: Profile(NOVA, STDIO_BUFFER, 20, {"data copy": ("data copy",)}, {"data copy": 17.05 / 0.7325}),
    32: Profile(NOVA, KI, 24, _SCAN, {"log scan": 47.61, "log extension, append": 13.71, "data copy": 5.72}),
    33: Profile(NOVA, 4 * KI, 24, _SCAN, {"log scan": 38.99, "log extension, append": 11.44, "data copy": 25.62}),
    34: Profile(NOVA, 16 * KI, 24, _SCAN, {"log scan": 6.64, "log extension, append": 2.28, "data copy": 70.70}),
}  # fmt: skip


def charts(quick: bool) -> Iterator[Chart]:
    """Yield every figure of the thesis except those of its matrix."""
    yield from _filebench()
    for figure in IOZONE:
        yield _iozone(figure, quick)
    for kind, totals in (("fwrite", STDIO_TOTALS), ("append", TOTALS)):
        for figure, gigabytes in totals.items():
            if not quick:
                yield _traffic(kind, f"Figure {figure}", gigabytes * GI)
        if quick:
            yield _traffic(kind, f"Figures {min(totals)} to {max(totals)}, small", 64 * MI)
    yield _growth(quick)
    for figure in PROFILES:
        yield _profile(figure, quick)


def overheads(found: Result) -> Iterator[Chart]:
    """Yield Figure 17: the greatest share of cycles in page walks over the cells of the write operation."""
    rows: Rows = []
    for fs in dict.fromkeys(run.fs for run in found.runs):
        runs = [run for run in found.runs if run.fs == fs and run.cell["operation"] == "write"]
        for side in ("data", "instruction"):
            values = [run.metrics.get(f"walk_cycles_percent_{side}") or 0.0 for run in runs]
            rows.append({"group": side, "system": fs, "value": max(values, default=0.0)})
    rows.sort(key=lambda row: str(row["group"]))
    rows += [{"group": side, "system": PUBLISHED, "value": value} for side, value in (("data", 3), ("instruction", 8))]
    title = "Thesis, Figure 17: most cycles in page walks (published: up to)"
    yield bars("thesis-overheads", title, rows, "% of cycles")


def _filebench() -> Iterator[Chart]:
    """Yield Figures 3 and 4."""
    traffic: Rows = []
    missing: Rows = []
    for personality in thesis.PERSONALITIES:
        runs = thesis._filebench(personality)
        base = thesis._traffic(runs[EXT4])
        for fs, run in runs.items():
            traffic.append({"group": personality, "system": fs, "value": thesis._traffic(run) / base})
            missing.append({"group": personality, "system": fs, "value": run.metrics["tlb_miss_percent"]})
    nova = f"{PUBLISHED}, nova"
    traffic += [{"group": name, "system": nova, "value": value} for name, value in (("webserver", 1), ("varmail", 5))]
    missing += [
        {"group": name, "system": PUBLISHED, "value": value} for name, value in (("webserver", 0.7), ("varmail", 0.6))
    ]
    title = "Thesis, Figure 3: TLB traffic for the same calls over ext4's"
    yield bars("thesis-filebench-traffic", title, traffic, "of ext4's")
    yield bars("thesis-filebench-misses", "Thesis, Figure 4: TLB misses", missing, "% of loads and stores")


@cache
def _of_iozone(fs: str, size: int, tests: str) -> Run:
    source = cast(Source, iozone.Workload(size, size, 4 * KI, 4 * KI, 0, tests))
    return replay(source, fs, MACHINE, paging="base-4k").runs[0]


def _iozone(figure: int, quick: bool) -> Chart:
    """Draw Figures 5 to 7: misses, miss rate, traffic and instruction look-ups over file size, in records of 4 KiB.

    Persistent memory is on 4 KiB pages, which have the most misses; with pages of 1 GiB there are nearly none.
    """
    tests, what = IOZONE[figure]
    rows: Rows = []
    for size in (64 * KI << i for i in range(0, 7 if quick else 15, 2)):
        for fs in ALL.split(","):
            whole, before = _of_iozone(fs, size, tests).counters, _of_iozone(fs, size, "0").counters
            counts = {name: n - (before[name] if tests != "0" else 0) for name, n in whole.items()}
            loads_stores = counts["mem_inst_retired_all_loads"] + counts["mem_inst_retired_all_stores"]
            walks = sum(counts[f"dtlb_{side}_misses_walk_completed"] for side in ("load", "store"))
            for panel, value in (
                ("TLB misses", walks), ("TLB misses, % of loads and stores", 100 * walks / loads_stores),
                ("TLB traffic: loads and stores", loads_stores), ("ITLB look-ups", counts["itlb_lookups"]),
            ):  # fmt: skip
                rows.append({"panel": panel, "system": fs, "x": size // KI, "value": value})
    return panels(
        f"thesis-iozone-{figure}", f"Thesis, Figure {figure}: IOzone, {what} (memory on 4 KiB pages)", rows, "file, KiB"
    )


def _traffic(kind: str, where: str, total: int) -> Chart:
    """Draw Figures 18 to 31: loads, stores and their sum, plotted against the unit."""
    systems = f"{DAX},{NOVA}" if kind == "fwrite" else ALL
    rows: Rows = []
    for unit in UNITS:
        for fs, run in thesis._writes(systems, max(unit, STDIO_BUFFER) if kind == "fwrite" else unit, total).items():
            loads, stores = (run.counters[f"mem_inst_retired_all_{side}"] for side in ("loads", "stores"))
            for panel, value in (("loads", loads), ("stores", stores), ("TLB traffic", loads + stores)):
                rows.append({"panel": panel, "system": fs, "x": unit // KI, "value": value})
    shown = f"{total // GI} GiB" if total >= GI else f"{total // MI} MiB"
    name = f"thesis-{kind}-traffic" + (f"-{total // GI}gib" if total >= GI else "")
    return panels(name, f"Thesis, {where}: {shown} by {kind}", rows, "unit, KiB", columns=3)


def _growth(quick: bool) -> Chart:
    """Draw the effect of the total size in Figures 26 to 31: NOVA's traffic / ext4-DAX's traffic in units of 1 KiB."""
    rows: Rows = []
    for total in (16 * MI, 64 * MI, 256 * MI) if quick else (64 * MI, GI, 4 * GI, 16 * GI, 24 * GI):
        nova, dax = (thesis._traffic(thesis._writes(fs, KI, total)[fs]) for fs in (NOVA, DAX))
        rows.append({"system": f"{NOVA} / {DAX}", "x": total // MI, "value": nova / dax})
    rows += [
        {"system": PUBLISHED, "x": gigabytes * 1024, "value": value} for gigabytes, value in ((4, 1.3), (16, 2.5), (24, 3.5))
    ]  # fmt: skip
    title = "Thesis, section 5.3: NOVA's TLB traffic over ext4-DAX's, units of 1 KiB"
    return lines("thesis-append-growth", title, rows, "total written, MiB", "ratio")


def _profile(figure: int, quick: bool) -> Chart:
    """Draw one of Figures 24, 25 and 32 to 34: the traffic by mechanism."""
    profile = PROFILES[figure]
    total = 64 * MI if quick else profile.total * GI
    run = thesis._writes(profile.fs, profile.unit, total)[profile.fs]
    shares = {group: thesis._share(run, *sites) for group, sites in profile.sites.items()}
    rows: Rows = []
    for system, values in ((profile.fs, shares), (PUBLISHED, profile.published)):
        for group, value in {**values, "other": 100 - sum(values.values())}.items():
            rows.append({"group": group, "system": system, "value": value})
    shown = f"{total // MI} MiB" if quick else f"{profile.total} GiB"
    call = "fwrite" if figure < 26 else "write"
    unit = KI if figure < 26 else profile.unit
    title = (
        f"Thesis, Figure {figure}: {profile.fs}, {shown} by {call} of {unit // KI} KiB (published: {profile.total} GiB)"
    )
    return bars(f"thesis-profile-{figure}", title, rows, "% of TLB traffic")
