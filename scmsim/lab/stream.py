"""Store the plugin's stream of addresses, as page runs for `scmsim mmu`, or whole, with calls and the guest's page sizes."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from scmsim.lab import kept, pagetable, regions
from scmsim.lab.measured import Measured
from scmsim.lab.plan import Plan
from scmsim.mmu import page_runs

SUFFIX = ".runs.parquet"
FORMAT = 1
_COUNT_BITS = 27  # RUN_COUNT of plugin.c: page number << 28 | store << 27 | accesses - 1
MARK = ((1 << 36) - 1) << (_COUNT_BITS + 1)  # page of a record that marks the beginning of a call and has its region
_KIND = (1 << _COUNT_BITS) - 1  # mask of the number of the region (from 1) in a mark
LARGE = 21  # log2 of the bytes of a large page


@dataclass(frozen=True)
class Runs:
    """Page runs (consecutive accesses to one page) in order, as columns.

    The columns are the address of the page (uint64), the number of accesses, whether they are stores, log2 of the page's bytes,
    the region (index into `regions.REGIONS`), the number of the call (-1 before the first call), and the call's kind (index into
    the header's `kinds`).
    """

    page: np.ndarray
    count: np.ndarray
    store: np.ndarray
    order: np.ndarray
    region: np.ndarray
    call: np.ndarray
    kind: np.ndarray

    def part(self, rows: slice) -> "Runs":
        """Return the runs of a slice."""
        return Runs(*(getattr(self, field.name)[rows] for field in fields(self)))


def unpacked(packed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the addresses of the pages (uint64), accesses, and whether they are stores, from the plugin's records."""
    count = (packed & np.uint64((1 << _COUNT_BITS) - 1)) + np.uint64(1)
    store = packed >> np.uint64(_COUNT_BITS) & np.uint64(1)
    page = packed >> np.uint64(_COUNT_BITS + 1)
    kernel = page >> np.uint64(35) & np.uint64(1)  # 48-bit addresses: bit 47 fills the bits above it
    address = page << np.uint64(12) | np.where(kernel, np.uint64(0xFFFF << 48), np.uint64(0))
    return address, count, store.astype(bool)


def write(path: str | os.PathLike[str], packed: np.ndarray, found: list[pagetable.Range]) -> None:
    """Write a file of page runs."""
    address, count, store = unpacked(packed[packed < np.uint64(MARK)])
    page_runs.write(path, address, count, store, pagetable.orders(address, found))


class Kept(kept.Kept):
    """Stored stream of addresses of one run."""

    COLUMN, FORMAT = "run", FORMAT
    REFUSAL = ("is not a stream of the lab", "scmsim lab tlb")

    def learn(self) -> None:
        """Read the guest's page sizes."""
        self.ranges = [(int(first), int(last), int(order)) for first, last, order in self.header["ranges"]]

    def batches(self) -> Iterator[Runs]:
        """Yield the runs in order."""
        calls, last = 0, np.zeros(1, np.int64)
        for packed in self.parts():
            marks = packed >= np.uint64(MARK)
            which = np.cumsum(marks)
            kinds = np.append(last, (packed[marks] & np.uint64(_KIND)).astype(np.int64) - 1)
            number = calls + which - 1
            calls, last = calls + int(marks.sum()), kinds[-1:]
            page, count, store = unpacked(packed[~marks])
            order = pagetable.orders(page, self.ranges)
            yield Runs(page, count, store, order, self.layout.of(page), number[~marks], kinds[which[~marks]])

    def buffer(self) -> int:
        """Return the address of the large page that holds the program's buffer, 0 for none."""
        for runs in self.batches():
            large = runs.page[(runs.region == regions.PROGRAM) & (runs.order >= LARGE)]
            if len(large):
                return int(large[0]) >> LARGE << LARGE
        return 0

    def mapped(self) -> dict[str, dict[int, int]]:
        """Return the mapped bytes by log2 of the page size, for DRAM and for persistent memory in the direct map."""
        found: dict[str, dict[int, int]] = {}
        for first, last, order in self.ranges:
            region = int(self.layout.of(np.array([first], np.uint64))[0])
            if region in (regions.DIRECT_MAP, regions.PERSISTENT):
                sizes = found.setdefault(regions.REGIONS[region], {})
                sizes[order] = sizes.get(order, 0) + last - first
        return found


def keep(
    path: str | os.PathLike[str], packed: np.ndarray, fs: str, plan: Plan, measured: Measured, kernel: str
) -> None:
    """Write the whole stream of addresses of a run to a file, a part at a time."""
    more = {
        "kinds": [region.label for region in plan.regions],
        "ranges": [list(map(int, each)) for each in measured.ranges],
        "buffer_bytes": int(measured.about["buffer_bytes"]),
    }
    Kept.write(path, packed, (fs, plan, measured, kernel), more)
