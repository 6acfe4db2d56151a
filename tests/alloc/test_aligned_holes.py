"""The alignment-aware allocator against a set of free blocks, on devices that are full at times."""

import numpy as np
import pytest

from scmsim.alloc import aligned_holes, first_fit
from scmsim.fs.engine.events import HEADER, new_state

STATE = np.dtype((np.record, [*HEADER, *first_fit.FIELDS, *aligned_holes.FIELDS]))
RESERVED, EXTENT = 100, 512


class Device:
    """Kernel and reference side by side."""

    def __init__(self, blocks, cpus):
        self.state = new_state(STATE, 64 + first_fit.arena_words(blocks), np.zeros((1, 4), np.int64))
        aligned_holes.attach(self.state, RESERVED, blocks, cpus)
        self.record, self.blocks = self.state.record[0], blocks
        step = blocks // cpus // EXTENT * EXTENT
        self.ranges = [range(cpu * step, blocks if cpu == cpus - 1 else (cpu + 1) * step) for cpu in range(cpus)]
        self.free = set(range(RESERVED, blocks))

    def extents(self, cpu):
        """First blocks of the aligned extents of a CPU that are wholly free."""
        starts = range(self.ranges[cpu].start, self.blocks, EXTENT)
        return [
            at
            for at in starts
            if at in self.ranges[cpu] and self.free.issuperset(range(at, at + EXTENT)) and at + EXTENT <= self.blocks
        ]

    def pick(self, cpu, want):
        """The CPU's own range if it has as many blocks, or the one with most in holes, or with most."""
        free = [len(self.free & set(blocks)) for blocks in self.ranges]
        if free[cpu] >= want:
            return cpu
        holes = [count - EXTENT * len(self.extents(k)) for k, count in enumerate(free)]
        if want != EXTENT and max(holes) >= want:
            return holes.index(max(holes))
        return cpu if free[cpu] == max(free) else free.index(max(free))

    def expected(self, cpu, want):
        """(first block, blocks) of what serves a request."""
        if not self.free:
            return -1, 0
        cpu = self.pick(cpu, want)
        extents = self.extents(cpu)
        mine = self.free & set(self.ranges[cpu])
        holes = mine - {block for at in extents for block in range(at, at + EXTENT)}
        if not holes or (want == EXTENT and extents):
            return extents[0], min(want, EXTENT)
        start = min(holes)
        stop = next(block for block in range(start, start + want + 1) if block not in holes or block == start + want)
        return start, stop - start

    def take(self, cpu, want):
        self.record.cpu = cpu
        expected = self.expected(cpu, want)
        start = int(aligned_holes.allocate(self.record, self.state.arena, want))
        assert (start, int(self.record.got)) == expected
        self.free -= set(range(start, start + expected[1]))
        return expected

    def give(self, start, count):
        aligned_holes.release(self.record, self.state.arena, start, count)
        self.free |= set(range(start, start + count))

    def check(self):
        counts = [len(self.free & set(blocks)) for blocks in self.ranges]
        assert self.record.free_of[: len(counts)].tolist() == counts and int(self.record.free_blocks) == sum(counts)
        assert self.record.extents_of[: len(counts)].tolist() == [len(self.extents(cpu)) for cpu in range(len(counts))]


@pytest.mark.parametrize(
    ("blocks", "cpus"), [(4 * EXTENT, 1), (4 * EXTENT + 200, 2), (7 * EXTENT + 63, 3), (17 * EXTENT, 5)]
)
def test_many_requests_and_releases(blocks, cpus):
    random, device, taken = np.random.default_rng(cpus), Device(blocks, cpus), []
    device.check()
    for step in range(90):
        if not taken or random.random() < 0.65:
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
        if step % 15 == 0:
            device.check()
    device.check()
    while device.free:
        taken.append(device.take(0, EXTENT))
    assert device.take(0, 1) == (-1, 0)
    for run in taken:
        device.give(*run)
    device.check()
    assert device.free == set(range(RESERVED, blocks))


def test_a_request_of_just_what_is_there():
    """The own range if it has as many blocks; of the others the first with most in holes, if these are as many."""
    device = Device(6 * EXTENT, 3)
    assert device.take(1, 100) == (2 * EXTENT, 100)  # leaves 412 in holes, and the third range has more blocks
    assert device.take(0, EXTENT) == (EXTENT, EXTENT)
    device.record.cpu = 0
    assert aligned_holes.pick(device.record, 412) == 0
    assert device.take(0, 412) == (RESERVED, 412)
    assert device.take(0, 412) == (2 * EXTENT + 100, 412)
    device.give(2 * EXTENT + 100, 412)
    assert device.take(2, 100) == (4 * EXTENT, 100)
    assert device.take(0, 400) == (2 * EXTENT + 100, 400)  # of two with as many
    device.check()
