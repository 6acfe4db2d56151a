"""The buddy allocator against sets of free blocks: no overlap, joining, conservation."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from scmsim.alloc import buddy
from scmsim.fs.engine.events import HEADER, new_state
from tests.conftest import NO_JIT
from tests.reference.buddy_slow import LARGEST, SMALLEST, Buddies

STATE = np.dtype((np.record, [*HEADER, *buddy.FIELDS]))


class Device:
    """Kernel and reference side by side."""

    def __init__(self, origin, chunks):
        self.state = new_state(STATE, 64 + buddy.arena_words(min(chunks, buddy.AT_ONCE)), np.zeros((1, 4), np.int64))
        buddy.attach(self.state, origin, chunks * LARGEST)
        self.record = self.state.record[0]
        self.reference = Buddies(origin, chunks * LARGEST)
        self.bytes = chunks * LARGEST
        self.taken = {}

    def take(self, order):
        if not buddy.ready(self.record, self.state.arena, 1):
            self.state.grow(int(self.record.need_words))
            assert buddy.ready(self.record, self.state.arena, 1)
        at, size = int(buddy.allocate(self.record, self.state.arena, order)), SMALLEST << order
        assert at == self.reference.take(size)
        if at >= 0:
            assert all(at + size <= other or other + length <= at for other, length in self.taken.items()), "overlap"
            self.taken[at] = size
        return at, order

    def give(self, at, order):
        assert self.taken.pop(at) == SMALLEST << order
        self.reference.give(at, SMALLEST << order)
        buddy.release(self.record, self.state.arena, at, order)

    def check(self):
        counts = [sum(size == SMALLEST << order for size, _ in self.reference.free) for order in range(buddy.ORDERS)]
        assert self.record.free_of.tolist() == counts
        free = sum(count * (SMALLEST << order) for order, count in enumerate(counts))
        assert free + sum(self.taken.values()) == self.bytes
        for order in range(buddy.ORDERS):
            assert int(buddy.room(self.record, order)) == sum(
                size // (SMALLEST << order) for size, _ in self.reference.free if size >= SMALLEST << order
            )


class Devices(RuleBasedStateMachine):
    """Any sequence of allocations, releases, and releases half by half."""

    blocks = Bundle("blocks")

    @initialize(origin=st.sampled_from([0, 4096, 1 << 20]), chunks=st.sampled_from([1, 2, 3, 5]))
    def start(self, origin, chunks):
        self.device = Device(origin, chunks)

    @rule(target=blocks, order=st.one_of(st.integers(0, buddy.TOP), st.integers(9, buddy.TOP)))
    def take(self, order):
        return self.device.take(order)

    @rule(block=consumes(blocks))
    def give(self, block):
        if block[0] >= 0:
            self.device.give(*block)

    @rule(target=blocks, block=consumes(blocks))
    def give_a_half(self, block):
        at, order = block
        if at < 0 or order == 0:
            return multiple(block) if at >= 0 else multiple()
        half = SMALLEST << (order - 1)
        self.device.taken[at] = self.device.taken[at + half] = half
        self.device.give(at, order - 1)
        return at + half, order - 1

    @invariant()
    def agrees(self):
        if hasattr(self, "device"):
            self.device.check()


TestDevices = Devices.TestCase
TestDevices.settings = settings(max_examples=10 if NO_JIT else 60, stateful_step_count=30, deadline=None)


def test_everything_joins_again():
    """Two chunks as smallest blocks, freed in a mixed order."""
    device = Device(0, 2)
    taken = [device.take(0) if i % 3 else device.take(3) for i in range(400)]
    for i in np.random.default_rng(1).permutation(len(taken)):
        device.give(*taken[i])
    device.check()
    assert device.record.free_of.tolist() == [0] * buddy.TOP + [2]
    assert int(device.record.splits) == int(device.record.joins)


@pytest.mark.parametrize(("origin", "chunks"), [(0, 1), (4096, 3), (1 << 20, 70)])
def test_many_requests_and_releases(origin, chunks):
    """Blocks of all sizes, freed whole, half by half, or not at all, on a device that is full at times."""
    random, device, taken = np.random.default_rng(chunks), Device(origin, chunks), []
    for step in range(220):
        if not taken or random.random() < 0.6:
            block = device.take(int(random.choice([0, 1, 3, 6, 9, buddy.TOP - 1, buddy.TOP])))
            taken += [block] if block[0] >= 0 else []
            continue
        at, order = taken.pop(int(random.integers(0, len(taken))))
        if order > 0 and random.random() < 0.4:
            half = SMALLEST << (order - 1)
            device.taken[at] = device.taken[at + half] = half
            taken.append((at + half, order - 1))
            order -= 1
        device.give(at, order)
        if step % 20 == 0:
            device.check()
    device.check()


@pytest.mark.parametrize(("length", "size"), [(1, 32), (32, 32), (33, 64), (512, 512), (513, 1024), (131072, 131072)])
def test_a_request_is_rounded_up_to_a_power_of_two(length, size):
    assert SMALLEST << int(buddy.order_for(length)) == size


def test_the_state_of_a_huge_device_follows_what_is_in_use():
    """1 PiB, of which 1000 chunks are used."""
    state = new_state(STATE, 1 << 14, np.zeros((1, 4), np.int64))
    buddy.attach(state, 0, 1 << 50)
    for i in range(1000):
        if not buddy.ready(state.record[0], state.arena, 1):
            state.grow(int(state.record[0].need_words))
            assert buddy.ready(state.record[0], state.arena, 1)
        assert int(buddy.allocate(state.record[0], state.arena, buddy.TOP)) == i * LARGEST
    assert len(state.arena) <= 1 << 19


def test_blocks_beyond_the_first_64_chunks_are_found_again():
    """The lowest free block of its size serves, in whichever word of the bitmaps its chunk is."""
    device = Device(4096, 200)
    taken = [device.take(buddy.TOP) for _ in range(150)]
    for chunk in (130, 70):
        device.give(*taken[chunk])
    assert device.take(3) == (4096 + 70 * LARGEST, 3)
    assert device.take(buddy.TOP) == (4096 + 130 * LARGEST, buddy.TOP)
    device.check()


@pytest.mark.parametrize(("used", "more", "target"), [(64, 1, 128), (64, 64, 128), (64, 65, 129), (10, 200, 210)])
def test_larger_bitmaps_ask_for_the_words_that_they_take(used, more, target):
    """For twice as many chunks, or as many more as are wanted."""
    state = new_state(STATE, 1 << 16, np.zeros((1, 4), np.int64))
    buddy.attach(state, 0, 1 << 30)
    for _ in range(used):
        buddy.allocate(state.record[0], state.arena, buddy.TOP)
    record, arena = state.record[0], state.arena[: int(state.record.arena_top[0])]
    assert not buddy.ready(record, arena, more)
    assert int(record.need_words) == buddy.arena_words(target) == target * 128 + 13 * -(-target // 64)
    enough = int(record.arena_top + record.need_words)
    assert not buddy.ready(record, state.arena[: enough - 1], more)
    assert buddy.ready(record, state.arena[:enough], more) and int(record.arena_top) == enough
