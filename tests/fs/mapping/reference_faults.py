"""Implement the page faults of the reference of scmsim.fs.mapping: of DAX, a page cache, and memory."""

from tests.fs.mapping.reference_entries import FAN, Entries, Entry, Mapping


class Faults(Entries):
    """The pages that a fault maps, and those that get content with it."""

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
