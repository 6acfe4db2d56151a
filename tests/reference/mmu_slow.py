"""The reference implementation of scmsim.mmu: lists and dictionaries, one access at a time, no code shared with the kernels.

`Mmu(table)` takes the table of a machine file; `Mmu.event` takes one event with its address and adds to `Mmu.count`.
"""

import math
from collections import Counter

NAMES = {1: "4k", 2: "2m_4m", 3: "1g"}
LEVELS = {1: "pte", 2: "pde", 3: "pdpte", 4: "pml4e", 5: "pml5e"}
SPACE = 1 << 57  # addresses of the kernel half are negative; the TLB sees them modulo this


def bits(text):
    number, unit = text[:-3], text[-3:]
    return (int(number) * {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]).bit_length() - 1


class Xorshift:
    """Marsaglia's 64-bit generator, its middle shift on the unsigned value."""

    def __init__(self):
        self.x = 0x2545F4914F6CDD1D

    def below(self, n):
        mask = (1 << 64) - 1
        self.x = (self.x ^ self.x << 13) & mask
        self.x ^= self.x >> 7
        self.x = (self.x ^ self.x << 17) & mask
        return ((self.x >> 20) & 0xFFFFFFFF) % n


class Set:
    """The pages of one set.  LRU and FIFO: a list, newest first.  The others: a fixed place for each way."""

    def __init__(self, ways, policy, random):
        self.ways, self.policy, self.random = ways, policy, random
        self.order = []
        self.place = [None] * ways
        self.distance = [0] * ways  # srrip
        self.used = [0] * ways  # bit-plru
        self.colder = {}  # tree-plru: (first, last) of a subtree -> which half is to be replaced, 0 or 1

    def __iter__(self):
        return iter([p for p in (self.order if self.policy in ("lru", "fifo") else self.place) if p is not None])

    def hit(self, page):
        if page not in list(self):
            return False
        if self.policy == "lru":
            self.order.remove(page)
            self.order.insert(0, page)
        elif self.policy != "fifo":
            self._use(self.place.index(page), 0)
        return True

    def insert(self, page):
        """Returns the page that goes."""
        if self.policy in ("lru", "fifo"):
            self.order.insert(0, page)
            return self.order.pop() if len(self.order) > self.ways else None
        way = self._victim()
        gone, self.place[way] = self.place[way], page
        self._use(way, 2)
        return gone

    def remove(self, page):
        if self.policy in ("lru", "fifo"):
            self.order.remove(page)
        else:
            way = self.place.index(page)
            self.place[way], self.distance[way], self.used[way] = None, 0, 0

    def _use(self, way, distance):
        self.distance[way] = distance
        self.used[way] = 1
        if all(self.used):
            self.used = [0] * self.ways
            self.used[way] = 1
        first, last = 0, self.ways
        while last - first > 1:
            middle = (first + last) // 2
            self.colder[first, last] = 0 if way >= middle else 1
            first, last = (middle, last) if way >= middle else (first, middle)

    def _victim(self):
        if None in self.place:
            return self.place.index(None)
        if self.policy == "random":
            return self.random.below(self.ways)
        if self.policy == "bit-plru":
            return self.used.index(0) if 0 in self.used else 0
        if self.policy == "srrip":
            while 3 not in self.distance:
                self.distance = [d + 1 for d in self.distance]
            return self.distance.index(3)
        first, last = 0, self.ways
        while last - first > 1:
            middle = (first + last) // 2
            first, last = (middle, last) if self.colder.get((first, last), 0) else (first, middle)
        return first


class Array:
    """A page is (address space, log2 of its size, page number)."""

    def __init__(self, entry, random):
        n = entry["entries"] // entry["ways"]
        self.index, self.entry = entry.get("index", "linear"), entry
        self.sets = [Set(entry["ways"], entry.get("policy", "lru"), random) for _ in range(n)]

    def set_of(self, page):
        n, number = len(self.sets), page[2]
        return self.sets[(number % n) ^ (number // n % n) if self.index == "xor" else number % n]

    def has(self, page):
        return page in list(self.set_of(page))

    def look_up(self, page):
        """Whether the page is there; afterwards it is."""
        if self.set_of(page).hit(page):
            return True
        self.set_of(page).insert(page)
        return False

    def drop(self, wanted):
        for pages in self.sets:
            for page in list(pages):
                if wanted(page):
                    pages.remove(page)


class Mmu:
    def __init__(self, table):
        self.count, self.walk, self.fill = Counter(), table["walk"], table.get("fill", "mostly-inclusive")
        self.rules = {"cores": 1, "ceiling": 33, "pcid": 1, **table.get("invalidate", {})}
        self.table, self.random = table, Xorshift()
        self.arrays = [Array(entry, self.random) for entry in table["tlb"]]
        self.memory = [(entry, Array(entry, self.random)) for entry in table.get("walk_memory", [])]
        self.empty_caches()
        widths = [*self.walk.get("level_bits", [9] * (self.walk["levels"] - 1)), *[9] * 6]
        self.shift = {level: 12 + sum(widths[: level - 1]) for level in range(1, 7)}
        self.now, self.intervals, self.free = 0, [], [0] * self.walk.get("walkers", 1)
        self.active_until = 0
        self.space, self.programs, self.next = 0, [None] * 6, 0
        self.accessed, self.dirty = set(), set()

    def empty_caches(self):
        self.held = {e["entry"]: Array(e, self.random) for e in self.table["walk_cache"]}
        self.nested = next((Array(e, self.random) for e in self.table.get("nested_tlb", [])), None)

    def leaf(self, order):
        return max([1, *[level for level in range(2, self.walk["levels"] + 1) if self.shift[level] <= order]])

    def level(self, key, side, order, contiguous):
        """Array that holds pages of this size, or the largest smaller size; and in pieces of which size."""
        found = []
        for array in self.arrays:
            entry = array.entry
            if side not in entry.get(key, []):
                continue
            sizes = range(12, 31) if "any" in entry["pages"] else [bits(page) for page in entry["pages"]]
            if contiguous and order == 12 and 12 in sizes:
                return 12 + entry.get("coalesce", 1).bit_length() - 1, array
            found += [(size, array) for size in sizes if size <= order]
        return max(found, key=lambda pair: pair[0]) if found else (None, None)

    def page_order(self, side, order):
        return min(order & 31, bits(self.walk["largest_page"]), 21 if side == "fetch" else 30)

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
            self.invalidate(vaddr, length, self.page_order("load", order), width)
        elif code == "INVALIDATE" and length == 0 and width > 0:
            self.switch(width - 1)

    def invalidate(self, vaddr, length, order, cpus):
        size, count, rules = 1 << order, self.count, self.rules
        start, end = vaddr // size * size, -(-(vaddr + length) // size) * size
        pages = (end - start) // (size if vaddr >= 0 else 4096)
        space = self.space if vaddr >= 0 else 0
        of_kernel = vaddr < 0 and cpus == 0
        ceiling = rules.get("kernel_ceiling", rules["ceiling"]) if of_kernel else rules["ceiling"]
        if pages > ceiling:
            self.flush(None if vaddr < 0 else space)
            count["tlb_flushes"] += 1
            cycles, requests = rules.get("flush_cycles", 0), 1
        else:
            for array in self.arrays:
                array.drop(lambda page: page[0] == space and self.overlaps(page, start, end))
            self.empty_caches()
            count["tlb_invalidations"] += pages
            cycles = pages * rules.get("invlpg_cycles", 0)
            requests = math.ceil(pages / (rules.get("broadcast_pages") or math.inf))
        others = (cpus if cpus > 0 else rules["cores"] if vaddr < 0 else rules.get("program_cpus", 1)) - 1
        if rules.get("broadcast_pages") and (of_kernel or others + 1 >= rules.get("broadcast_from", 0)):
            wait = rules.get("sync_cycles", 0) + others * rules.get("sync_cpu_cycles", 0)
            count["tlb_invalidation_cycles"] += requests * rules.get("broadcast_cycles", 0) + wait
            return
        count["tlb_shootdowns"] += others
        if others:  # one multicast
            cycles += rules.get("shootdown_cycles", 0) + (others - 1) * rules.get("shootdown_cpu_cycles", 0)
        count["tlb_invalidation_cycles"] += cycles

    @staticmethod
    def overlaps(page, start, end):
        _, order, number = page
        first = number << order
        if first >= SPACE // 2:
            first -= SPACE
        return first < end and start < first + (1 << order)

    def flush(self, space):
        for array in self.arrays:
            array.drop(lambda page: space is None or (page[0] == space and page[2] << page[1] < SPACE // 2))
        self.empty_caches()

    def switch(self, program):
        numbers = range(6 if self.rules["pcid"] else 1)
        for number in numbers:
            if self.programs[number] == program:
                self.space = number
                return
        number = self.next if self.rules["pcid"] else 0
        self.next = (number + 1) % 6
        if self.programs[number] is not None:
            self.flush(number)
            self.count["tlb_flushes"] += 1
            self.count["tlb_invalidation_cycles"] += self.rules.get("flush_cycles", 0)
        self.space, self.programs[number] = number, program

    def run(self, side, vaddr, length, order, accesses):
        if not length:
            return
        name = "itlb" if side == "fetch" else f"dtlb_{side}"
        piece, _ = self.level("first_level_for", side, self.page_order(side, order), order & 32)
        numbers = range(vaddr >> piece, (vaddr + length - 1 >> piece) + 1)
        for number in numbers:
            self.translate(name, side, max(number << piece, vaddr), order)
        more = max(accesses - len(numbers), 0)
        self.count[f"{name}_lookups"] += more
        self.count[f"{name}_l1_hit"] += more
        self.now += len(numbers) + more
        if side != "fetch" and vaddr >= 0:
            self.count["dtlb_user_lookups"] += more

    def translate(self, name, side, address, order):
        count, user = self.count, side != "fetch" and address >= 0
        size, contiguous = self.page_order(side, order), order & 32
        leaf, space = min(self.leaf(size), 3), self.space if address >= 0 else 0
        count[f"{name}_lookups"] += 1
        count["dtlb_user_lookups"] += user
        found = self.look_up(side, address, size, contiguous, space)
        if found == 1:
            count[f"{name}_l1_hit"] += 1
        elif found == 2:
            count[f"{name}_misses_stlb_hit"] += 1
            if side != "fetch":
                count[f"dtlb_misses_stlb_hit_{NAMES[leaf]}"] += 1
            count["dtlb_user_misses_stlb_hit"] += user
        else:
            count[f"{name}_misses_walk_completed"] += 1
            count[f"{name}_misses_walk_completed_{NAMES[leaf]}"] += 1
            count["dtlb_user_misses_walk_completed"] += user
            cycles = self.page_walk(address, leaf, space, order & 64)
            count[f"{name}_misses_walk_pending"] += cycles
            count[f"{name}_misses_walk_active"] += self.active(cycles)
        if address >= 0 and self.walk.get("hardware_bits"):
            self.update(address >> size, size, space, found == 0, side == "store")

    def look_up(self, side, address, size, contiguous, space):
        """Level that has the page, 0 for none; afterwards the levels hold what the rule says."""
        l1_size, l1 = self.level("first_level_for", side, size, contiguous)
        stlb_size, stlb = self.level("second_level_for", side, size, contiguous)
        page = space, l1_size, address % SPACE >> l1_size
        stlb_page = stlb and (space, stlb_size, address % SPACE >> stlb_size)
        if l1.set_of(page).hit(page):
            return 1
        if self.fill == "on-walk":
            if stlb and stlb.look_up(stlb_page):
                return 2
            l1.set_of(page).insert(page)
            return 0
        if self.fill == "mostly-inclusive":
            l1.set_of(page).insert(page)  # first, which matters where both levels draw at random
            return 2 if stlb and stlb.look_up(stlb_page) else 0
        found = 0
        if stlb and stlb.has(stlb_page):
            stlb.set_of(stlb_page).remove(stlb_page)
            found = 2
        gone = l1.set_of(page).insert(page)
        if gone and self.fill == "exclusive":
            data = "load" if side != "fetch" else "fetch"
            kept_size, kept = self.level("second_level_for", data, gone[1], False)
            if kept and kept_size == gone[1] and not kept.has(gone):
                kept.set_of(gone).insert(gone)
        return found

    def page_walk(self, address, leaf, space, scm):
        count, low, cycles = self.count, address % SPACE, 0
        top = leaf
        while top < self.walk["levels"]:
            name, order = LEVELS[top + 1], self.shift[top + 1]
            if name in self.held and self.held[name].look_up((space, order, low >> order)):
                count["page_walk_cache_hits"] += 1
                count[f"page_walk_cache_hits_{name}"] += 1
                break
            top += 1
        virtual = self.walk.get("nested_levels", 0) > 0
        for level in range(top, leaf - 1, -1):
            count["page_walker_loads"] += 1
            count[f"page_walker_loads_{LEVELS[level]}"] += 1
            line = low >> self.shift[level] >> 3 | level << 44
            if virtual:
                cycles += self.host_walk(("table", line << 6), line << 6, scm)
            cycles += self.reference((space, 0, line), scm)
        return cycles + (self.host_walk(("page", low), low, scm) if virtual else 0)

    def host_walk(self, what, address, scm):
        order, cycles = bits(self.walk.get("nested_page", "4KiB")), 0
        kind = 0 if what[0] == "table" else 1 << 61
        if self.nested and self.nested.look_up((kind, order, address >> order)):
            return 0
        for level in range(self.walk["nested_levels"], self.leaf(order) - 1, -1):
            self.count["page_walker_loads"] += 1
            self.count["page_walker_nested_loads"] += 1
            cycles += self.reference((0, 0, address % SPACE >> self.shift[level] >> 3 | level + 8 << 44), scm)
        return cycles

    def reference(self, line, scm):
        for place, (entry, cache) in zip(("l1", "l2", "l3"), self.memory, strict=False):
            if cache.look_up(line):
                self.count[f"page_walker_loads_{place}"] += 1
                return entry["cycles"]
        memory = self.walk.get("ref_cycles", self.walk.get("memory_cycles", 0))
        if not self.memory:
            return memory
        self.count["page_walker_loads_scm" if scm else "page_walker_loads_memory"] += 1
        return self.walk.get("scm_cycles", memory) if scm else memory

    def active(self, cycles):
        walker = self.free.index(min(self.free))
        start = max(self.now, self.free[walker])
        self.now = start
        self.free[walker] = start + cycles
        grown = max(start + cycles - max(start, self.active_until), 0)
        self.active_until = max(self.active_until, start + cycles)
        return grown

    def update(self, number, order, space, walked, store):
        page = space, order, number
        fresh = (walked and page not in self.accessed) or (store and page not in self.dirty)
        if walked or store:
            self.accessed.add(page)
        if store:
            self.dirty.add(page)
        self.count["page_table_updates"] += fresh
        self.count["page_table_update_cycles"] += fresh * self.walk.get("update_cycles", 0)
