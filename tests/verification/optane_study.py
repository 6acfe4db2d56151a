"""Media beside the microbenchmarks of the Optane study: bandwidth by threads and size, latency of stores, interval of fences.

Run: python -m tests.verification.optane_study
Measured: tests/verification/data/optane_study (its README states the origin).  The model is what a medium's file says (bandwidth,
latency, granule, fence) and the values of FITTED, whose points (USED) are left out of the comparison.  Reads of interleaved
modules are a closed queueing network of the modules.  No replay takes part, except for the write buffer (figure 09), which is the
kernel of `scmsim.medium.model`.
"""

import csv
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from scmsim import medium
from scmsim.core.counters import COUNTERS
from scmsim.core.records import EVENT, EVENTS, PM
from scmsim.medium import model
from scmsim.result.queues import Station, solve

DATA = pathlib.Path(__file__).parent / "data/optane_study"
WITHIN = 0.15

# device -> what was fitted
FITTED = {
    "nvdimm-6": {
        "read by one thread, GB/s": 7.38,
        "non-temporal store by one thread, GB/s": 4.31,
        "store and clwb by one thread, GB/s": 1.44,
        "threads of figure 05": 18,  # 05 does not state them: store and clwb has the bandwidth of 18 threads in 04
    },
    "optane": {
        "read by one thread, GB/s": 2.92,
        "read by 24 threads, GB/s": 3.89,
        "non-temporal store by 11 threads, GB/s": 1.16,
        "non-temporal store by 24 threads, GB/s": 0.80,
        "fenced non-temporal store, ns": 197.0,
        "store and clwb in a long interval, GB/s": 1.1,
    },
    "optane-6": {
        "non-temporal store by 24 threads, GB/s": 7.5,
        "threads of figure 05": 24,
    },
}
# figure -> points that were fitted, here or in the medium's file
USED = {
    "04 threads, DRAM": {"Read 1", "Write(ntstore) 1", "Write(clwb) 1", "Read 19", "Write(ntstore) 24"},
    "04 threads, Optane, six modules": {"Write(clwb) 4", "Write(clwb) 24"},  # the header's clwb is ntstore
    "04 threads, Optane, one module": {"Read 1", "Read 24", "Write(ntstore) 11", "Write(ntstore) 24"},
    "13 interval of fences": {"ntstore 128", "clwb(every 64B) 8192"},
}


class Point(NamedTuple):
    """Measured and modelled value of one point."""

    at: str
    measured: float
    modelled: float

    @property
    def error(self) -> float:
        """Return the relative error."""
        return self.modelled / self.measured - 1


def rows(name: str) -> list[list[str]]:
    """Return the rows of a figure's file."""
    with (DATA / f"{name}.csv").open(encoding="utf-8") as file:
        return [row for row in csv.reader(file) if row]


def column(name: str, index: int) -> Iterator[tuple[str, float]]:
    """Yield (first column, value) of a figure's column."""
    for row in rows(name)[1:]:
        yield row[0], float(row[index])


def between(knots: list[tuple[float, float]], x: float) -> float:
    """Interpolate linearly, flat outside."""
    return float(np.interp(x, [at for at, _ in knots], [value for _, value in knots]))


def both(write: float, table: dict[str, Any]) -> float:
    """Return the GB/s of stores that read their line before it is written: reads and writes share the module's time."""
    return 1 / (1 / write + 1 / table["read_gb_s"])


def by_threads(name: str) -> tuple[Callable[[int], float], ...]:
    """Return GB/s by number of threads of reads, of non-temporal stores, and of stores with clwb."""
    table, fit = medium.read(name), FITTED[name]
    core = FITTED["nvdimm-6"]  # what a core does that the medium does not bound
    read, write = table["read_gb_s"], table["write_gb_s"]
    knots = {
        "nvdimm-6": ([(1, read)], [(1, write)]),
        "optane": (
            [(3, read), (24, fit.get("read by 24 threads, GB/s"))],
            [
                (1, write),
                (11, fit.get("non-temporal store by 11 threads, GB/s")),
                (24, fit.get("non-temporal store by 24 threads, GB/s")),
            ],
        ),
        "optane-6": ([], [(4, write), (24, fit.get("non-temporal store by 24 threads, GB/s"))]),
    }[name]
    one = fit.get("read by one thread, GB/s", FITTED["optane"]["read by one thread, GB/s"])
    streamed = core["non-temporal store by one thread, GB/s"]
    flushed = core["store and clwb by one thread, GB/s"]

    def cap(threads: int) -> float:
        written = between(knots[1], threads)
        return both(written, table) if name != "nvdimm-6" else written

    def interleaved(threads: int) -> float:
        """Return the GB/s of reads that meet at modules; a thread has as many accesses of 256 bytes as fit its lines in flight."""
        lines = one * table["stream_ns"] / 64
        accesses = max(1, round(lines * 64 / table["granule"]))
        module = table["granule"] / medium.read("optane")["read_gb_s"]
        stations = [Station(str(number), module / table["units"]) for number in range(table["units"])]
        delay = accesses * table["granule"] / one - module  # one thread alone reads at its own rate
        return solve(accesses * threads, delay, stations).calls_per_ns * table["granule"]

    return (
        interleaved if name == "optane-6" else lambda n: min(one * n, between(knots[0], n)),
        lambda n: min(streamed * n, between(knots[1], n)),
        lambda n: min(flushed * n, cap(n)),
    )


def threads(name: str, file: str) -> Iterator[Point]:
    """Yield figure 04 of a device."""
    for index, modelled in enumerate(by_threads(name), 1):
        for at, measured in column(file, index):
            yield Point(f"{rows(file)[0][index]} {at}", measured, modelled(int(at)))


def sizes(name: str, file: str) -> Iterator[Point]:
    """Yield figure 05 of a device: part of a granule costs the whole; of interleaved modules some are idle at a time."""
    table = medium.read(name)
    many = FITTED[name].get("threads of figure 05", 0)
    for index in (1, 2, 3):
        for at, measured in column(file, index):
            size = int(at)
            if name == "nvdimm-6":
                best = (
                    by_threads(name)[index - 1](int(many))
                    if index == 3
                    else table[("read_gb_s", "write_gb_s")[index - 1]]
                )
            else:
                best = (table["read_gb_s"], table["write_gb_s"], both(table["write_gb_s"], table))[index - 1]
            if many and name != "nvdimm-6":  # so many independent accesses meet by chance at the modules (product form)
                apart = many * max(1, 512 / size, size / 32768)
                best *= apart / (apart + table["units"] - 1)
            yield Point(f"{rows(file)[0][index]} {at}", measured, best * min(1, size / table["granule"]))


def latencies() -> Iterator[Point]:
    """Yield figure 02: the constants of the media beside the measured idle latencies."""
    dram, optane = medium.read("nvdimm"), medium.read("optane")
    constants = [
        (dram["load_ns"], optane["stream_ns"]),
        (dram["load_ns"], optane["load_ns"]),
        (dram["store_ns"], optane["store_ns"]),
        (dram["store_ns"], optane["store_ns"]),
    ]
    for row, (here, there) in zip(rows("02-best_case_latency")[1:], constants, strict=True):
        yield Point(f"DRAM {row[0]}", float(row[1]), here)
        yield Point(f"Optane {row[0]}", float(row[3]), there)


def loaded() -> Iterator[Point]:
    """Yield figure 06 without a curve: the latency of the idle device at every bandwidth."""
    constants = {
        1: medium.read("nvdimm")["load_ns"],
        3: medium.read("nvdimm-remote")["load_ns"],
        5: medium.read("optane")["stream_ns"],
    }
    for index, modelled in constants.items():
        for at, measured in column("06-bandwidth_seqwrite_latency", index):
            yield Point(f"{rows('06-bandwidth_seqwrite_latency')[0][index]} {at}", measured, modelled)


def mixes() -> Iterator[Point]:
    """Yield figure 06, mixes of 16 readers and writers: reads and writes share the time of the device."""
    for index, name in ((1, "nvdimm-6"), (3, "optane-6")):
        table = medium.read(name)
        for at, measured in column("06-bandwidth_thmix", index):
            readers, writers = map(int, at.split("-"))
            time = readers / 16 / table["read_gb_s"] + writers / 16 / table["write_gb_s"]
            yield Point(f"{name} {at}", measured / 1000, 1 / time)


def instructions() -> Iterator[Point]:
    """Yield figure 12, bandwidth: six threads, each with a fence after its access."""
    table, fit = medium.read("optane-6"), FITTED["optane"]
    for index in (1, 2):
        for at, measured in column("12-flush_instr_bw", index):
            size = int(at)
            if index == 1:
                modelled = min(6 * size / fit["fenced non-temporal store, ns"], table["write_gb_s"])
            else:
                modelled = min(6 * size / _clwb_ns(size), both(table["write_gb_s"], table))
            yield Point(f"{rows('12-flush_instr_bw')[0][index]} {at}", measured, modelled)


def stored() -> Iterator[Point]:
    """Yield figure 12, latency of a store with its fence: the fence, and the bytes at the bandwidth of one module."""
    table = medium.read("optane")
    for index in (1, 2):
        for at, measured in column("12-flush_instr_lat", index):
            modelled = table["fence_ns"] + int(at) / table["write_gb_s"]
            yield Point(f"{rows('12-flush_instr_lat')[0][index]} {at}", measured, modelled)


def fences() -> Iterator[Point]:
    """Yield figure 13: one thread on one module, bytes between two fences."""
    table, fit = medium.read("optane"), FITTED["optane"]
    for index in (1, 2, 3):
        for at, measured in column("13-sfence_interval", index):
            size = int(at)
            time = (
                max(fit["fenced non-temporal store, ns"], size / table["write_gb_s"]) if index == 3 else _clwb_ns(size)
            )
            yield Point(f"{rows('13-sfence_interval')[0][index]} {at}", measured, size / time)


def _clwb_ns(size: int) -> float:
    table = medium.read("optane")
    return max(
        table["fence_ns"] + 64 / table["write_gb_s"], size / FITTED["optane"]["store and clwb in a long interval, GB/s"]
    )


def amplification() -> Iterator[Point]:
    """Yield figure 09: the first halves of the lines of a region, then the second halves."""
    for at, measured in column("09-infer_xpbuffer", 1):
        lines = int(at) // 256
        events = np.zeros(2 * lines, EVENT).view(np.recarray)
        events.code, events.space, events.length, events.width = EVENTS.index("NTSTORE"), PM, 128, 8
        events.addr = [256 * line + 128 * half for half in (0, 1) for line in range(lines)]
        counters = np.zeros(2, COUNTERS).view(np.recarray)
        state = model.start(["data"], 16 << 10)
        model.simulate(state, counters, events, np.zeros(len(events), np.int64), len(events))
        yield Point(at, measured, counters[0].media_bytes_256 / counters[0].pm_stored_bytes)


FIGURES: dict[str, Callable[[], Iterator[Point]]] = {
    "02 idle latency": latencies,
    "04 threads, DRAM": lambda: threads("nvdimm-6", "04-bandwidth_thcount_dram"),
    "04 threads, Optane, six modules": lambda: threads("optane-6", "04-bandwidth_thcount_optane"),
    "04 threads, Optane, one module": lambda: threads("optane", "04-bandwidth_thcount_optane_ni"),
    "05 size of an access, DRAM": lambda: sizes("nvdimm-6", "05-bandwidth_accesssize_dram"),
    "05 size of an access, Optane, six modules": lambda: sizes("optane-6", "05-bandwidth_accesssize_optane"),
    "05 size of an access, Optane, one module": lambda: sizes("optane", "05-bandwidth_accesssize_optane_ni"),
    "06 latency under load": loaded,
    "06 mixes of readers and writers": mixes,
    "09 write amplification by region": amplification,
    "12 instructions, bandwidth": instructions,
    "12 instructions, latency": stored,
    "13 interval of fences": fences,
}


def compared(name: str) -> list[Point]:
    """Return the points of a figure that were not fitted."""
    return [point for point in FIGURES[name]() if point.at not in USED.get(name, ())]


def near(points: list[Point]) -> int:
    """Return how many points are within 15 %."""
    return sum(abs(point.error) <= WITHIN for point in points)


def main() -> None:
    """Print for each figure the share of points within 15 %, and the worst."""
    print("| figure | fitted | compared | within 15 % | share, % | median error, % | worst |\n|" + "---|" * 7)
    for name in FIGURES:
        points = compared(name)
        worst = max(points, key=lambda point: abs(point.error))
        middle = 100 * float(np.median([abs(point.error) for point in points]))
        print(
            f"| {name} | {len(USED.get(name, ()))} | {len(points)} | {near(points)} | {100 * near(points) / len(points):.0f} | "
            f"{middle:.1f} | {worst.at}: {worst.measured:g}, modelled {worst.modelled:.4g} ({100 * worst.error:+.0f} %) |"
        )


if __name__ == "__main__":
    main()
