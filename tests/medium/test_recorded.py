"""The write-backs that the medium's kernel records: those of its reference implementation, in their order."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.counters import COUNTERS
from scmsim.core.records import EVENT, EVENT_COLUMNS, EVENTS, SPACES
from scmsim.medium import recorded
from tests.conftest import NO_JIT
from tests.medium.test_properties import BUFFERS, COUNTED, FIELDS, SITE_KINDS, account, many, runs
from tests.reference.medium_slow import Medium


def written(rows, buffer_bytes, room=recorded.ROOM):
    """(lines written back with the index of the event, counters of the counted row) of the recording kernel."""
    events, bins = np.zeros(len(rows), EVENT).view(np.recarray), np.zeros(len(rows), np.int64)
    for i, (code, site, space, addr, length, width, row) in enumerate(rows):
        events[[*EVENT_COLUMNS]][i] = (EVENTS.index(code), site, SPACES.index(space), 0, 0, width, addr, length, 0)
        bins[i] = row
    counters, state = np.zeros(2, COUNTERS).view(np.recarray), recorded.start(SITE_KINDS, buffer_bytes).view(np.ndarray)
    lines = []
    for part, which, first, end in recorded.simulate(state, counters, events, bins, room):
        for event, low, high in zip(which.tolist(), first.tolist(), end.tolist(), strict=True):
            lines += [(part.start + event, line) for line in range(low // 64, (high - 1) // 64 + 1)]
    return lines, {field: int(counters[COUNTED][field]) for field in FIELDS}


def slow(rows, buffer_bytes):
    reference, lines = Medium(SITE_KINDS, buffer_bytes), []
    for i, (*event, row) in enumerate(rows):
        before = len(reference.written)
        reference.event(*event, counted=row == COUNTED)
        lines += [(i, line) for line in reference.written[before:]]
    return lines


@settings(max_examples=10 if NO_JIT else 200)
@given(st.lists(runs(), max_size=40), st.sampled_from([0, *BUFFERS]))
def test_write_backs_are_those_of_the_twin_in_order_and_counts_stay_the_same(rows, buffer_bytes):
    lines, counts = written(rows, buffer_bytes)
    assert lines == slow(rows, buffer_bytes)
    assert counts == account(rows, buffer_bytes)[0]


@settings(max_examples=3 if NO_JIT else 20)
@given(st.integers(0, 1 << 30))
def test_write_backs_do_not_depend_on_the_room_for_them(seed):
    rows = many(seed, 200)
    whole, cut = written(rows, 16 << 10), written(rows, 16 << 10, room=recorded.model.DIRTY_SLOTS + 16)
    assert whole == cut and whole[0] == slow(rows, 16 << 10)


def test_a_long_run_over_a_full_cache_fits():
    """Every slot holds the line of another page; the run displaces these and then its own lines."""
    rows = [("STORE", 0, "pm", (4096 + 2 * line) * 64 * 3, 8, 8, COUNTED) for line in range(2000)]
    rows.append(("STORE", 0, "pm", 0, 20_000 * 64, 8, COUNTED))
    lines, counts = written(rows, 0)
    assert lines == slow(rows, 0) and len(lines) == counts["lines_written_back"] > 16_000
