"""How mballoc looks for free blocks: at the goal, then group by group with criteria that get looser.

Linux 6.1 and 6.12, fs/ext4/mballoc.c: ext4_mb_regular_allocator and what it calls, on a device without seek time (persistent
memory: no linear search first, bitmaps that are read at once).  Lengths and starts in blocks.
"""

import dataclasses
from dataclasses import dataclass, field

from tests.reference.ext4_layout.groups import GroupInfo, Groups

MAX_TO_SCAN, MIN_TO_SCAN = 200, 10  # MB_DEFAULT_MAX_TO_SCAN, MB_DEFAULT_MIN_TO_SCAN
_ORDER2_FROM = 2  # MB_DEFAULT_ORDER2_REQS: the first fls(length) that the buddy serves
FLEX_DIR_SCHEME = 4  # EXT4_FLEX_SIZE_DIR_ALLOC_SCHEME
POWER2, FAST, TRIMMED, SLOW, ANY = range(5)  # enum criteria; 6.1 has no TRIMMED (CR_BEST_AVAIL_LEN)
_MOST_TRIMMED = 3  # MB_DEFAULT_BEST_AVAIL_TRIM_ORDER
_FLIGHTS = 8  # flex groups whose bitmaps are read ahead at once
_WITHOUT_FLEX = 32  # groups whose bitmaps are read ahead where there are no flex groups


@dataclass
class Piece:
    """Blocks of one group that serve a file from a logical block on."""

    logical: int
    group: int
    start: int
    length: int

    @property
    def logical_end(self) -> int:
        """Return the logical block after the piece."""
        return self.logical + self.length


@dataclass
class Context:
    """One allocation (struct ext4_allocation_context)."""

    inode: object
    wanted: Piece  # ac_o_ex
    data: bool
    no_preallocation: bool = False
    try_goal: bool = False
    stream: bool = False
    group_allocation: bool = False
    take_first: bool = False
    planned: int = 0  # ac_orig_goal_len
    goal: Piece = None  # ac_g_ex
    best: Piece = field(default_factory=lambda: Piece(0, 0, 0, 0))  # ac_b_ex
    status: str = "continue"  # or "found", "break"
    order: int = 0  # ac_2order
    found: int = 0
    preallocation: object = None

    def __post_init__(self) -> None:
        """Start from the wanted blocks."""
        self.goal = dataclasses.replace(self.wanted)
        self.planned = self.wanted.length


class Search:
    """The search for free blocks, and the last place where a large file found some."""

    def __init__(self, groups: Groups, stripe: int = 0, release: tuple[int, int] = (6, 1)) -> None:
        self.groups, self.stripe = groups, stripe
        self.new = release >= (6, 5)
        self.ahead: list[int] = []  # groups whose bitmaps the search reads ahead
        self.following = 0  # the group after them
        self.last_group, self.last_start = 0, 0

    def run(self, ac: Context) -> None:
        """Look for free blocks; if there are any, take the best and set the status to found."""
        self._at_goal(ac)
        if ac.status == "found":
            return
        length = ac.goal.length
        power = length.bit_length() - 1
        two = length == 1 << power and _ORDER2_FROM <= power + 1 <= self.groups.top_order + 1
        ac.order = power if two else 0
        if ac.stream:
            ac.goal.group, ac.goal.start = self.last_group, self.last_start
        criterion = POWER2 if ac.order else FAST
        while True:
            while criterion <= ANY and ac.status == "continue":
                criterion = self._all_groups(ac, criterion)
            if not ac.best.length or ac.status == "found" or ac.take_first:
                break
            self._try_best(ac)
            if ac.status == "found":
                break
            ac.best, ac.status, ac.take_first, criterion = Piece(0, 0, 0, 0), "continue", True, ANY
        for number in self.ahead[::-1]:
            if self.groups.all[number].disk_free:
                self.groups.load(number)
        self.ahead = []

    def _all_groups(self, ac: Context, criterion: int) -> int:
        """Scan groups by a criterion; return the next one."""
        count = len(self.groups.all)
        first = ac.goal.group if ac.goal.group < count else 0
        if self.new:
            self._scan_in_order(ac, criterion, first)
        else:
            self._scan_listed(ac, criterion, first)
        if not self.new or (self.groups.optimized and not ac.data):
            return SLOW if criterion == FAST else criterion + 1  # a request for metadata is not trimmed
        return criterion + 1

    def _scan_listed(self, ac: Context, criterion: int, number: int) -> None:
        """Scan the group of the goal, and then those that the lists suggest, or the groups after it."""
        count = len(self.groups.all)
        for _ in range(count):
            self._try(ac, number, criterion)
            if ac.status != "continue":
                return
            if self.groups.optimized and criterion < SLOW:
                number = self._suggested(ac, criterion)
                if number < 0:
                    return
            else:
                number = number + 1 if number + 1 < count else 0

    def _scan_in_order(self, ac: Context, criterion: int, first: int) -> None:
        """Scan groups from the goal's on, then those before it, each time by order and number: ext4_mb_scan_groups."""
        count, self.following, self.ahead = len(self.groups.all), first, []
        if not self.groups.optimized or criterion >= SLOW:
            for i in range(count):
                self._try(ac, (first + i) % count, criterion)
                if ac.status != "continue":
                    return
            return
        orders = self._orders(ac, criterion)
        lists = self.groups.by_largest if criterion == POWER2 else self.groups.by_fragment
        for start, end in ((first, count), (0, first)):
            for order, length in orders:
                ac.goal.length = length
                for number in sorted(each for each in lists[order] if start <= each < end):
                    self._try(ac, number, criterion)
                    if ac.status != "continue":
                        return
        if criterion == TRIMMED:
            ac.goal.length = ac.planned

    def _orders(self, ac: Context, criterion: int) -> list[tuple[int, int]]:
        """Return the orders of the lists that a criterion goes through, each with the length that is asked for then."""
        length = ac.goal.length
        if criterion != TRIMMED:
            first = self.groups.fragment_order(length) if criterion == FAST else ac.order
            return [(order, length) for order in range(first, self.groups.top_order + 1)]
        longest = length.bit_length() - 1
        least = max(longest - _MOST_TRIMMED, 0)
        if self.stripe and 1 << least < self.stripe:
            least = self.stripe.bit_length() - 1
        if 1 << least < ac.wanted.length:
            least = ac.wanted.length.bit_length()
        unit = self.stripe or 1
        lengths = [-(-(1 << each) // unit) * unit for each in range(longest, least - 1, -1)]
        return [(self.groups.fragment_order(each), each) for each in lengths]

    def _try(self, ac: Context, number: int, criterion: int) -> None:
        """Scan one group if it may serve."""
        if self.new and number == self.following:
            self._read_ahead(number)
        group = self._if_good(ac, number, criterion)
        if group:
            self._scan(ac, group, criterion)

    def _read_ahead(self, number: int) -> None:
        """Note the groups whose bitmaps are read with one's, to the end of its flex group.

        They get their buddies when the search ends, the last one first: ext4_mb_might_prefetch, ext4_mb_prefetch_fini.  6.1
        only does so for bitmaps that were not there at once, of which persistent memory has none.
        """
        flex, count = self.groups.layout.flex_size, len(self.groups.all)
        most = min(flex * _FLIGHTS if flex > 1 else _WITHOUT_FLEX, count)
        most = min(flex - number % flex, most) if flex > 1 else most
        self.ahead = [(number + i) % count for i in range(most)]
        self.following = (number + most) % count

    def _suggested(self, ac: Context, criterion: int) -> int:
        """Return a group from the lists that fits; -1 if there is none."""
        lists = self.groups.by_fragment if criterion == FAST else self.groups.by_largest
        first = self.groups.fragment_order(ac.goal.length) if criterion == FAST else ac.order
        for order in range(first, self.groups.top_order + 1):
            for number in lists[order]:
                if self._is_good(ac, self.groups.all[number], criterion):
                    return number
        return -1

    def _if_good(self, ac: Context, number: int, criterion: int) -> GroupInfo | None:
        """Return a group if it may serve: ext4_mb_good_group_nolock."""
        group = self.groups.all[number]
        if group.free == 0 or (criterion < ANY and group.free < ac.goal.length):
            return None
        flex = self.groups.layout.flex_size
        if group.buddy is None:  # a quick search does not read a bitmap, unless it is known without
            first_of_flex = flex > 1 and number % flex == 0
            if criterion < SLOW and not first_of_flex and not group.uninit:
                return None
            self.groups.load(number)
        return group if self._is_good(ac, group, criterion) else None

    def _is_good(self, ac: Context, group: GroupInfo, criterion: int) -> bool:
        """Return whether a group meets a criterion: ext4_mb_good_group."""
        if group.free == 0 or not group.buddy or group.buddy.fragments == 0:
            return False
        if criterion == POWER2:
            flex = self.groups.layout.flex_size
            if ac.data and flex >= FLEX_DIR_SCHEME and group.number % flex == 0:
                return False  # the first group of a flex group is for directories
            return group.free >= ac.goal.length and group.largest_order >= ac.order
        if criterion in (FAST, TRIMMED):
            return group.free // group.buddy.fragments >= ac.goal.length
        return criterion == ANY or group.free >= ac.goal.length

    def _at_goal(self, ac: Context) -> None:
        """Take the goal itself if all of it is free: ext4_mb_find_by_goal."""
        if not ac.try_goal or self.groups.all[ac.goal.group].free == 0:
            return
        group = self.groups.load(ac.goal.group)
        length = group.buddy.find_extent(ac.goal.start, ac.goal.length)
        if length < ac.goal.length:
            return
        block = self.groups.layout.first_block(group.number) + ac.goal.start
        if ac.goal.length == self.stripe and block % self.stripe:
            return
        ac.found += 1
        self._use(ac, group, ac.goal.start, length)

    def _scan(self, ac: Context, group: GroupInfo, criterion: int) -> None:
        if criterion == POWER2:
            self._scan_simple(ac, group)
            return
        if criterion < SLOW and self.stripe and ac.goal.length % self.stripe == 0:
            self._scan_aligned(ac, group)
            if not self.new:
                return
        if ac.status == "continue":
            self._scan_complex(ac, group, skip=self.new and criterion < SLOW)

    def _scan_simple(self, ac: Context, group: GroupInfo) -> None:
        """Take the first chunk of the smallest sufficient order."""
        for order in range(ac.order, self.groups.top_order + 1):
            if group.buddy.counts[order]:
                ac.found += 1
                self._use(ac, group, group.buddy.chunks[order].find(1) << order, 1 << order)
                return

    def _scan_aligned(self, ac: Context, group: GroupInfo) -> None:
        """Take the first free stripe."""
        first = self.groups.layout.first_block(group.number)
        start = -(-first // self.stripe) * self.stripe - first
        while start < len(group.disk):
            length = group.buddy.find_extent(start, self.stripe)
            if length >= self.stripe:
                ac.found += 1
                self._use(ac, group, start, length)
                return
            start += self.stripe

    def _scan_complex(self, ac: Context, group: GroupInfo, skip: bool) -> None:
        """Measure every free run of the group until one is good enough; `skip`: only those that are long enough."""
        free, at = group.free, 0
        while free and ac.status == "continue":
            at = group.buddy.used.find(0, at)
            if skip:
                end = group.buddy.used.find(1, at)
                end = len(group.buddy.used) if end < 0 else end
                if end - at < ac.goal.length:
                    at, free = end, free - (end - at)
                    continue
            length = group.buddy.find_extent(at, ac.goal.length)
            self._measure(ac, group, at, length)
            at, free = at + length, free - length
        self._check_limits(ac, group, finished=True)

    def _measure(self, ac: Context, group: GroupInfo, start: int, length: int) -> None:
        """Compare a free run with the best so far: ext4_mb_measure_extent."""
        ac.found += 1
        best, goal = ac.best.length, ac.goal.length
        if ac.take_first or length == goal:
            self._use(ac, group, start, length)
            return
        better = length > best if best < goal else goal < length < best
        if best == 0 or better:
            ac.best = Piece(0, group.number, start, length)
        if best:
            self._check_limits(ac, group, finished=False)

    def _check_limits(self, ac: Context, group: GroupInfo, finished: bool) -> None:
        """Stop a scan that has lasted long enough."""
        if ac.status == "found":
            return
        if ac.found > MAX_TO_SCAN and not ac.take_first:
            ac.status = "break"
            return
        if ac.best.length < ac.goal.length:
            return
        if (finished or ac.found > MIN_TO_SCAN) and ac.best.group == group.number:
            length = group.buddy.find_extent(ac.best.start, ac.goal.length)
            if length >= ac.goal.length:
                self._use(ac, group, ac.best.start, ac.best.length)

    def _try_best(self, ac: Context) -> None:
        group = self.groups.load(ac.best.group)
        length = group.buddy.find_extent(ac.best.start, ac.best.length)
        if length:
            self._use(ac, group, ac.best.start, length)

    def _use(self, ac: Context, group: GroupInfo, start: int, length: int) -> None:
        """Take blocks for the context, no more than its goal: ext4_mb_use_best_found."""
        ac.best = Piece(ac.goal.logical, group.number, start, min(length, ac.goal.length))
        self.groups.take(group.number, start, ac.best.length)
        ac.status = "found"
        if ac.stream:
            self.last_group, self.last_start = group.number, start
