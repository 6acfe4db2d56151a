"""Implement the reference of scmsim.fs.mapping: calls on mappings and touches of mapped files, page by page with dictionaries.

`layout(file, page)` returns the place of a page's block before an operation: 0: a hole; negative: without content.
"""

from tests.fs.mapping.reference_entries import FAN, Mapping
from tests.fs.mapping.reference_faults import Faults


class Mapped(Faults):
    """The mappings of one file system, with the calls and touches that change them."""

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
