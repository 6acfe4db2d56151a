"""The slow, obvious twin of scmsim.mmu: dictionaries and one page at a time, no code shared with the kernels.

`Mmu(table)` takes the table of a machine file; `Mmu.event` takes one event with its address and adds to `Mmu.count`.
"""

from collections import Counter, OrderedDict

BITS = {"4KiB": 12, "2MiB": 21, "1GiB": 30}
NAMES = {12: "4k", 21: "2m_4m", 30: "1g"}
SPACE = 1 << 57  # addresses of the kernel half are negative; the TLB sees them modulo this


class Array:
    """Sets of pages in LRU order, oldest first.  A page is (bits of its size, page number)."""

    def __init__(self, entries, ways, index="linear"):
        self.ways, self.index = ways, index
        self.sets = [OrderedDict() for _ in range(entries // ways)]

    def set_of(self, number):
        n = len(self.sets)
        if self.index == "xor":
            return self.sets[(number % n) ^ (number // n % n)]
        return self.sets[number % n]

    def look_up(self, bits, address):
        """Whether the page of `address` is there; afterwards it is, as the most recent."""
        number = address % SPACE >> bits
        pages = self.set_of(number)
        hit = (bits, number) in pages
        if not hit and len(pages) == self.ways:
            pages.popitem(last=False)
        pages[bits, number] = True
        pages.move_to_end((bits, number))
        return hit

    def remove(self, start, end):
        """Remove every page that has a byte in start .. end - 1."""
        for pages in self.sets:
            for bits, number in list(pages):
                page = number << bits
                if page >= SPACE // 2:
                    page -= SPACE
                if page < end and start < page + (1 << bits):
                    del pages[bits, number]


class Mmu:
    def __init__(self, table):
        self.count = Counter()
        self.arrays = [(entry, Array(entry["entries"], entry["ways"], entry.get("index"))) for entry in table["tlb"]]
        self.caches = {entry["entry"]: entry for entry in table["walk_cache"]}
        self.empty_caches()
        self.walk = table["walk"]

    def empty_caches(self):
        self.held = {name: Array(entry["entries"], entry["ways"]) for name, entry in self.caches.items()}

    def level(self, key, side, bits):
        """Array that holds pages of this size, or the largest smaller size; and in pieces of which size."""
        found = [
            (BITS[page], array)
            for entry, array in self.arrays
            for page in entry["pages"]
            if side in entry.get(key, []) and BITS[page] <= bits
        ]
        return max(found, key=lambda pair: pair[0]) if found else (None, None)

    def page_bits(self, side, order):
        largest = BITS[self.walk["largest_page"]]
        return min(order, largest, 21 if side == "fetch" else 30)

    def event(self, code, vaddr, length, order, width=0, addr=0):
        count = self.count
        if code == "WORK":
            count["instructions"] += addr
            count["mem_inst_retired_all_loads"] += length
            count["mem_inst_retired_all_stores"] += width
            self.run("fetch", vaddr, 1, order, 0)
        elif code in ("LOAD", "STORE", "NTSTORE"):
            side = "load" if code == "LOAD" else "store"
            instructions = -(-length // width) if width else 0
            count["instructions"] += 1000 * instructions
            count[f"mem_inst_retired_all_{side}s"] += 1000 * instructions
            self.run(side, vaddr, length, order, instructions)
        elif code == "FETCH":
            self.run("fetch", vaddr, length, order, -(-length // width) if width else 0)
        elif code == "FLUSH":
            self.run("load", vaddr, length, order, 0)
        elif code in ("UNMAP", "REMAP", "INVALIDATE") and length > 0:
            size = 1 << self.page_bits("load", order)
            start, end = vaddr // size * size, -(-(vaddr + length) // size) * size
            count["tlb_invalidations"] += (end - start) // size
            for _, array in self.arrays:
                array.remove(start, end)
            self.empty_caches()

    def run(self, side, vaddr, length, order, accesses):
        name = "itlb" if side == "fetch" else f"dtlb_{side}"
        user = side != "fetch" and vaddr >= 0
        bits = self.page_bits(side, order)
        piece, _ = self.level("first_level_for", side, bits)
        pages = range(vaddr >> piece, (vaddr + length - 1 >> piece) + 1) if length else []
        for number in pages:
            self.translate(name, side, number << piece, bits, user)
        more = max(accesses - len(pages), 0)
        self.count[f"{name}_lookups"] += more
        self.count[f"{name}_l1_hit"] += more
        if user:
            self.count["dtlb_user_lookups"] += more

    def translate(self, name, side, address, bits, user):
        count = self.count
        count[f"{name}_lookups"] += 1
        count["dtlb_user_lookups"] += user
        piece, array = self.level("first_level_for", side, bits)
        if array.look_up(piece, address):
            count[f"{name}_l1_hit"] += 1
            return
        piece, array = self.level("second_level_for", side, bits)
        if array and array.look_up(piece, address):
            count[f"{name}_misses_stlb_hit"] += 1
            count["dtlb_user_misses_stlb_hit"] += user
            return
        count[f"{name}_misses_walk_completed"] += 1
        count[f"{name}_misses_walk_completed_{NAMES[bits]}"] += 1
        count["dtlb_user_misses_walk_completed"] += user
        above = ["pde", "pdpte", "pml4e", "pml5e"][(bits - 12) // 9 : self.walk["levels"] - 1]
        entries = 1
        for entry, shift in [(entry, {"pde": 21, "pdpte": 30, "pml4e": 39, "pml5e": 48}[entry]) for entry in above]:
            if entry in self.held and self.held[entry].look_up(shift, address):
                count["page_walk_cache_hits"] += 1
                break
            entries += 1
        count["page_walker_loads"] += entries
        for what in ("pending", "active"):
            count[f"{name}_misses_walk_{what}"] += entries * self.walk["ref_cycles"]
