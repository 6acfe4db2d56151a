"""Where XFS's allocator puts blocks, against the reference after the source, and laws of free space."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.alloc import first_fit, xfs_busy, xfs_free_space, xfs_groups
from scmsim.fs.engine import arena
from scmsim.fs.engine.events import HEADER, new_state
from tests.conftest import NO_JIT
from tests.reference.xfs_layout import Groups

STATE = np.dtype((np.record, [*HEADER, *first_fit.FIELDS, *xfs_groups.FIELDS]))


class Device:
    """Kernels and reference side by side."""

    def __init__(self, blocks, groups, used):
        words = 4096 + xfs_groups.arena_words(blocks, groups)
        self.state = new_state(STATE, words, np.zeros((1, 4), np.int64))
        xfs_free_space.attach(self.state, used, blocks, groups)
        self.record, self.reference, self.live = self.state.record[0], Groups(blocks, groups, used), []

    def runs(self, group):
        """Return the lengths of a group's free runs."""
        size = int(self.record.ag_blocks)
        free = self.reference.free[group * size : (group + 1) * size]
        return [len(run) for run in "".join("x" if one else " " for one in free).split()]

    def run_of(self, block):
        """Return the length of the free run that has a block; 0 if the block is not free."""
        size = int(self.record.ag_blocks)
        first = block // size * size
        free = "".join("x" if one else " " for one in self.reference.free[first : first + size])
        before, after = free[: block - first].split(" ")[-1], free[block - first :].split(" ")[0]
        return len(before) + len(after) if after else 0

    def take(self, goal, want, for_data):
        group = goal // int(self.record.ag_blocks)
        runs, at_goal, self.record.compared = self.runs(group), self.run_of(goal), 0
        start = int(xfs_groups.allocate(self.record, self.state.arena, goal, want, for_data))
        mine = list(range(start, start + int(self.record.got)))
        expected = 0
        if mine and start // int(self.record.ag_blocks) == group:
            long_enough = sorted(length for length in runs if length >= min(len(mine), xfs_free_space.LONG))
            expected = len(long_enough) - 1
            if start == goal and at_goal < xfs_free_space.LONG:
                expected = sum(length < at_goal for length in long_enough)
        assert self.record.compared == expected
        assert mine == self.reference.btalloc(goal, want, for_data)
        self.live += [mine] if mine else []

    def take_aligned(self, goal, count, after):
        start = int(xfs_groups.allocate_aligned(self.record, self.state.arena, goal, count, after))
        mine = list(range(start, start + int(self.record.got)))
        assert mine == self.reference.chunk(goal, count, after if after >= 0 else None)
        self.live += [mine] if mine else []

    def give(self, which, keep):
        """Free what an allocation gave, or its second part."""
        if self.live:
            blocks = self.live.pop(which % len(self.live))
            cut = keep % len(blocks)
            if cut:
                self.live.append(blocks[:cut])
            self.reference.give(blocks[cut], len(blocks) - cut)
            node = arena.take(self.record, self.state.arena, xfs_busy.NODE_ORDER)
            xfs_busy.keep(self.record, self.state.arena, node)
            xfs_free_space.release(self.record, self.state.arena, blocks[cut], len(blocks) - cut)

    def checkpoint(self):
        self.reference.checkpoint()
        xfs_free_space.clear_busy(self.record, self.state.arena)

    def bitmap(self, bits):
        words = self.state.arena[bits : bits + -(-int(self.record.blocks) // 64)]
        return np.unpackbits(words.view(np.uint8), bitorder="little")[: int(self.record.blocks)]

    def busy(self, node, reference):
        """Yield the extents (start, end) of a tree in order; nodes and their colours are where the reference has them."""
        if node:
            words = self.state.arena[node : node + 6].tolist()
            assert (words[xfs_busy.START], words[xfs_busy.IS_RED]) == (reference.start, reference.red)
            yield from self.busy(words[xfs_busy.LEFT], reference.left)
            yield words[xfs_busy.START], words[xfs_busy.START] + words[xfs_busy.LENGTH]
            yield from self.busy(words[xfs_busy.RIGHT], reference.right)
        else:
            assert reference is None

    def check(self):
        """The same blocks are free and busy on both sides; a busy block is free, and the live ones are not."""
        free = self.bitmap(self.record.bits)
        assert free.tolist() == self.reference.free
        assert self.record.is_forced == self.reference.forced
        for group, reference in enumerate(self.reference.busy):
            row = xfs_free_space.group_row(self.record, group)
            busy = list(self.busy(self.state.arena[row + xfs_free_space.BUSY], reference.root))
            assert busy == reference.extents()
            assert all(free[start:end].all() for start, end in busy)
        assert int(self.record.free_blocks) == free.sum()
        live = [block for blocks in self.live for block in blocks]
        assert len(set(live)) == len(live) and not free[live].any()
        for group in range(int(self.record.ag_count)):
            row = xfs_free_space.group_row(self.record, group)
            at, length = self.state.arena[row + xfs_free_space.RUN_AT], self.state.arena[row + xfs_free_space.RUN]
            assert free[at : at + length].all()
            lengths = [min(length, xfs_free_space.LONG) for length in self.runs(group)]
            counts = self.state.arena[row + xfs_free_space.RUNS :][: xfs_free_space.LONG].tolist()
            assert counts == [lengths.count(length) for length in range(1, xfs_free_space.LONG + 1)]


BLOCK = st.integers(0, 1 << 20)
WANT = st.sampled_from([1, 1, 1, 2, 3, 5, 8, 16, 33, 64, 65, 130, 500])
ACTION = st.one_of(
    st.tuples(st.just("take"), BLOCK, WANT, st.booleans()),
    st.tuples(st.just("append"), BLOCK, WANT, st.booleans()),
    st.tuples(st.just("chunk"), BLOCK, st.sampled_from([4, 8]), BLOCK),
    st.tuples(st.just("give"), BLOCK, BLOCK, st.none()),
    st.tuples(st.just("give"), BLOCK, BLOCK, st.none()),
    st.tuples(st.just("checkpoint"), st.none(), st.none(), st.none()),
)


@settings(max_examples=40 if NO_JIT else 400, deadline=None)
@given(
    blocks=st.integers(200, 1500),
    groups=st.integers(1, 5),
    reserved=st.integers(1, 30),
    actions=st.lists(ACTION, max_size=60),
)
def test_allocations_are_where_the_reference_has_them(blocks, groups, reserved, actions):
    size = -(-blocks // groups)
    device = Device(blocks, groups, [(group * size, reserved) for group in range(groups)])
    for what, a, b, c in actions:
        if what == "take":
            device.take(a % blocks, b, c)
        elif what == "append" and device.live:
            device.take(min(device.live[a % len(device.live)][-1] + 1, blocks - 1), b, c)
        elif what == "chunk":
            device.take_aligned(a % blocks, b, c % blocks if c % 3 else -1)
        elif what == "give":
            device.give(a, b)
        elif what == "checkpoint":
            device.checkpoint()
        device.check()
