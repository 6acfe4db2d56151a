"""The alignment-aware allocator against its reference, on devices that are full at times, and its tree against a sorted list."""

import numpy as np
import pytest

from scmsim.alloc import aligned_holes, first_fit, range_tree
from scmsim.fs.engine.events import HEADER, new_state
from tests.fs.winefs.reference_holes import Holes

STATE = np.dtype((np.record, [*HEADER, *first_fit.FIELDS, *aligned_holes.FIELDS]))
RESERVED, EXTENT = 100, 512


class Device:
    """Kernel and reference side by side."""

    def __init__(self, blocks, cpus):
        self.state = new_state(STATE, 64 + aligned_holes.arena_words(blocks), np.zeros((1, 4), np.int64))
        aligned_holes.attach(self.state, RESERVED, blocks, cpus)
        self.record, self.cpus = self.state.record[0], cpus
        self.reference = Holes(RESERVED, blocks, cpus)

    def take(self, cpu, want):
        self.record.cpu = self.reference.cpu = cpu
        expected = self.reference.take_run(want) if self.reference.free else (-1, 0)
        start = int(aligned_holes.allocate(self.record, self.state.arena, want))
        assert (start, int(self.record.got)) == expected
        return expected

    def give(self, start, count):
        assert range_tree.ready(self.record, self.state.arena, count // EXTENT + 2)
        aligned_holes.release(self.record, self.state.arena, start, count)
        self.reference.give(start, count)

    def holes(self, cpu):
        """(first, last block, whether it serves the next request) of each hole, in the tree's order."""
        s, arena = self.record, self.state.arena
        node, found = range_tree.end_of(s, arena, s.root_of[cpu], range_tree.LEFT), []
        while node:
            low, high = (int(range_tree.get(s, arena, node, field)) for field in (range_tree.LOW, range_tree.HIGH))
            found.append((low, high, node == s.first_of[cpu]))
            node = range_tree.neighbour(s, arena, node, range_tree.RIGHT)
        return found

    def check(self):
        for cpu, part in enumerate(self.reference.ranges):
            assert self.holes(cpu) == [(node.low, node.high, node is part.head) for node in part.tree.nodes()]
            assert (self.record.free_of[cpu], self.record.extents_of[cpu]) == (part.count, len(part.extents))
        assert int(self.record.free_blocks) == len(self.reference.free)
        assert int(self.record.lost_blocks) == self.reference.lost


@pytest.mark.parametrize(
    ("blocks", "cpus"),
    [(4 * EXTENT, 1), (4 * EXTENT + 200, 2), (7 * EXTENT + 63, 3), (17 * EXTENT, 5), (64 * EXTENT, 2)],
)
def test_many_requests_and_releases(blocks, cpus):
    random, device, taken = np.random.default_rng(cpus), Device(blocks, cpus), []
    device.check()
    for _ in range(400):
        if not taken or random.random() < 0.6:
            cpu, want = int(random.integers(0, cpus)), int(random.choice([1, 63, 64, 65, 200, 511, EXTENT, EXTENT]))
            start, got = device.take(cpu, want)
            taken += [(start, got)] if start >= 0 else []
        else:
            start, got = taken.pop(int(random.integers(0, len(taken))))
            cut = int(random.integers(0, got + 1))
            if cut:
                device.give(start, cut)
            if got > cut:
                taken.append((start + cut, got - cut))
        device.check()
    while device.reference.free:
        taken.append(device.take(0, EXTENT))
    assert device.take(0, 1) == (-1, 0)
    for run in taken:
        device.give(*run)
    device.check()


def test_the_last_extent_of_a_range_is_a_hole():
    device = Device(8 * EXTENT, 2)
    assert device.holes(0) == [(RESERVED, EXTENT - 1, True), (3 * EXTENT, 4 * EXTENT - 1, False)]
    assert device.take(0, EXTENT) == (EXTENT, EXTENT)
    assert device.take(0, EXTENT - RESERVED) == (RESERVED, EXTENT - RESERVED)
    assert device.take(0, 1) == (3 * EXTENT, 1)  # before an extent is broken


def test_blocks_after_the_extents_of_a_freed_run_are_hidden():
    """Their node enters the tree before all others, where the next request does not look for it."""
    device = Device(16 * EXTENT, 1)
    taken = [device.take(0, EXTENT) for _ in range(14)]
    device.take(0, EXTENT - RESERVED)
    device.take(0, 400)  # of the last extent, a hole
    assert device.holes(0) == [(15 * EXTENT + 400, 16 * EXTENT - 1, True)]
    device.give(taken[3][0] + 100, EXTENT - 100)
    device.give(taken[4][0] + EXTENT, EXTENT)
    device.give(taken[4][0], EXTENT)
    assert int(device.record.extents_of[0]) == 2
    device.give(taken[7][0] + 500, 12)
    device.give(taken[8][0] + 5, EXTENT)
    device.check()
    device.give(taken[8][0], 5)
    assert device.holes(0)[0] == (taken[9][0], taken[9][0] + 4, False)
    device.check()


def test_a_run_past_the_end_of_its_range_is_lost():
    device = Device(8 * EXTENT, 2)
    device.give(4 * EXTENT - 100, 200)
    assert int(device.record.lost_blocks) == 200
    assert int(device.record.free_blocks) == 8 * EXTENT - RESERVED


def test_nodes_of_a_tree_that_grows():
    """Insertions and removals in random order keep the order of the ranges, and the pool grows with them."""
    device = Device(4 * EXTENT, 1)
    s, arena, random = device.record, device.state.arena, np.random.default_rng(0)
    held = int(s.pool_nodes)
    while not range_tree.ready(s, device.state.arena, 3 * held):
        device.state.grow(int(s.need_words))
    arena, root, nodes = device.state.arena, 0, {}
    assert int(s.pool_nodes) > held
    for _ in range(2000):
        at = int(random.integers(1, 1 << 40))
        root, nodes[at] = range_tree.insert(s, arena, root, at, at, at)
        if len(nodes) > 300:
            gone = int(random.choice(list(nodes)))
            root = range_tree.erase(s, arena, root, nodes.pop(gone))
    node, order = range_tree.end_of(s, arena, root, range_tree.LEFT), []
    while node:
        order.append(int(range_tree.get(s, arena, node, range_tree.LOW)))
        node = range_tree.neighbour(s, arena, node, range_tree.RIGHT)
    assert order == sorted(nodes)
