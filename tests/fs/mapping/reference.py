"""Implement the reference of scmsim.fs.mapping: page faults of mapped files, page by page with dictionaries.

The reference has no page tables: a page of a mapping has an entry; a large entry is stored at each of its 512 pages.
`layout(file, page)` returns the place of a page's block before an operation: 0: a hole; negative: without content.
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


class Mapped:
    """The mappings of one file system.

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

    # Calls.

    def mmap(self, file: int, offset: int, length: int, shared: bool, private: bool, populate: bool) -> None:
        first, stop = offset >> 12, (offset + length + 4095) >> 12
        address = self.next_address
        if self.large and stop - first >= FAN:
            address += (first - address) % FAN
        self.next_address = address + stop - first + 1
        self.maps.insert(0, Mapping(file, first, stop, address, shared, private))
        self.charged["mmap_call"] += 1
        if populate:
            for page in range(first, min(stop, (self.length(file) + 4095) >> 12)):
                entry = self.maps[0].entries.get(page)
                if entry is None or (private and not entry.writable):
                    self.fault(self.maps[0], page, private)
                self.use_mapped(self.maps[0], page, page + 1)

    def mremap(self, file: int, offset: int, length: int) -> None:
        """Resize the newest mapping of a page from that page on; the mapping moves unless it was made last."""
        self.charged["mmap_call"] += not self.touched
        first, stop = offset >> 12, (offset + length + 4095) >> 12
        one = self.of(file, first)
        if one is None:
            self.errors["not mapped"] += 1
            return
        one = self.parted(self.parted(one, first), stop, upper=False)
        address, moves = one.address, one.address + one.stop - one.first + 1 != self.next_address
        if moves:
            address = self.next_address + (
                (first - self.next_address) % FAN if self.large and stop - first >= FAN else 0
            )
        self.next_address = address + stop - first + 1
        longer = Mapping(file, first, stop, address, one.shared, one.private, advice=dict(one.advice))
        longer.advice |= {p: one.advice[one.stop - 1] for p in range(one.stop, stop) if one.stop - 1 in one.advice}
        self.maps.remove(one)
        self.maps.insert(0, longer)
        longer.entries, longer.tabled = one.entries, one.tabled
        if moves:
            self.look(one, one.first, one.stop)
            whole = address % FAN == one.address % FAN
            longer.entries = {p: e for p, e in one.entries.items() if e.large < 0 or whole}
            for entry in longer.entries.values():
                entry.contiguous = False
            longer.tabled = set()
            for p, e in longer.entries.items():
                if e.large < 0:
                    self.table(longer, p)
            self.removed += len(one.entries)
            self.charged["unmap_large"] += len({e.large for e in one.entries.values() if e.large >= 0})
            self.drop_tables(one)

    def parted(self, one: Mapping, page: int, upper: bool = True) -> Mapping:
        """Cut a mapping in two before a page; return the upper or the lower part."""
        if not one.first < page < one.stop:
            return one
        self.cut(one, page)
        second = Mapping(one.file, page, one.stop, one.address + page - one.first, one.shared, one.private)
        second.advice = dict(one.advice)
        second.entries = {p: e for p, e in one.entries.items() if p >= page}
        second.tabled = set(one.tabled)
        one.entries, one.stop = {p: e for p, e in one.entries.items() if p < page}, page
        self.maps.insert(0, second)
        return second if upper else one

    def munmap(self, file: int, offset: int, length: int) -> None:
        self.charged["munmap_call"] += not self.touched
        page, stop = offset >> 12, (offset + length + 4095) >> 12
        while page < stop:
            one = self.of(file, page)
            if one is None:
                self.errors["not mapped"] += 1
                later = [m.first for m in self.maps if m.file == file and m.first > page]
                page = min([*later, stop])
                continue
            newer = [m.first for m in self.maps[: self.maps.index(one)] if m.file == file and m.first > page]
            end = min([stop, one.stop, *newer])
            self.cut(one, page)
            self.cut(one, end)
            self.use_mapped(one, page, end)
            self.zap(one, page, end)
            self.charged["munmap_call"] += self.touched
            self.charged["cut_mapping"] += self.touched * ((page > one.first) + (end < one.stop))
            gone = Mapping(file, page, end, one.address + page - one.first, one.shared, one.private, tabled=one.tabled)
            upper = Mapping(file, end, one.stop, one.address + end - one.first, one.shared, one.private)
            upper.entries = {p: e for p, e in one.entries.items() if p >= end}
            upper.tabled, upper.advice = set(one.tabled), dict(one.advice)
            one.entries = {p: e for p, e in one.entries.items() if p < page}
            one.stop = page
            if upper.first < upper.stop:
                self.maps.insert(0, upper)
            if one.first == one.stop:
                self.maps.remove(one)
            self.drop_tables(gone)
            page = end

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

    def write(self, file: int, low: int, high: int) -> None:
        """Use the existing pages of memory in [low, high), as a write does."""
        for page in range(low, high):
            if self.kind == "memory" and self.has(file, page):
                self.use(file, page)

    def allocate(self, file: int) -> None:
        """Unmap a file of XFS for a fallocate without a hole."""
        for one in self.maps:
            if self.xfs and one.file == file:
                self.zap(one, one.first, one.stop, copies=False)

    def truncate(self, file: int, length: int) -> None:
        page, inside = divmod(self.length(file), 4096)
        if self.xfs and inside and length > self.length(file) and self.layout(file, page) > 0:
            self.sync(file, page, page + 1)
        if length < self.length(file):
            self.split(file, length)
        self.shrink(file, (length + 4095) >> 12, 1 << 40)

    def punch(self, file: int, offset: int, end: int) -> None:
        """Turn the bytes [offset, end) into a hole; private copies stay."""
        self.split(file, offset)
        self.split(file, end)
        self.shrink(file, (offset + 4095) >> 12, end >> 12, copies=False)

    def split(self, file: int, edge: int) -> None:
        """Split a huge page that is cut at a byte, which unmaps it."""
        first = (edge >> 12) // FAN * FAN
        if edge % (FAN << 12) and self.huge(file, edge >> 12):
            for one in self.maps:
                if one.file == file:
                    self.use_mapped(one, first, first + FAN)
                    self.zap(one, first, first + FAN, copies=False)

    def shrink(self, file: int, low: int, high: int, copies: bool = True) -> None:
        """Remove the pages [low, high) from all mappings and from DAX."""
        for one in self.maps:
            if one.file == file:
                if self.linux:
                    self.zap(one, one.first, one.stop, copies=False)
                self.use_mapped(one, low, high)
                self.zap(one, low, high, copies)
        self.uses = {(f, p): n for (f, p), n in self.uses.items() if f != file or not low <= p < high}
        self.given = {(f, p): d for (f, p), d in self.given.items() if f != file or not low <= p < high}
        if high > low:
            for f, region in [*self.given_large, *self.broken]:
                first = region * FAN
                if f != file or first >= high or first + FAN <= low:
                    continue
                self.given_large.pop((f, region), None)
                if low <= first and first + FAN <= high:
                    self.broken.discard((f, region))

    def leave(self, file: int, low: int, high: int) -> None:
        """Remove the entries of each page's newest mapping (MADV_DONTNEED)."""
        newest = {page: self.of(file, page) for page in range(low, high)}
        for one in {id(one): one for one in newest.values() if one}.values():
            for page in (p for p in range(low, high) if newest[p] is one):
                self.use_mapped(one, page, page + 1)
                self.zap(one, page, page + 1)

    def advise(self, file: int, low: int, high: int, said: str) -> None:
        """Note advice on huge pages: Linux cuts the mapping where the advice differs, which removes large entries."""
        for page in range(low, high):
            if one := self.of(file, page):
                one.advice[page] = said
        for one in self.maps:
            for page in range(one.first + 1, one.stop):
                if one.advice.get(page) != one.advice.get(page - 1):
                    self.cut(one, page)

    def msync(self, file: int, low: int, high: int) -> None:
        """Write back the dirty pages of [low, high) that a shared mapping has."""
        self.charged["msync_call"] += self.touched
        for page in range(low, high):
            one = self.of(file, page)
            if one is not None and not one.private:
                self.sync(file, page, page + 1)

    def sync(self, file: int, low: int, high: int) -> None:
        """Write back the dirty pages in [low, high)."""
        if self.kind == "memory":
            return
        if self.kind == "cache":
            for one in (m for m in self.maps if m.file == file):
                for page in one.entries:
                    if low <= page < high:
                        self.protect(one, page)
            return
        for (f, page), dirty in list(self.given.items()):
            if f == file and low <= page < high and dirty:
                self.flushed += 4096
                self.charged["clean_entry"] += 1
                self.given[f, page] = False
                for one in (m for m in self.maps if m.file == file and page in m.entries):
                    self.protect(one, page)
        for (f, region), state in self.given_large.items():
            if f == file and region * FAN < high and (region + 1) * FAN > low and state["dirty"]:
                self.flushed += FAN * 4096
                self.charged["clean_entry"] += 1
                state["dirty"] = False
                for one in (m for m in self.maps if m.file == file):
                    for page in range(region * FAN, (region + 1) * FAN):
                        if page in one.entries:
                            self.protect(one, page)

    def protect(self, one: Mapping, page: int) -> None:
        entry = one.entries[page]
        if (
            entry.writable and not entry.copied and (entry.large < 0 or self.kind == "cache")
        ):  # DAX of Linux 5.13 does not protect large entries
            entry.writable = False
            self.invalidated[page] += 1

    # Touches.

    def of(self, file: int, page: int) -> Mapping | None:
        return next((m for m in self.maps if m.file == file and m.first <= page < m.stop), None)

    def touch(self, file: int, offset: int, length: int, store: bool) -> int:
        """Load or store bytes; return how many succeeded before the first error."""
        at, end = offset, offset + max(length, 1)
        while at < end:
            page = at >> 12
            one = self.of(file, page)
            if one is None or (store and not one.shared and not one.private):
                self.errors["not mapped" if one is None else "denied"] += 1
                break
            if not self.fits(one, page, store):
                if page << 12 >= self.length(file):
                    self.errors["beyond end"] += 1
                    break
                self.fault(one, page, store)
            stop = min(end, (page + 1) << 12)
            entry, inside = one.entries[page], at & 4095
            self.contiguous += (stop - at) * entry.contiguous
            on_device = self.kind == "dax" and not (entry.zeros or entry.copied)
            where = self.place(file, page) + inside if on_device else -1
            self.accessed.append((((one.address + page - one.first) << 12) + inside, stop - at, where))
            at = stop
        return at - offset

    def fits(self, one: Mapping, page: int, store: bool) -> bool:
        entry = one.entries.get(page)
        if entry is None or (store and not entry.writable):
            return False
        if entry.zeros and self.has(one.file, page):
            return False
        if self.kind == "cache" and store and not entry.copied and not self.is_dirty(one.file, page):
            entry.writable = False
            return False
        return True

    def has(self, file: int, page: int) -> bool:
        """Return whether a page has content: on the device, in memory, or in the page cache."""
        if self.kind == "cache":
            return (file, page) in self.filled or self.cached(file, page)
        return (file, page) in self.filled or self.layout(file, page) > 0

    def is_dirty(self, file: int, page: int) -> bool:
        return (file, page, "dirty") in self.filled or self.dirty(file, page)

    def fault(self, one: Mapping, page: int, store: bool) -> None:
        self.touched = True
        old = one.entries.get(page)
        protected = old is not None and store
        if store and one.private:
            self.read_in(one, page)
            if old is not None and old.large >= 0:
                self.zap(one, page, page + 1)
            self.unfold(one, page)
            self.put(one, page, 1, store, protected, False, Entry(True, copied=True))
        elif self.kind == "dax":
            self.dax_fault(one, page, store, protected)
        else:
            self.cached_fault(one, page, store, protected)

    def put(self, one: Mapping, page: int, pages: int, store: bool, protected: bool, major: bool, entry: Entry) -> None:
        """Count a fault and map `pages` pages from `page` on."""
        self.faults[pages if entry.large < 0 else -pages, store, protected, major] += 1
        self.table(one, page, small=entry.large < 0)
        for each in range(page, page + pages):
            one.entries[each] = entry if entry.large >= 0 else Entry(entry.writable, -1, entry.zeros, entry.copied)

    def large_fits(self, one: Mapping, page: int) -> bool:
        first = page - page % FAN
        address = one.address + page - one.first
        beyond = self.kind == "dax" and (first + FAN - 1) << 12 >= self.length(one.file)
        inside = one.first <= first and first + FAN <= one.stop
        said = {one.advice.get(first + k) for k in range(FAN)}
        unwanted = said == {"small"} and self.kind != "memory" and page not in one.entries
        if len(said) > 1 or unwanted:
            return False
        return self.large and address % FAN == page % FAN and inside and not beyond and address // FAN not in one.tabled

    def may_be_huge(self, file: int, page: int, said: str | None) -> bool:
        """Return whether memory's mount option, or the mapping's advice, allows a huge page at a page."""
        if said == "small" or not self.large:
            return False
        if self.option == "always" or said == "huge":
            return True
        pages = (self.length(file) + 4095) // 4096
        if self.old and page % FAN == 0:  # before Linux 5.15 such a page counts as the end of the piece before
            return self.option == "within_size" and pages >= max(page, FAN)
        return self.option == "within_size" and pages >= (page // FAN + 1) * FAN

    def run(self, file: int, first: int) -> str:
        """Return the kind of 2 MiB: "data" for an aligned run of blocks, "none" for a hole or unwritten run, else ""."""
        places = [self.place(file, first + k) for k in range(FAN)]
        if all(place == 0 for place in places):
            return "none" if self.is_one_hole(file, first) else ""
        if places[0] < 0 and all(place == places[0] - 4096 * k for k, place in enumerate(places)):
            return "none"
        if places[0] > 0 and all(place == places[0] + 4096 * k for k, place in enumerate(places)):
            return "" if places[0] % (FAN * 4096) else "data"
        return ""

    def is_one_hole(self, file: int, first: int) -> bool:
        """Return whether the last pointer block is missing for a page and the 511 after it (ext2); else True."""
        if not self.pointers:
            return True
        block, place = divmod(first - 12, 1024)
        if first < 12 or any(self.place(file, 12 + block * 1024 + k) for k in range(1024)):
            return False
        return place <= 512 or (block > 0 and not any(self.place(file, k) for k in range(1036, 8 * FAN)))

    def place(self, file: int, page: int) -> int:
        return self.later(file, page) if (file, page) in self.filled else self.layout(file, page)

    def fill(self, file: int, first: int) -> int:
        """Fill the first run of holes, or of one extent without content, of 2 MiB; return its pages."""
        start = self.place(file, first)
        for k in range(self.told_hole(file, first) if start == 0 else FAN):
            if start > 0 or self.place(file, first + k) != (start - 4096 * k if start else 0):
                return k
            self.filled.add((file, first + k))
        return k + 1

    def told_hole(self, file: int, first: int) -> int:
        """Return how many pages of a hole get blocks at once; ext2: 1, or the pages of a missing pointer block."""
        if not self.pointers:
            return FAN
        block, place = divmod(first - 12, 1024)
        if first < 12 or any(self.place(file, 12 + block * 1024 + k) for k in range(1024)):
            return 1
        return min(FAN, 1024 - place)

    def shared(self, file: int, page: int) -> range:
        """Return the pages that get content with a page of ext4's unwritten extent: those of a short extent or rest."""
        start = self.place(file, page)
        if not self.shares or start >= 0:
            return range(0)

        def lies(other: int, sign: int) -> bool:
            return other >= 0 and self.place(file, other) == sign * (-start + 4096 * (other - page))

        low = high = page
        while lies(low - 1, -1):
            low -= 1
        while lies(high + 1, -1):
            high += 1
        if lies(page - 1, 1) or lies(page + 1, 1) or high == page or high << 12 >= self.length(file):
            return range(0)
        end = high if high - page < 8 else page
        return range(low if end - low < 7 else page, end + 1)

    def dax_fault(self, one: Mapping, page: int, store: bool, protected: bool) -> None:
        file, region = one.file, page // FAN
        old = one.entries.get(page)
        if old is not None and old.zeros and self.has(file, page):
            self.zap(one, page, page + 1)
            protected = False
        if self.large_fits(one, page):
            whole, part = (file, region) not in self.broken, 0
            if store and self.fills and whole:
                part = self.fill(file, region * FAN) % FAN
            run = self.run(file, region * FAN) if whole and not part else ""
            new = run == "none" and store and self.whole_blocks
            if new:
                run = "data"
                self.filled |= {(file, region * FAN + k) for k in range(FAN)}
            if run == "data" or (run == "none" and not store):
                state = self.given_large.setdefault((file, region), {"zeros": False, "dirty": False})
                state["zeros"] = run == "none"
                state["dirty"] |= store or self.loads_dirty
                self.put(one, region * FAN, FAN, store, protected, new, Entry(store, region * FAN, run == "none"))
                return
            if page in one.entries and one.entries[page].large >= 0:
                self.zap(one, page, page + 1)
        major = store and self.layout(file, page) == 0 and (file, page) not in self.filled
        if store:
            begin, pages = (region * FAN, FAN) if self.whole_blocks else (page, 1)
            self.filled |= {(file, p) for p in self.shared(file, page)}
            self.filled |= {(file, begin + k) for k in range(pages)}
        zeros = not self.has(file, page)
        if self.given_large.get((file, region), {}).get("zeros"):
            del self.given_large[file, region]
            for other in (m for m in self.maps if m.file == file):
                self.zap(other, region * FAN, region * FAN + FAN, copies=False)
        if (file, region) in self.given_large:
            self.given_large[file, region]["dirty"] |= store or self.loads_dirty
        else:
            self.broken.add((file, region))
            self.charged["tree_node"] += not any((file, p) in self.given for p in range(page & ~63, (page & ~63) + 64))
            self.given[file, page] = self.given.get((file, page), False) or store or self.loads_dirty
        self.put(one, page, 1, store, protected, major, Entry(store, -1, zeros))

    def read_in(self, one: Mapping, page: int) -> bool:
        """Read the missing pages around a page, or allocate memory for it; return whether the page is mapped alone."""
        file = one.file
        if self.kind == "memory" and not self.has(file, page):
            region = range(page - page % FAN, page - page % FAN + FAN)
            empty = not any(self.layout(file, p) or (file, p) in self.filled for p in region)
            if (empty and self.may_be_huge(file, page, one.advice.get(page))) or self.huge(file, page):
                self.filled |= {(file, p) for p in region}
                self.came.add((file, page // FAN))
                self.charged["huge_page"] += 1
                self.uses[file, page - page % FAN] = 0
                return True
            self.filled.add((file, page))
            self.uses[file, page] = 0
        if self.kind != "cache" or self.has(file, page) or self.layout(file, page) == 0:
            return False
        begin = max(page - 16, 0)
        self.filled |= {(file, p) for p in range(begin, begin + 32) if self.layout(file, p) != 0}
        return True

    def cached_fault(self, one: Mapping, page: int, store: bool, protected: bool) -> None:
        file = one.file
        alone = self.read_in(one, page)
        major = alone and self.kind == "cache"
        if store:
            self.filled |= {(file, page)} | {(file, p, "dirty") for p in self.folio(file, page)}
        huge = self.huge(file, page) or (file, page // FAN) in self.came
        whole = huge or len(self.folio(file, page)) == FAN
        if self.large_fits(one, page) and whole and (page not in one.entries or self.kind == "cache"):
            first = page - page % FAN
            self.zap(one, first, first + FAN)
            self.put(
                one, first, FAN, store, protected, False, Entry(store if self.kind == "cache" else one.shared, first)
            )
            return
        pages = [page]
        if page in one.entries and one.entries[page].large >= 0:
            self.zap(one, page, page + 1)
        self.unfold(one, page)
        if not store and not alone and self.has(file, page):
            address = one.address + page - one.first
            low = max(page - address % 16, one.first)
            high = min(low + 16, one.stop, (self.length(file) + 4095) >> 12, page - address % FAN + FAN)
            pages = [p for p in range(low, high) if p not in one.entries and self.has(file, p)]
            self.charged["passed_page"] += sum(p in one.entries and self.has(file, p) for p in range(low, high))
        self.faults[len(pages), store, protected, major] += 1
        zeros = not self.has(file, page)
        for each in pages:
            one.entries[each] = Entry((store or (one.shared and self.kind == "memory")) and not zeros, -1, zeros)
        if len(pages) == 16 or (one.address + page - one.first) % 16 == 15:
            self.fold(one, page)
        self.table(one, page)
