"""Requests to ext4's allocator beside its reference: the blocks of each, and which groups' bitmaps were read, on two kernels."""

import random

import pytest

from scmsim.alloc import mballoc as m
from scmsim.alloc import mballoc_search
from tests.conftest import NO_JIT
from tests.fs import drive
from tests.reference.ext4_layout import mkfs
from tests.reference.ext4_layout.groups import Groups
from tests.reference.ext4_layout.search import Context, Piece, Search

MIB = 1 << 20
LENGTHS = [1, 2, 3, 8, 16, 100, 256, 512, 600, 1024, 2048, 4096, 8192]


class Both:
    """A state of ext4-dax and the reference's groups, both just mounted."""

    def __init__(self, kernel, mib, seed):
        self.draw = random.Random(seed)
        self.record = (model := drive.Model("ext4-dax", drive.files(), capacity=mib * MIB, kernel=kernel)).record
        self.arena = model.state.arena
        self.groups = Groups(mkfs.make(mkfs.Mkfs(mib * MIB)))
        self.search = Search(self.groups, release=tuple(map(int, kernel.split("."))))
        self.taken = []
        for number in self.loaded():  # of the root directory's block
            self.groups.load(number)

    def loaded(self):
        """Return the groups whose bitmaps the model has read."""
        rows = self.arena[self.record.group_table :][: self.record.group_count * m.GROUP_WORDS]
        return rows[m.IS_LOADED :: m.GROUP_WORDS].nonzero()[0].tolist()

    def request(self):
        """Make one request of both; return what each found, as (first block, blocks)."""
        draw, record = self.draw, self.record
        asked, goal = draw.choice(LENGTHS), draw.randrange(record.blocks)
        is_data, is_stream, try_goal = draw.random() < 0.8, draw.random() < 0.5, draw.random() < 0.2
        planned = draw.choice([n for n in LENGTHS if n >= asked]) if is_data else asked
        group, start = divmod(goal, m.GROUP)
        want = Context(None, Piece(0, group, start, asked), is_data)
        want.stream, want.try_goal = is_data and is_stream, try_goal
        want.goal.length = want.planned = planned
        if is_data and draw.random() < 0.3:
            want.planned = asked  # as for a preallocation of small files
        record.want, record.asked, record.planned = planned, asked, want.planned
        record.goal, record.try_goal = goal, try_goal
        record.for_data, record.for_stream = is_data, want.stream
        self.search.run(want)
        mine = int(mballoc_search.allocate(record, self.arena)), int(record.got)
        theirs = (-1, 0)
        if want.status == "found":
            theirs = want.best.group * m.GROUP + want.best.start, want.best.length
            self.groups.mark_disk(want.best.group, want.best.start, want.best.length)
            self.taken.append(theirs)
        assert (record.want, bool(record.got)) == (want.goal.length, want.status == "found")
        return mine, theirs

    def give_back(self):
        """Free a part of what a request got."""
        first, count = self.taken.pop(self.draw.randrange(len(self.taken)))
        kept = self.draw.randrange(count)
        if kept:
            self.taken.append((first, kept))
        m.mark_free(self.record, self.arena, first + kept, count - kept)
        self.groups.free_later(first + kept, count - kept, -1)


@pytest.mark.parametrize("kernel", ["6.1", "6.12"])
@pytest.mark.parametrize(("mib", "seed"), [(256, 1), (256, 2), (1024, 3), (2048, 4), (2048, 5), (2048, 6), (2300, 7)])
def test_requests_get_the_blocks_of_the_reference(kernel, mib, seed):
    both = Both(kernel, mib, seed)
    for _ in range(60 if NO_JIT else 1500):
        mine, theirs = both.request()
        assert mine == theirs
        assert both.loaded() == [group.number for group in both.groups.all if group.buddy]
        while both.taken and both.draw.random() < 0.4:
            both.give_back()
    assert NO_JIT or len(both.taken) > 10
