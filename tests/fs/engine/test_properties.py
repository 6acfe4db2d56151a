"""Blocks of the arena and growable tables inside it, against lists and dictionaries."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.fs.engine import arena as blocks
from scmsim.fs.engine import table
from scmsim.fs.engine.events import HEADER, State, new_state
from scmsim.jit import kernel
from tests.conftest import NO_JIT

STATE = np.dtype((np.record, HEADER))
take, give, has_room, order_of = blocks.take, blocks.give, blocks.has_room, blocks.order_of


def fresh(words: int) -> State:
    return new_state(STATE, words, np.zeros((1, 4), np.int64))


@given(st.integers(1, 1 << 40))
def test_an_order_is_the_smallest_that_holds_the_words(words):
    order = int(order_of(words))
    assert 1 << order >= words and (order == 0 or 1 << (order - 1) < words)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6), st.integers(0, 1 << 16)), max_size=60))
def test_blocks_never_overlap_and_freed_ones_are_used_again(steps):
    state = fresh(1 << 14)
    record, held = state.record[0], []
    for taking, order, pick in steps:
        if taking or not held:
            top, waiting = int(record.arena_top), int(record.arena_free[order])
            block = int(take(record, state.arena, order))
            assert (int(record.arena_top) == top) == (waiting >= 0), "the arena grows only when no freed block waits"
            assert not state.arena[block : block + (1 << order)].any(), "a block comes zeroed"
            state.arena[block : block + (1 << order)] = len(held) + 1
            held.append((block, order))
        else:
            block, order = held.pop(pick % len(held))
            give(record, state.arena, block, order)
        spans = sorted((block, block + (1 << order)) for block, order in held)
        assert all(stop <= start for (_, stop), (start, _) in zip(spans, spans[1:], strict=False))
        assert all(8 <= start and stop <= int(record.arena_top) for start, stop in spans)


def test_room_is_asked_for_and_given():
    state = fresh(64)
    assert has_room(state.record[0], state.arena, 56) and not has_room(state.record[0], state.arena, 57)
    assert int(state.record.need_words[0]) == 57
    before = state.arena.copy()
    state.grow(5000)
    assert len(state.arena) >= 5008 and (state.arena[:64] == before).all() and not state.arena[64:].any()


# often the last index of a block, whose copy is easily forgotten
indices = st.one_of(st.integers(0, 900), st.integers(0, 9).map(lambda order: (1 << order) - 1))


@kernel
def _reserve(s, arena, handle, count):
    table.reserve(s, arena, handle, count)


@settings(max_examples=20 if NO_JIT else 60)
@given(
    st.lists(
        st.tuples(st.sampled_from(["put", "put", "grow", "drop"]), st.integers(0, 1), indices, st.integers(1, 99)),
        max_size=60,
    )
)
def test_tables_keep_what_was_put_into_them(steps):
    """Two tables in one arena, against two dictionaries."""
    state = fresh(1 << 15)
    record, arena = state.record[0], state.arena
    first = int(take(record, arena, 2))
    handles, references = [first, first + table.HANDLE_WORDS], [{}, {}]
    for what, which, i, value in steps:
        handle, reference = handles[which], references[which]
        if what == "drop":
            table.drop(record, arena, handle)
            reference.clear()
        else:
            room = int(table.words_to_hold(arena, handle, i + 1))
            top = int(record.arena_top)
            _reserve(record, arena, handle, i + 1)
            assert int(record.arena_top) - top <= room
            if what == "put":
                table.put(arena, handle, i, value)
                reference[i] = value
        for handle, reference in zip(handles, references, strict=True):
            assert {k: int(table.get(arena, handle, k)) for k in reference} == reference
            held = sum(int(table.get(arena, handle, k)) != 0 for k in range(0, 1024, 7))
            assert held == sum(k % 7 == 0 for k in reference)
