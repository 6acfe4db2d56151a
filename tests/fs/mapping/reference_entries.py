"""Implement the mappings of the reference of scmsim.fs.mapping, and their page-table entries.

The reference has no page tables: a page of a mapping has an entry; a large entry is stored at each of its 512 pages.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

FAN = 512


@dataclass
class Entry:
    """The page-table entry of a page."""

    writable: bool
    large: int = -1  # first page of the large entry's 2 MiB; -1: a small entry
    zeros: bool = False
    copied: bool = False
    contiguous: bool = False  # the group of 16 entries maps 64 KiB of one folio


@dataclass(eq=False)
class Mapping:
    """A range of pages of a file at an address."""

    file: int
    first: int
    stop: int
    address: int  # address of page `first`, in pages
    shared: bool
    private: bool
    entries: dict[int, Entry] = field(default_factory=dict)
    tabled: set[int] = field(default_factory=set)  # numbers of 2 MiB of addresses that have or had small entries
    advice: dict[int, str] = field(default_factory=dict)  # page -> "huge" or "small", from madvise


class Entries:
    """The mappings of one file system and their entries.

    `kind` is dax, cache or memory; `large`: 2 MiB can be mapped at once; `whole_blocks`: files have blocks of 2 MiB;
    `linux`: shrinking a file unmaps all of it; `fills`: a store that may map 2 MiB fills their first run (Linux 6.1 and
    6.12); `loads_dirty`: DAX treats pages that a load mapped as dirty (6.1); `xfs`: any fallocate unmaps the file, and growth
    writes back its old end; `pointers`: files have ext2's pointer blocks; `shares`: the rest of a short extent may get
    content with a page (ext4).
    For a page cache, `folio(file, page)` returns the pages of a page's folio; for memory, `huge(file, page)` whether a page
    is huge. `option` is memory's mount option huge; `old`: the kernel is before Linux 5.15.
    """

    def __init__(
        self,
        kind: str,
        large: bool,
        whole_blocks: bool = False,
        linux: bool = False,
        fills: bool = False,
        loads_dirty: bool = False,
        xfs: bool = False,
        pointers: bool = False,
        shares: bool = False,
    ) -> None:
        self.kind, self.large, self.whole_blocks = kind, large, whole_blocks
        self.linux, self.fills, self.loads_dirty, self.xfs, self.pointers = linux, fills, loads_dirty, xfs, pointers
        self.shares = shares
        self.folio: Any = lambda file, page: range(page, page + 1)
        self.huge: Any = lambda file, page: False  # memory: whether a page is part of a huge page
        self.option, self.old = "always", True
        self.maps: list[Mapping] = []  # newest first
        self.given: dict[tuple[int, int], bool] = {}  # DAX's page-cache entries: (file, page) mapped small -> dirty
        self.given_large: dict[tuple[int, int], dict[str, bool]] = {}  # (file, region) -> zeros, dirty
        self.broken: set[tuple[int, int]] = set()  # (file, region) that have small DAX entries
        self.next_address = 1 << 34
        self.errors: Counter = Counter()
        self.faults: Counter = Counter()
        self.flushed = 0
        self.invalidated: Counter = Counter()
        self.removed = 0  # number of removed entries
        self.uses: dict[tuple[int, int], int] = {}  # memory: (file, page) -> number of uses (at most 2), if it is not 1
        self.second = 0  # number of second uses
        self.upper: set[tuple[int, int]] = (
            set()
        )  # (pages, number): areas of that many pages that have a page table above the tables of 2 MiB
        self.charged: Counter = Counter()
        self.touched = False  # whether there was a fault; before the first one mmap and munmap have a fixed cost

    def begin(self, layout: Any, length: Any, cached: Any, dirty: Any, later: Any) -> None:
        """Start an operation, with the file system's state before it, and the places of blocks after it (`later`)."""
        self.layout, self.length, self.cached, self.dirty, self.later = layout, length, cached, dirty, later
        self.filled: set[tuple[int, int]] = set()  # (file, page) that got content from faults of this operation
        self.came: set[tuple[int, int]] = set()  # (file, region) that got a huge page in this operation
        self.faults, self.flushed, self.invalidated, self.removed, self.second = Counter(), 0, Counter(), 0, 0
        self.charged = Counter()
        self.contiguous = 0  # bytes accessed through contiguous entries
        # (address, bytes, address on the device) of each page access; -1: zeros, a private copy, or not a device
        self.accessed: list[tuple[int, int, int]] = []

    def of(self, file: int, page: int) -> Mapping | None:
        return next((m for m in self.maps if m.file == file and m.first <= page < m.stop), None)

    def place(self, file: int, page: int) -> int:
        return self.later(file, page) if (file, page) in self.filled else self.layout(file, page)

    def has(self, file: int, page: int) -> bool:
        """Return whether a page has content: on the device, in memory, or in the page cache."""
        if self.kind == "cache":
            return (file, page) in self.filled or self.cached(file, page)
        return (file, page) in self.filled or self.layout(file, page) > 0

    def is_dirty(self, file: int, page: int) -> bool:
        return (file, page, "dirty") in self.filled or self.dirty(file, page)

    def table(self, one: Mapping, page: int, small: bool = True) -> None:
        """Add the page tables that lead to a page, or to its 2 MiB."""
        at = one.address + page - one.first
        areas = {(pages, at // pages) for pages in (FAN**2, FAN**3)}
        self.charged["page_table"] += len(areas - self.upper)
        self.upper |= areas
        if small and at // FAN not in one.tabled:
            self.charged["page_table"] += 1
            one.tabled.add(at // FAN)

    def drop_tables(self, gone: Mapping) -> None:
        """Remove the page tables of a removed mapping, and upper tables that lead to no other mapping."""
        last = gone.address + gone.stop - gone.first - 1
        small = [at for at in gone.tabled if gone.address // FAN <= at <= last // FAN]
        upper = {
            (pages, place)
            for pages, place in self.upper
            if gone.address // pages <= place <= last // pages
            and not any(m.address // pages <= place <= (m.address + m.stop - m.first - 1) // pages for m in self.maps)
        }
        self.upper -= upper
        self.charged["unmap_table"] += len(small) + len(upper)

    def cut(self, one: Mapping, page: int) -> None:
        """Remove a large entry across a cut."""
        entry = one.entries.get(page)
        if one.first < page < one.stop and entry and entry.large not in (-1, page):
            self.zap(one, page, page + 1)
        if one.first < page < one.stop and (one.address + page - one.first) % 16:
            self.unfold(one, page)

    def unfold(self, one: Mapping, page: int) -> None:
        """Mark the 16 entries around a page as no longer contiguous."""
        group = page - (one.address + page - one.first) % 16
        for each in range(group, group + 16):
            if each in one.entries:
                one.entries[each].contiguous = False

    def fold(self, one: Mapping, page: int) -> None:
        """Mark the 16 entries around a page as contiguous if all exist, are alike and aligned, and are of one folio."""
        group = range(page - page % 16, page - page % 16 + 16)
        entries = [one.entries.get(each) for each in group]
        aligned = (one.address + page - one.first) % 16 == page % 16
        if self.kind != "cache" or not aligned or not set(group) <= set(self.folio(one.file, page)):
            return
        if all(e and e.large < 0 and not e.zeros and not e.copied for e in entries):
            if len({e.writable for e in entries if e}) == 1 and group[0] >= one.first and group[-1] < one.stop:
                for e in entries:
                    e.contiguous = True  # type: ignore[union-attr]

    def look(self, one: Mapping, low: int, high: int) -> None:
        """Charge the examination of each page-table slot of some pages."""
        for page in range(max(low, one.first), min(high, one.stop)):
            self.charged["unmap_slot"] += (one.address + page - one.first) // FAN in one.tabled

    def zap(self, one: Mapping, low: int, high: int, copies: bool = True) -> None:
        self.look(one, low, high)
        for page in [p for p in one.entries if low <= p < high]:
            self.unfold(one, page)
        for page in [p for p in one.entries if low <= p < high]:
            entry = one.entries.get(page)
            if entry is None or (entry.copied and not copies):
                continue
            gone = range(entry.large, entry.large + FAN) if entry.large >= 0 else range(page, page + 1)
            for each in gone:
                del one.entries[each]
            self.removed += 1
            self.charged["unmap_large"] += entry.large >= 0

    def use(self, file: int, page: int) -> None:
        """Use a page of memory, or its huge page; the second use moves it to the active list."""
        if self.huge(file, page) or (file, page // FAN) in self.came:
            page -= page % FAN
        before = self.uses.get((file, page), 1)
        self.second += before == 1
        self.uses[file, page] = min(before + 1, 2)

    def use_mapped(self, one: Mapping, low: int, high: int) -> None:
        """Use the pages of memory under small entries that are about to be removed."""
        for page in sorted(p for p in one.entries if low <= p < high and self.kind == "memory"):
            if one.entries[page].large < 0 and not one.entries[page].copied:
                self.use(one.file, page)

    def protect(self, one: Mapping, page: int) -> None:
        entry = one.entries[page]
        if (
            entry.writable and not entry.copied and (entry.large < 0 or self.kind == "cache")
        ):  # DAX of Linux 5.13 does not protect large entries
            entry.writable = False
            self.invalidated[page] += 1
