"""What is published about famfs beside the model: files on 77.25 GiB, faults of a chase, ext4-dax, and what a look-up costs.

Run from the top of the checkout: python -m tests.verification.famfs
Published: famfs issue 65 (37,513 files, 5.0 GiB, on 77.25 GiB, then "Out of space"), famfs markdown/smoke-example.md
(multichase -m 2900m in a file of 3 GiB: no fault of 4 KiB, 1,450 or 1,483 of 2 MiB, 3 of 1 GiB).
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from scmsim.core.records import MAP, MILLI, OP, OP_COLUMNS, OPS, WORK
from tests.fs import drive

GIB, MIB, UNIT = 1 << 30, 1 << 20, 2 << 20
# famfs_build_bitmap of June 2024 (feb6961) left the superblock and the log out of the bitmap, and marked their units in it all
# the same, so that as many units at the device's end were lost (until ff49439).  Today's source has that many on a device that
# is shorter by both.
FILES, DATA, DEVICE, LOG = 37_513, 5 * GIB, (77 << 30) + GIB // 2, 256 * MIB
CHASED, FILE = 2900 * MIB, 3 * GIB


def small_files(sizes: np.ndarray, device: int) -> tuple[int, int]:
    """(Files made before a device of so many bytes is full, files refused) of files of these sizes, in order."""
    side = drive.files(0, *[-1] * len(sizes), dirs=[0])
    model = drive.Model("famfs", side, growth="refused", capacity=device, log=LOG)
    for first in range(0, len(sizes), 1000):
        rows = [
            (op, file, 0, int(sizes[file - 1]))
            for file in range(first + 1, min(first + 1001, len(sizes) + 1))
            for op in ("create", "fallocate")
        ]
        model.feed(drive.ops(*rows))
    failed = int(model.record.failed)
    return len(sizes) - failed, failed


def mixtures() -> Iterator[tuple[str, np.ndarray]]:
    """Sizes of 45,000 files, of which the first 37,513 have 5.0 GiB where that is said."""
    count = 45_000
    yield "all of 10 KB", np.full(count, 10_000)
    yield "all of 143 KB (5.0 GiB)", np.full(count, DATA // FILES)
    random = np.random.default_rng(1)
    for sigma in (2.0, 2.5, 3.0):
        sizes = random.lognormal(0, sigma, count)
        yield f"lognormal, sigma {sigma}, 5.0 GiB", np.maximum(sizes * DATA / sizes[:FILES].sum(), 1).astype(np.int64)
    sizes = np.full(count, 20_000)
    sizes[:8] = (DATA - 20_000 * (FILES - 8)) // 8
    yield "8 of 550 MB, the others of 20 KB, 5.0 GiB", sizes


def chase(touches: int = CHASED // 4096) -> np.recarray:
    """A file of 3 GiB, written; then its first 2,900 MiB are loaded from, a page at a time, in random order."""
    made = [("create", 1, 0, 0), ("fallocate", 1, 0, FILE)]
    made += [("write", 1, at, 64 * MIB) for at in range(0, FILE, 64 * MIB)] + [("mmap", 1, 0, FILE)]
    order = np.random.default_rng(2).permutation(CHASED // 4096)[:touches]
    batch = np.zeros(len(made) + len(order), OP).view(np.recarray)
    for i, (op, file, offset, length) in enumerate(made):
        batch[[*OP_COLUMNS]][i] = (0, offset, length, file, -1, 0, 0, 0, OPS.index(op))
    rest = batch[len(made) :]
    rest.op, rest.file, rest.file2, rest.offset, rest.length = OPS.index("load"), 1, -1, order << 12, 8
    batch.time_ns = np.arange(len(batch)) * 1000
    return batch


def faults(fs: str, batch: np.recarray, **params: str) -> tuple[Counter, dict[str, float]]:
    """(Faults by bytes of their page, instructions and loads of a fault and of its look-up)."""
    model = drive.Model(fs, drive.files(0, -1, dirs=[0]), **params)
    found: Counter = Counter()
    spent: Counter = Counter()
    first = int(np.flatnonzero(batch.op == OPS.index("mmap"))[0])
    for piece in (batch[:first], batch[first:]):
        spent.clear()
        for events in model.events(piece):
            found.update(1 << int(order) for order in events["order"][events["code"] == MAP])
            for site in ("page fault", "mapping"):
                mine = events["site"] == (model.sites.index(site) if site in model.sites else -1)
                work = events[mine & (events["code"] == WORK)]
                spent[site] += int(work["instructions"].sum()) / MILLI
                spent[f"{site} loads"] += int(work["loads"].sum()) / MILLI + int((mine & (events["code"] == 0)).sum())
    total = sum(found.values())
    return found, {name: count / total for name, count in spent.items()}


def main() -> None:
    for source, device in (("June 2024", DEVICE - LOG - UNIT), ("today", DEVICE)):
        units = (device - LOG - UNIT) // UNIT
        print(
            f"(a) {DEVICE / GIB:.2f} GiB, a log of 256 MiB, source of {source}: {units:,} units; reported: {FILES:,} files"
        )
        for name, sizes in mixtures():
            made, refused = small_files(sizes, device)
            assert refused
            print(f"    {name:44} {made:7,} files, {100 * (made / FILES - 1):+.1f} %")
    batch = chase()
    print("(b, c) faults of the chase by page size")
    cases = {
        "famfs": ("famfs", {"growth": "refused"}),
        "famfs, 8 strips of 2 MiB": ("famfs", {"growth": "refused", "strips": "8"}),
        "ext4-dax, data_alignment=2MiB": ("ext4-dax", {"data_alignment": "2MiB"}),
        "xfs-dax, data_alignment=2MiB": ("xfs-dax", {"data_alignment": "2MiB"}),
        "ext4-dax as mkfs leaves it": ("ext4-dax", {}),
    }
    for name, (fs, params) in cases.items():
        print(f"    {name:32} {dict(sorted(faults(fs, batch, **params)[0].items()))}")
    print("(d) a fault of 2 MiB: instructions and loads, of these the look-up of the extent")
    for strips in ("0", "8"):
        for lookup, walk in (("stripe", "0"), ("shift", "0"), ("list", "0"), ("stripe", "1"), ("stripe", "4")):
            spent = faults("famfs", batch, growth="refused", strips=strips, lookup=lookup, chase=walk)[1]
            print(
                f"    strips {strips} lookup {lookup:6} chase {walk}: fault {spent['page fault'] + spent['mapping']:8.0f} "
                f"instructions, {spent['page fault loads'] + spent['mapping loads']:7.0f} loads; "
                f"look-up {spent['mapping']:8.0f}, {spent['mapping loads']:7.0f}"
            )


if __name__ == "__main__":
    main()
