"""What follows from DaxFS's source, by the model: room of small files, length of searches, bytes stored twice, faults.

Run from the top of the checkout: python -m tests.verification.daxfs
"""

import numpy as np

from scmsim.core.records import FENCE, FLUSH, LOAD, MAP, MILLI, WORK
from tests.fs import drive

GIB, MIB = 1 << 30, 1 << 20


def made(count: int, capacity: str, buckets: int) -> tuple[drive.Model, int]:
    """A model after `count` files of 4 KiB, and the buckets that the last creation and write looked at."""
    model = drive.Model(
        "daxfs", drive.files(0, *[-1] * count, dirs=[0]), capacity=capacity, buckets=buckets, gaps="published"
    )
    for first in range(1, count, 500):
        last = min(first + 500, count)
        model.feed(drive.ops(*[(op, file, 0, 4096, 0) for file in range(first, last) for op in ("create", "write")]))
    events = model.feed(drive.ops(("create", count, 0, 0, 0), ("write", count, 0, 4096)))
    table = (events.site == model.sites.index("hash table")) & (events.code == LOAD)
    return model, int(events.length[table].sum()) // 16


def call(fs: str, *rows: tuple, before: tuple = (), **params: str) -> tuple[float, dict[str, int], int]:
    """(Instructions a call, bytes stored by mechanism, write-backs and fences) of calls after others."""
    model = drive.Model(fs, drive.files(0, -1, dirs=[0]), **params)
    model.feed(drive.ops(("create", 1), *before))
    events = model.feed(drive.ops(*rows))
    spent = int(events["instructions"][events["code"] == WORK].sum()) / MILLI / len(rows)
    return spent, dict(drive.persistent(events, model.sites)["stored"]), int(np.isin(events.code, (FLUSH, FENCE)).sum())


def faults(fs: str, size: int, **params: str) -> tuple[int, float]:
    """(Faults, instructions of one) of loads of every page of a written file, in random order."""
    model = drive.Model(fs, drive.files(0, -1, dirs=[0]), **params)
    model.feed(
        drive.ops(("create", 1), ("fallocate", 1, 0, size), *[("write", 1, at, MIB) for at in range(0, size, MIB)])
    )
    model.feed(drive.ops(("mmap", 1, 0, size)))
    order = np.random.default_rng(2).permutation(size >> 12)
    count, spent = 0, 0
    for part in np.array_split(order, 64):
        events = model.feed(drive.ops(*[("load", 1, int(page) << 12, 8) for page in part]))
        count += int((events.code == MAP).sum())
        spent += int(events["instructions"][events["code"] == WORK].sum()) / MILLI
    return count, spent / count


def main() -> None:
    print("(a) buckets that a creation and the first write of a file of 4 KiB look at, after so many files")
    for capacity, buckets in (("64MiB", 1 << 16), ("1GiB", 1 << 20), ("16GiB", 1 << 24)):
        row = [f"{count:,}: {made(count, capacity, buckets)[1]:,}" for count in (10, 100, 1000, 7000)]
        print(f"    {capacity}, {buckets:,} buckets: {'; '.join(row)}")
    model, _ = made(7000, "1GiB", 1 << 20)
    taken = int(model.record.pool_alloc) / 7000
    print(f"(b) bytes of the pool for a file of 4 KiB: {taken:,.0f}")
    print("(c) bytes stored for 64 KiB of a new file, by writes of so many bytes; an fsync's write-backs and fences")
    for unit in (4096, 8192, 65_536):
        rows = [("write", 1, at, unit) for at in range(0, 65_536, unit)]
        _, stored, flushed = call("daxfs", *rows, ("fsync", 1))
        print(f"    {unit:,}: {stored}, {flushed}")
    print("(d) instructions of a random overwrite and read of 4 KiB of a file of 64 MiB")
    before = tuple(("write", 1, at, MIB) for at in range(0, 64 * MIB, MIB))
    places = [int(at) << 12 for at in np.random.default_rng(1).permutation(1 << 14)[:2000]]
    for fs, params in (
        ("daxfs", {}),
        ("tmpfs", {"kernel": "6.12"}),
        ("ext4-dax", {"kernel": "6.12"}),
        ("xfs-dax", {"kernel": "6.12"}),
    ):
        spent = [
            call(fs, *[(op, 1, at, 4096) for at in places], before=before, **params)[0] for op in ("write", "read")
        ]
        print(f"    {fs:9} write {spent[0]:6.0f}, read {spent[1]:6.0f}")
    print("(e) faults of loads of all pages of 512 MiB, in random order: how many, instructions of one")
    for fs in ("daxfs", "famfs"):
        count, spent = faults(fs, 512 * MIB)
        print(f"    {fs:9} {count:,}, {spent:,.0f}")


if __name__ == "__main__":
    main()
