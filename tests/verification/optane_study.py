"""Media beside the microbenchmarks of the Optane study: bandwidth by threads and size, latency of stores, interval of fences.

Run: python -m tests.verification.optane_study
Measured: tests/verification/data/optane_study (its README states the origin, and how the study measured).  The model has the
values of the media's files (bandwidth, latency, granule, fence, buffer) and those of FITTED, whose points (USED) are left out of
the comparison.  Interleaved modules are queues (`optane_modules`).  No replay takes part, except for the write buffer (figure
09), which is the kernel of `scmsim.medium.model`.
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
from tests.verification.optane_modules import Kind, mixed_gb_s, read_gb_s, store_gb_s

DATA = pathlib.Path(__file__).parent / "data/optane_study"
WITHIN = 0.15

FILL_BUFFERS = 12  # of a core; each holds a line (mmu/machines/skylake-sp.toml)
TRIPS = 2  # of a non-temporal store to the memory controller: one to ask for a place there, one with the line
QUEUED = 256 // 64  # lines of one thread's stores that the controller queues for a module of Optane
DDR4_NS = 19 * 0.75  # DDR4-2666, 19-19-19: to close a row, to open a row, or to read from it
BURST_NS = 4 * 0.75  # DDR4-2666: to transfer a line

# device -> what was fitted, besides the values of its medium's file that the keys name
FITTED = {
    "nvdimm-6": {
        "read by one thread, GB/s": 7.38,
        "store and clwb by one thread, GB/s": 1.44,
        "read_gb_s": 105.5,
        "write_gb_s": 76.8,
    },
    "optane": {
        "store and clwb in a long interval, GB/s": 1.1,
        "crowd, non-temporal stores by 4 threads": 1,
        "crowd, non-temporal stores by 11 threads": 0.504,
        "crowd, reads by 24 threads": 0.589,
    },
    "optane-6": {
        "read by one thread, GB/s": 2.88,
        "write_gb_s": 12.5,
        "crowd, non-temporal stores by 24 threads": 0.6,
        "64-byte stores at random places by 16 threads, GB/s": 3.8929,
    },
}
# figure -> points that were fitted, here or in the medium's file
USED = {
    "04 threads, DRAM": {"Read 1", "Read 19", "Write(ntstore) 24", "Write(clwb) 1"},
    "04 threads, Optane, six modules": {"Read 1", "Write(clwb) 4", "Write(clwb) 24"},  # the header's clwb is ntstore
    "04 threads, Optane, one module": {"Read 24", "Write(ntstore) 4", "Write(ntstore) 11"},
    "06 mixes of readers and writers": {"optane-6 0-16"},
    "13 interval of fences": {"clwb(every 64B) 8192"},
}
# threads of figure 05: reads, non-temporal stores, stores with clwb (the README of the data states how they were found)
THREADS = {"nvdimm-6": (24, 24, 24), "optane-6": (16, 4, 12)}


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


def both(write: float, read: float) -> float:
    """Return the GB/s of stores that read their line before it is written: reads and writes share the module's time."""
    return 1 / (1 / write + 1 / read)


def random_ns(table: dict[str, Any]) -> float:
    """Return the latency of a load at a random place; in DRAM, it first closes the row that another load opened."""
    return float(table["load_ns"] + (0 if "stream_ns" in table else DDR4_NS))


def streamed(table: dict[str, Any]) -> float:
    """Return the GB/s of one core's non-temporal stores: each holds a fill buffer during its trips."""
    return float(FILL_BUFFERS * 64 / (TRIPS * table["store_ns"]))


def one_reads(name: str) -> float:
    """Return the GB/s of one core's reads, whatever the number of modules."""
    return FITTED["nvdimm-6" if name == "nvdimm-6" else "optane-6"]["read by one thread, GB/s"]


def all_read(name: str) -> float:
    """Return the GB/s that all modules together can read: for Optane, as many times that of one module."""
    table = medium.read(name)
    return float(table["units"] * medium.read("optane")["read_gb_s"] if name == "optane-6" else table["read_gb_s"])


def by_threads(name: str) -> tuple[Callable[[int], float], ...]:
    """Return GB/s by number of threads of reads, of non-temporal stores, and of stores with clwb."""
    table, one = medium.read(name), one_reads(name)
    flushed = FITTED["nvdimm-6"]["store and clwb by one thread, GB/s"]  # the core's own limit, whatever the medium

    def crowd(column: int, threads: int) -> float:
        return between([(row[0], row[column]) for row in table.get("crowd", [[1, 1, 1]])], threads)

    def cap(threads: int) -> float:
        written = table["write_gb_s"] * crowd(2, threads)
        return float(written if name == "nvdimm-6" else both(written, all_read(name)))

    def interleaved(threads: int) -> float:
        """Return the GB/s of reads that meet at modules; a thread has as many accesses of 256 bytes as fit its lines in flight."""
        accesses = max(1, round(one * table["stream_ns"] / table["granule"]))
        module = table["granule"] / medium.read("optane")["read_gb_s"]
        stations = [Station(str(number), module / table["units"]) for number in range(table["units"])]
        delay = accesses * table["granule"] / one - module  # one thread alone reads at its own rate
        return solve(accesses * threads, delay, stations).calls_per_ns * table["granule"]

    return (
        interleaved if name == "optane-6" else lambda n: min(one * n, table["read_gb_s"] * crowd(1, n)),
        lambda n: min(streamed(table) * n, table["write_gb_s"] * crowd(2, n)),
        lambda n: min(flushed * n, cap(n)),
    )


def threads(name: str, file: str) -> Iterator[Point]:
    """Yield figure 04 of a device."""
    for index, modelled in enumerate(by_threads(name), 1):
        for at, measured in column(file, index):
            yield Point(f"{rows(file)[0][index]} {at}", measured, modelled(int(at)))


def sizes(name: str, file: str) -> Iterator[Point]:
    """Yield figure 05 of a device: accesses at random places, of which part of a granule costs the whole."""
    table = medium.read(name)
    read, write = all_read(name), table["write_gb_s"]
    flushed = both(write, read)
    if name == "nvdimm-6":  # the stores load their lines first, from random places
        flushed = FITTED[name]["store and clwb by one thread, GB/s"] * THREADS[name][2]
        flushed *= table["load_ns"] / random_ns(table)
    for index, best in enumerate((read, write, flushed), 1):
        for at, measured in column(file, index):
            size = int(at)
            alone = best * min(1, size / table["granule"])
            yield Point(
                f"{rows(file)[0][index]} {at}",
                measured,
                meeting(index, size, best, THREADS[name][index - 1]) if name == "optane-6" else alone,
            )


def meeting(index: int, size: int, best: float, many: int) -> float:
    """Return the GB/s of `many` threads on six modules, which have `best` GB/s together if all are always busy."""
    table, one = medium.read("optane-6"), one_reads("optane-6")
    units, granule = table["units"], table["granule"]
    if index == 1:
        return read_gb_s(many, size, one, one * table["stream_ns"], best / units, units, granule)
    own = streamed(table) if index == 2 else FITTED["nvdimm-6"]["store and clwb by one thread, GB/s"]
    return store_gb_s(many, size, own, best / units, table["buffer"], units, granule)


def latencies() -> Iterator[Point]:
    """Yield figure 02, idle latencies.

    A store that is written back with clwb is done at the memory controller, whatever the medium.  A load of DRAM goes there and
    back, too, and in between opens a row, reads from it and transfers the line.
    """
    dram, optane = medium.read("nvdimm"), medium.read("optane")
    controller = dram["load_ns"] - 2 * DDR4_NS - BURST_NS
    modelled = [
        (dram["load_ns"], optane["stream_ns"]),
        (random_ns(dram), random_ns(optane)),
        (dram["store_ns"], optane["store_ns"]),
        (controller, controller),
    ]
    for row, (here, there) in zip(rows("02-best_case_latency")[1:], modelled, strict=True):
        yield Point(f"DRAM {row[0]}", float(row[1]), here)
        yield Point(f"Optane {row[0]}", float(row[3]), there)


def loaded() -> Iterator[Point]:
    """Yield figure 06: one thread reads while the others write.

    A read goes ahead of the writes that wait, but not of the write that its module or channel serves: of that, it waits for half
    on average.
    """
    figure = "06-bandwidth_seqwrite_latency"
    devices = {
        1: (medium.read("nvdimm")["load_ns"], medium.read("nvdimm-6")),
        3: (medium.read("nvdimm-remote")["load_ns"], medium.read("nvdimm-6")),
        5: (medium.read("optane")["stream_ns"], medium.read("optane-6")),
    }
    for index, (idle, table) in devices.items():
        write = table["granule"] * table["units"] / table["write_gb_s"]
        for row, (at, measured) in zip(rows(figure)[1:], column(figure, index), strict=True):
            busy = min(1.0, float(row[index + 1]) / table["write_gb_s"])
            yield Point(f"{rows(figure)[0][index]} {at}", measured, idle + busy * write / 2)


def mixes() -> Iterator[Point]:
    """Yield figure 06, mixes of 16 readers and writers: accesses of 64 bytes at random places."""
    for index, name, queued in ((1, "nvdimm-6", FILL_BUFFERS), (3, "optane-6", QUEUED)):
        table = medium.read(name)
        stored = FITTED[name].get("64-byte stores at random places by 16 threads, GB/s", table["write_gb_s"])
        read, write = table["granule"] * table["units"] / all_read(name), 64 * table["units"] / stored
        loads = round(one_reads(name) * table.get("stream_ns", table["load_ns"]) / 64)  # in flight, of one thread
        stores = min(FILL_BUFFERS // TRIPS, queued)
        for at, measured in column("06-bandwidth_thmix", index):
            readers, writers = map(int, at.split("-"))
            modelled = mixed_gb_s(
                Kind(readers * loads, random_ns(table) - read, read),
                Kind(writers * stores, max(0.0, table["store_ns"] - write), write),
                table["units"],
            )
            yield Point(f"{name} {at}", measured / 1000, modelled)


def _ntstore_ns() -> float:
    """Return the time of a non-temporal store and a fence in a loop: the store's latency, then the fence of one line."""
    table = medium.read("optane")
    return float(table["store_ns"] + _fenced_ns(64))


def _fenced_ns(size: int) -> float:
    """Return the latency of a store with its fence: the fence, and the bytes at the bandwidth of one module."""
    table = medium.read("optane")
    return float(table["fence_ns"] + size / table["write_gb_s"])


def _clwb_ns(size: int) -> float:
    return max(_fenced_ns(size), size / FITTED["optane"]["store and clwb in a long interval, GB/s"])


def instructions() -> Iterator[Point]:
    """Yield figure 12, bandwidth: six threads, each with a fence after its access."""
    write = medium.read("optane-6")["write_gb_s"]
    for index in (1, 2):
        for at, measured in column("12-flush_instr_bw", index):
            size = int(at)
            if index == 1:
                modelled = min(6 * size / _ntstore_ns(), write)
            else:
                modelled = min(6 * size / _clwb_ns(size), both(write, all_read("optane-6")))
            yield Point(f"{rows('12-flush_instr_bw')[0][index]} {at}", measured, modelled)


def stored() -> Iterator[Point]:
    """Yield figure 12, latency of a store with its fence."""
    for index in (1, 2):
        for at, measured in column("12-flush_instr_lat", index):
            yield Point(f"{rows('12-flush_instr_lat')[0][index]} {at}", measured, _fenced_ns(int(at)))


def fences() -> Iterator[Point]:
    """Yield figure 13: one thread on one module, bytes between two fences."""
    table = medium.read("optane")
    for index in (1, 2, 3):
        for at, measured in column("13-sfence_interval", index):
            size = int(at)
            time = max(_ntstore_ns(), size / table["write_gb_s"]) if index == 3 else _clwb_ns(size)
            yield Point(f"{rows('13-sfence_interval')[0][index]} {at}", measured, size / time)


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
