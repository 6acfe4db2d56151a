"""The block allocator against sorted ranges, with the sizes that meet word and summary boundaries."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from scmsim.alloc import first_fit
from scmsim.fs.engine.events import HEADER, new_state
from tests.conftest import NO_JIT
from tests.reference.first_fit_slow import Ranges

STATE = np.dtype((np.record, [*HEADER, *first_fit.FIELDS]))
EDGES = [1, 2, 63, 64, 65, 127, 128, 129, 4095, 4096, 4097]


class Device:
    """Kernel and reference side by side."""

    def __init__(self, reserved, blocks, at_once=None):
        self.state = new_state(STATE, 64 + first_fit.arena_words(blocks), np.zeros((1, 4), np.int64))
        first_fit.attach(self.state, reserved, blocks, at_once)
        self.reference = Ranges(reserved, blocks)
        self.record = self.state.record[0]

    def take(self, want):
        if not first_fit.ready(self.record, self.state.arena, want):
            self.state.grow(int(self.record.need_words))
            assert first_fit.ready(self.record, self.state.arena, want)
        start = int(first_fit.allocate(self.record, self.state.arena, want))
        got = int(self.record.got)
        assert (start, got) == self.reference.take(want)
        return start, got

    def take_whole(self, count):
        """With bitmaps that cover the device."""
        while not first_fit.ready(self.record, self.state.arena, int(self.record.blocks)):
            self.state.grow(int(self.record.need_words))
        start = int(first_fit.allocate_whole(self.record, self.state.arena, count))
        assert start == self.reference.take_whole(count)
        assert int(self.record.got) == (count if start >= 0 else 0)
        return start, int(self.record.got)

    def give(self, start, count):
        self.reference.give(start, count)
        first_fit.release(self.record, self.state.arena, start, count)

    def bitmap(self):
        words = self.state.arena[self.record.bits : self.record.bits + self.words]
        return np.unpackbits(words.view(np.uint8), bitorder="little")

    @property
    def words(self):
        return -(-int(self.record.tracked) // 64)

    def check(self):
        assert int(self.record.free_blocks) == self.reference.free
        bits, tracked = self.bitmap(), int(self.record.tracked)
        expected = self.reference.bitmap()
        assert bits[:tracked].tolist() == expected[:tracked] and not bits[tracked:].any() and all(expected[tracked:])
        summary = self.state.arena[self.record.summary :][: -(-self.words // 64)]
        any_free = np.unpackbits(summary.view(np.uint8), bitorder="little")[: self.words]
        assert any_free.tolist() == bits.reshape(-1, 64).any(axis=1).tolist()


class Devices(RuleBasedStateMachine):
    """Any sequence of allocations and releases of whole or partial runs."""

    runs = Bundle("runs")

    @initialize(
        reserved=st.sampled_from([0, 1, 63, 64, 65, 1024]),
        extra=st.sampled_from([1, 64, 200, 4096, 9000]),
        at_once=st.sampled_from([None, 1, 64, 100, 4096]),
    )
    def start(self, reserved, extra, at_once):
        self.device = Device(reserved, reserved + extra, at_once)

    @rule(target=runs, want=st.one_of(st.integers(1, 200), st.sampled_from(EDGES)))
    def take(self, want):
        return self.device.take(want)

    @rule(target=runs, count=st.sampled_from([1, 2, 8, 63, 64, 65, 130]))
    def take_whole(self, count):
        return self.device.take_whole(count)

    @rule(run=consumes(runs))
    def give(self, run):
        if run[1]:
            self.device.give(*run)

    @rule(target=runs, run=consumes(runs), share=st.integers(0, 100), tail=st.booleans())
    def give_an_end(self, run, share, tail):
        start, got = run
        count = got * share // 100
        if count:
            self.device.give(start + got - count if tail else start, count)
        return (start, got - count) if tail else (start + count, got - count)

    @invariant()
    def agrees(self):
        if hasattr(self, "device"):
            self.device.check()


TestDevices = Devices.TestCase
TestDevices.settings = settings(max_examples=15 if NO_JIT else 60, stateful_step_count=30)


@pytest.mark.parametrize("blocks", [*EDGES, 64 * 64 * 64 + 1])
@pytest.mark.parametrize("reserved", [0, 1, 64])
def test_a_device_is_served_to_its_last_block(blocks, reserved):
    device = Device(reserved, reserved + blocks)
    assert device.take(blocks + 5) == (reserved, blocks)
    assert device.take(1) == (-1, 0)
    device.give(reserved + blocks - 1, 1)
    device.check()
    assert device.take(1) == (reserved + blocks - 1, 1)


@given(st.lists(st.sampled_from(EDGES), min_size=1, max_size=8), st.integers(0, 130))
def test_the_lowest_free_run_serves_cut_to_its_length(lengths, gap):
    """Runs of these lengths are free, with used blocks between them; each request gets the lowest."""
    total = sum(lengths) + (gap + 1) * len(lengths)
    device = Device(0, total)
    device.take(total)
    at, runs = 0, []
    for length in lengths:
        device.give(at, length)
        runs.append((at, length))
        at += length + gap + 1
    device.check()
    assert [device.take(1 << 20) for _ in runs] == runs
    device.check()


def test_a_short_run_is_taken_whole_before_the_next():
    device = Device(0, 1000)
    device.take(1000)
    device.give(10, 3)
    device.give(500, 64)
    assert [device.take(8), device.take(8), device.take(100)] == [(10, 3), (500, 8), (508, 56)]


@pytest.mark.parametrize("block", [0, 63, 64, 4095, 4096, 8191, 8192, 12000])
def test_a_low_block_that_is_freed_is_found_again(block):
    """The search starts where free blocks were last seen; a release below must bring it back."""
    device = Device(0, 3 * 4096)
    device.take(3 * 4096 - 1)
    assert device.take(1) == (3 * 4096 - 1, 1)
    device.give(block, 1)
    device.check()
    assert device.take(1) == (block, 1)


@pytest.mark.parametrize(
    "free", [[], [(0, 3)], [(0, 64), (64, 64)], [(5, 70), (200, 1), (8000, 100)], [(63, 2), (4095, 2)]]
)
@pytest.mark.parametrize("want", [1, 64, 1000])
def test_how_many_runs_a_request_takes(free, want):
    device = Device(0, 3 * 4096)
    device.take(3 * 4096)
    for run in free:
        device.give(*run)
    counted = int(first_fit.runs(device.record, device.state.arena, want))
    taken, left = 0, want
    while left > 0 and device.reference.free:
        left -= device.take(left)[1]
        taken += 1
    assert taken <= counted <= max(taken, len(device.reference.ranges) + taken) and (want < 1000 or counted == taken)


def test_the_state_of_a_huge_device_follows_what_is_in_use():
    """A device of 4 PiB, of which 10,000 blocks are used."""
    state = new_state(STATE, 1 << 12, np.zeros((1, 4), np.int64))
    first_fit.attach(state, 100, 1 << 40, 1 << 10)
    record = state.record[0]
    for i in range(100):
        if not first_fit.ready(record, state.arena, 100):
            state.grow(int(record.need_words))
            assert first_fit.ready(record, state.arena, 100)
        assert (int(first_fit.allocate(record, state.arena, 100)), int(record.got)) == (100 * (i + 1), 100)
    assert len(state.arena) <= 1 << 13 and int(record.free_blocks) == (1 << 40) - 10_100


@pytest.mark.parametrize(("reserved", "extra", "at_once"), [(0, 9000, None), (65, 4200, 100), (63, 200, 1)])
def test_many_requests_and_releases(reserved, extra, at_once):
    random, device, runs = np.random.default_rng(extra), Device(reserved, reserved + extra, at_once), []
    for _ in range(150):
        what, count = random.integers(0, 5), int(random.choice([1, 3, 8, 63, 64, 65, 130, 700]))
        if what < 2:
            runs.append(device.take(count))
        elif what == 2:
            runs.append(device.take_whole(count))
        elif runs:
            start, got = runs.pop(int(random.integers(0, len(runs))))
            cut = int(random.integers(0, got + 1)) if got > 0 else 0
            for run in ((start, cut), (start + cut, got - cut)):
                if run[1] > 0:
                    device.give(*run)
    device.check()


@pytest.mark.parametrize(
    ("words", "bits"), [((1,), (0,)), ((-(1 << 63),), (63,)), ((6, 1 << 32, 3 << 31, -1), (1, 32, 31, 0))]
)
def test_the_lowest_bit_of_a_word(words, bits):
    assert [int(first_fit.lowest_bit(np.int64(word))) for word in words] == list(bits)


@pytest.mark.parametrize(
    ("tracked", "more", "target"),
    [(4096, 1, 8192), (4096, 4096, 8192), (4096, 4097, 8193), (100, 63, 200), (64, 1, 128), (4097, 1, 8194)],
)
def test_larger_bitmaps_ask_for_the_words_that_they_take(tracked, more, target):
    """Twice as many blocks, or as many more as are wanted."""
    state = new_state(STATE, 1024, np.zeros((1, 4), np.int64))
    first_fit.attach(state, 0, 1 << 20, tracked)
    first_fit.allocate(state.record[0], state.arena, tracked)
    record, arena = state.record[0], state.arena[: int(state.record.arena_top[0])]
    assert not first_fit.ready(record, arena, more)
    assert int(record.need_words) == first_fit.arena_words(target) == -(-target // 64) + -(-target // 4096)
    enough = int(record.arena_top + record.need_words)
    assert not first_fit.ready(record, state.arena[: enough - 1], more)
    assert first_fit.ready(record, state.arena[:enough], more) and int(record.arena_top) == enough


def test_whole_runs_behind_a_full_word_of_the_summary():
    device = Device(0, 3 * 4096)
    device.take(4096 + 30)
    for count in (34, 64, 128, 4096, 1):
        device.take_whole(count)
        device.check()
