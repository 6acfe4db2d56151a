"""The rows of the VSM paper's evaluation, simulated beside published: fio over request sizes, Postmark, space.

Run: python tests/verification/vsm.py [--markdown]   (some minutes)
No constant is fitted to these rows: counts follow from the models, times are estimates of `scmsim.estimate` for the
paper's machine (E5-2640 v4) with DRAM for persistent memory.  Files, requests and Postmark's numbers are scaled down; a
ratio is of the same calls on both systems.
"""

from statistics import mean

import numpy as np

import scmsim
from scmsim import registry
from scmsim.records import OP, READ, WRITE, Files

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
FILE_BYTES = 8 * GIB
MOST_BYTES, MOST_CALLS = 1 * GIB, 2000  # of one cell
SIZES = [1 << k for k in range(10, 21)]  # 1 KiB to 1 MiB: below the superpage's
OLD = {"version": "original"}  # PMFS of Linux 4.4.30: non-temporal copies
PARAMS = {"vsm": OLD, "pmfs-2m": {**OLD, "data_path": "cow"}, "pmfs-4k": {**OLD, "data_path": "cow"}, "nova-fast16": {}}
PAGING = {"vsm": "virtual-superpages"}  # the others: the direct map, two levels


class Requests:
    """One thread's requests of one size over a file that exists: in order, or at random."""

    header = {"tool": "tests/verification/vsm.py"}
    files = Files(["/d", "/d/file"], np.array([0, FILE_BYTES], np.int64), np.array([True, False]))

    def __init__(self, op, order, size):
        self.rows = min(MOST_CALLS, MOST_BYTES // size)
        batch = np.zeros(self.rows, OP).view(np.recarray)
        batch.op, batch.file, batch.file2, batch.length = op, 1, -1, size
        slots = (
            np.arange(self.rows)
            if order == "seq"
            else np.random.default_rng(1).integers(0, FILE_BYTES // size, self.rows)
        )
        batch.offset, batch.time_ns = slots * size, 1000 * np.arange(self.rows)
        self.batch = batch

    def batches(self, chunk=1 << 14):
        yield self.batch


def run(fs, source, **params):
    """The run on the paper's machine."""
    return scmsim.replay(
        source,
        fs,
        machine="e5-2640v4",
        paging=PAGING.get(fs, "directmap-1g"),
        params={fs: {**PARAMS[fs], **params}},
    ).runs[0]


def nanoseconds(run):
    """(time of all calls, the same without what invalidations of the TLB cost)."""
    total = sum(run.time_ns.values())
    return total, total - run.time_ns.get("invalidations", 0)


def cell(kept, fs, op, order, size):
    """Time of one call of one cell, with and without invalidations; kept for the next row that asks."""
    key = (fs, op, order, size)
    if key not in kept:
        found = run(fs, Requests(op, order, size))
        kept[key] = np.array(nanoseconds(found)) / found.calls
    return kept[key]


def faster(kept, fs, than, op, order, sizes):
    """Mean over the sizes of `than`'s time over `fs`'s, with and without invalidations."""
    ratios = [cell(kept, than, op, order, size) / cell(kept, fs, op, order, size) for size in sizes]
    return [mean(float(r[i]) for r in ratios) for i in (0, 1)]


def postmark(fs):
    """Time of a Postmark of files of 2 to 6 MB, scaled down to 60 files and 60 transactions."""
    source = registry.load("workload", "postmark").source(
        files=60, transactions=60, size_low=2_000_000, size_high=6_000_000, write=4096, read=4096
    )
    return np.array(nanoseconds(run(fs, source, capacity=4 * GIB)))


ROWS = [
    ("VSM-7", "pmfs-4k", "pmfs-2m", WRITE, "seq", [KIB], 98),
    ("VSM-8", "pmfs-2m", "pmfs-4k", WRITE, "seq", [2 * MIB], 1.5),
    ("VSM-9", "vsm", "pmfs-2m", WRITE, "seq", [KIB], 94),
    ("VSM-10", "vsm", "pmfs-2m", WRITE, "seq", [MIB], 2.2),
    ("VSM-11", "vsm", "pmfs-2m", WRITE, "random", [KIB], 225),
    ("VSM-12", "vsm", "pmfs-2m", WRITE, "random", [MIB], 2.3),
    ("VSM-13", "vsm", "pmfs-4k", WRITE, "seq", SIZES, 1.36),
    ("VSM-14", "vsm", "pmfs-4k", WRITE, "random", SIZES, 1.36),
    ("VSM-15", "vsm", "nova-fast16", WRITE, "seq", SIZES, 1.09),
    ("VSM-16", "vsm", "nova-fast16", WRITE, "random", SIZES, 1.22),
    ("VSM-17", "vsm", "pmfs-4k", READ, "seq", SIZES, 1.13),
    ("VSM-18", "vsm", "pmfs-4k", READ, "random", SIZES, 1.15),
    ("VSM-19", "vsm", "nova-fast16", READ, "seq", SIZES, 1.14),
    ("VSM-20", "vsm", "nova-fast16", READ, "random", SIZES, 1.11),
    ("VSM-23", "vsm", "pmfs-2m", READ, "random", SIZES, "slightly below 1"),
]


def closed_waste():
    """Waste of closed files on vsm over that on 4 KiB pages (VSM-24)."""
    source = registry.load("workload", "postmark").source(
        files=60, transactions=0, size_low=2_000_000, size_high=6_000_000
    )
    # before the files are deleted: the rows up to the first unlink
    rows = np.concatenate(list(source.batches()))
    unlink = int(np.argmax(rows["op"] == scmsim.records.UNLINK))

    class Creation:
        header, files = source.header, source.files

        def __init__(self):
            self.rows = unlink

        def batches(self, chunk=1 << 14):
            yield rows[:unlink].view(np.recarray)

    return (
        run("vsm", Creation(), capacity=4 * GIB).space["waste_bytes"]
        / run("pmfs-4k", Creation(), capacity=4 * GIB).space["waste_bytes"]
    )


def main() -> None:
    """Print every row: published, simulated, simulated without the cost of invalidations."""
    kept: dict = {}
    print("| row | faster | than | request | published | simulated | without invalidations |")
    print("|" + "---|" * 7)
    for name, fs, than, op, order, sizes, published in ROWS:
        what = f"{order} {'write' if op == WRITE else 'read'} "
        what += f"{sizes[0] >> 10} KiB" if len(sizes) == 1 else "1 KiB to 1 MiB, mean"
        with_them, without = faster(kept, fs, than, op, order, sizes)
        print(f"| {name} | {fs} | {than} | {what} | {published} | {with_them:.2f} | {without:.2f} |", flush=True)
    times = {fs: postmark(fs) for fs in PARAMS}
    for name, than, published in (
        ("VSM-21", "pmfs-4k", 0.67),
        ("VSM-22", "nova-fast16", 0.82),
        ("VSM-23", "pmfs-2m", "slightly above 1"),
    ):
        ratio = times["vsm"] / times[than]
        print(f"| {name} | vsm | {than} | postmark, elapsed | {published} | {ratio[0]:.2f} | {ratio[1]:.2f} |")
    print(f"| VSM-24 | vsm | pmfs-4k | waste of closed files | 1 | {closed_waste():.2f} | |")


if __name__ == "__main__":
    main()
