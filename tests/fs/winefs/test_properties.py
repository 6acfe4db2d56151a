"""The WineFS kernels against their reference implementation, and the alignment-aware allocator against a set of free blocks."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.alloc import aligned_holes, first_fit
from scmsim.fs.engine.events import HEADER, new_state
from tests.conftest import NO_JIT
from tests.fs import drive, laws
from tests.fs.winefs.reference import Wine
from tests.fs.winefs.reference_holes import Holes

PLAIN = st.integers(1, 4)
THREAD = st.integers(0, 3)
CPUS = 3

offsets = st.one_of(
    st.integers(0, 70_000), st.integers(0, 20).map(lambda page: page * 4096), st.sampled_from([0, 1 << 21, 1 << 22])
)
lengths = st.one_of(
    st.integers(0, 20_000), st.integers(1, 90).map(lambda page: page * 4096), st.sampled_from([2 << 20, 5 << 20])
)


def by_threads(row, thread):
    """An operation of a thread: all six parts."""
    return (*row, *(0, 0, 0, -1)[len(row) - 1 :], thread)


commands = st.builds(
    by_threads, laws.commands(offsets, lengths, laws.command("write", PLAIN, offsets, lengths)), THREAD
)


def start(capacity=128 << 20, fs="winefs"):
    model = drive.Model(
        fs, drive.files(*laws.SIZES, dirs=[0], names=laws.NAMES), capacity=capacity, cpus=CPUS, journal="4MiB"
    )
    return model, Wine(laws.names_of(laws.NAMES), laws.SIZES, (0,), capacity, CPUS, fs == "winefs")


def same(model, slow, events):
    assert int(model.record.free_blocks) == len(slow.space.free)
    extents = [len(slow.space.of(cpu)[1]) for cpu in range(CPUS)]
    assert model.record.extents_of[:CPUS].tolist() == extents


def batch_of(number, row):
    batch = drive.ops(row[:5])
    batch.thread = row[5]
    return batch


FAMILY = laws.BySite(start, same, batch=batch_of)
RELAXED = laws.BySite(functools.partial(start, fs="winefs-relaxed"), same, batch=batch_of)


@pytest.mark.parametrize("family", [FAMILY, RELAXED])
@settings(max_examples=3 if NO_JIT else 30, deadline=None)
@given(rows=st.lists(commands, max_size=12))
def test_kernels_do_what_the_twin_does(family, rows):
    family.agree(rows)


def test_edges_of_blocks():
    FAMILY.agree([by_threads(row, 0) for row in laws.edges_of_blocks(4096)])


def test_names_come_and_go_without_their_place_being_used_again():
    rows = [(op, 1, 0, 0, -1, i) for i in range(40) for op in ("create", "link", "unlink", "unlink")]
    model, _ = FAMILY.agree(rows)
    assert model.space()["directory_blocks"] >= 1


@pytest.mark.parametrize("offset", [0, 1000])
def test_an_aligned_file_stays_aligned(offset):
    """fallocate of 2 MiB takes an aligned extent; an overwrite goes to fresh blocks and in place."""
    fallocate = ("fallocate", 1, 0, 4 << 20, -1, 0)
    model, slow = FAMILY.agree([("create", 1, 0, 0, -1, 0), fallocate, ("write", 1, offset, 100_000, -1, 0)])
    assert slow.stored["data copy"] == slow.stored["second copy"] == 100_000
    assert model.space()["aligned_files"] == 1
    assert slow.files[1].data[0] % 512 == 0 and slow.files[1].data[511] == slow.files[1].data[0] + 511


STATE = np.dtype((np.record, [*HEADER, *first_fit.FIELDS, *aligned_holes.FIELDS]))
steps = st.lists(
    st.tuples(st.sampled_from(["take", "take", "extent", "give"]), st.integers(1, 700), st.integers(0, 2)), max_size=30
)


@settings(max_examples=10 if NO_JIT else 40, deadline=None)
@given(steps=steps, blocks=st.sampled_from([4096, 5000, 8192]))
def test_holes_are_used_before_an_extent_is_broken(steps, blocks):
    state = new_state(STATE, 64 + aligned_holes.arena_words(blocks), np.zeros((1, 4), np.int64))
    aligned_holes.attach(state, 100, blocks, 3)
    s, reference, taken = state.record[0], Holes(100, blocks, 3), []
    for what, number, cpu in steps:
        s.cpu = reference.cpu = cpu
        if what == "give" and taken:
            start, count = taken.pop(number % len(taken))
            aligned_holes.release(s, state.arena, start, count)
            reference.give(start, count)
        elif reference.free and what != "give":
            want = 512 if what == "extent" else number % 512 + 1
            start = int(aligned_holes.allocate(s, state.arena, want))
            assert (start, int(s.got)) == reference.take_run(want)
            taken.append((start, int(s.got)))
        assert int(s.free_blocks) == len(reference.free)
        assert s.extents_of[:3].tolist() == [len(reference.of(cpu)[1]) for cpu in range(3)]
