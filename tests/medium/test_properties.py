"""The medium kernel against its reference implementation, and laws that hold for any run."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.counters import COUNTERS
from scmsim.core.records import EVENT, EVENT_COLUMNS, EVENTS, KINDS, SPACES
from scmsim.medium import model
from tests.conftest import NO_JIT
from tests.reference.medium_slow import Medium

SITE_KINDS = ["data", "metadata", "log", "zeroing", "none"]
FIELDS = (
    "pm_dependent_loads", "pm_loaded_bytes", "pm_stored_bytes", "nt_stored_bytes", "flushes", "fences", "lines_written_back",
    "media_bytes_64", "media_bytes_256", "media_bytes_4096", "write_buffer_misses", "write_buffer_miss_lines",
)  # fmt: skip
BUFFERS = [64, 256, 1024, 4096, 16 << 10, 1 << 20]
COUNTED, TRASH = 0, 1

# few lines, close together or 4096 lines apart, so that they meet in the cache and in the buffer, or at the cache's end
addresses = st.builds(
    lambda slot, turn, byte: (slot + 4096 * turn) * 64 + byte,
    st.integers(0, 70) | st.integers(4080, 4095),
    st.integers(0, 2),
    st.sampled_from([0, 0, 0, 8, 24, 63]),
)
lengths = st.one_of(st.integers(0, 300), st.sampled_from([64, 256, 4096, 8192, 300 * 1024]))


@st.composite
def runs(draw):
    """(code, site, space, addr, length, width, row): any event that the medium may see, as it comes or strided."""
    code = draw(st.sampled_from(["LOAD", "STORE", "STORE", "NTSTORE", "NTSTORE", "FLUSH", "FLUSH", "FENCE", "WORK"]))
    space = draw(st.sampled_from(["pm", "pm", "pm", "kernel", "user", "stack"]))
    addr, length, width = draw(addresses), draw(lengths), draw(st.sampled_from([0, 8, 64]))
    if code == "FLUSH":
        width = draw(st.sampled_from([0, 0, 1, 5]))
    elif code in ("STORE", "LOAD") and draw(st.integers(0, 4)) == 0:
        width, length = -draw(st.sampled_from([8, 16, 40])), 32 + 4096 * draw(st.integers(0, 5))
        addr = addr // 4096 * 4096 + 4064
    row = draw(st.sampled_from([COUNTED, COUNTED, COUNTED, TRASH]))
    return code, draw(st.integers(0, 4)), space, addr, length, width, row


def account(rows, buffer_bytes):
    """(counters of the counted row, stored bytes by kind) of the kernel."""
    events, bins = np.zeros(len(rows), EVENT).view(np.recarray), np.zeros(len(rows), np.int64)
    for i, (code, site, space, addr, length, width, row) in enumerate(rows):
        events[[*EVENT_COLUMNS]][i] = (EVENTS.index(code), site, SPACES.index(space), 0, 0, width, addr, length, 0)
        bins[i] = row
    counters = np.zeros(2, COUNTERS).view(np.recarray)
    state = model.start(SITE_KINDS, buffer_bytes)
    model.simulate(state, counters, events, bins, len(rows))
    stored = {kind: int(n) for kind, n in zip(KINDS, state.stored[0], strict=True)}
    return {field: int(counters[COUNTED][field]) for field in FIELDS}, stored


def slow(rows, buffer_bytes, **reading):
    reference = Medium(SITE_KINDS, buffer_bytes, **reading)
    for *event, row in rows:
        reference.event(*event, counted=row == COUNTED)
    return {field: reference.count[field] for field in FIELDS}, {kind: reference.stored[kind] for kind in KINDS}


@settings(max_examples=20 if NO_JIT else 300)
@given(st.lists(runs(), max_size=40), st.sampled_from(BUFFERS))
def test_the_kernel_does_what_the_twin_does(rows, buffer_bytes):
    assert account(rows, buffer_bytes) == slow(rows, buffer_bytes)


def many(seed, count):
    """Random events that meet often: granules of every size, whole, in part and across their ends."""
    random, rows = np.random.default_rng(seed), []
    for _ in range(count):
        code = str(random.choice(["LOAD", "STORE", "STORE", "NTSTORE", "NTSTORE", "NTSTORE", "FLUSH", "FENCE"]))
        unit = int(random.choice([8, 64, 256, 4096]))
        addr = int(random.integers(0, 3)) * 4096 * 64 + unit * int(random.integers(0, 3 * 4096 // unit))
        length = int(random.choice([8, 60, 64, 250, 256, 257, 512, 4096, 5000, unit - 1, unit + 1]))
        width = 0 if code == "FLUSH" else 8
        if code in ("STORE", "FLUSH", "LOAD") and random.random() < 0.1:
            at, width = [(4064, -16), (64, -100), (1000, -700)][random.integers(0, 3)]
            addr, length = addr // 4096 * 4096 + at, -width + 4096 * int(random.integers(0, 4))
        space = "pm" if random.random() < 0.9 else "kernel"
        rows.append((code, int(random.integers(0, 5)), space, addr, length, width, int(random.random() < 0.2)))
    return rows


@settings(max_examples=5 if NO_JIT else 50)
@given(st.integers(0, 1 << 30), st.sampled_from([0, *BUFFERS]))
def test_the_kernel_does_what_the_twin_does_in_heavy_traffic(seed, buffer_bytes):
    rows = many(seed, 300)
    assert account(rows, buffer_bytes) == slow(rows, buffer_bytes)


@given(st.lists(runs(), max_size=40), st.sampled_from([0, *BUFFERS]))
def test_conservation(rows, buffer_bytes):
    found, stored = account(rows, buffer_bytes)
    assert sum(stored.values()) == found["pm_stored_bytes"] >= found["nt_stored_bytes"]
    assert found["media_bytes_64"] <= 64 * found["lines_written_back"]
    for granule in (64, 256, 4096):
        assert found[f"media_bytes_{granule}"] % granule == 0
    if not any(code in ("STORE", "NTSTORE") for code, *_ in rows):
        assert found["lines_written_back"] == 0


@given(st.lists(runs(), max_size=30), st.sampled_from(BUFFERS), st.integers(0, 30))
def test_what_is_accounted_does_not_depend_on_the_event_buffer(rows, buffer_bytes, cut):
    whole, _ = account(rows, buffer_bytes)
    events, bins = np.zeros(len(rows), EVENT).view(np.recarray), np.zeros(len(rows), np.int64)
    for i, (code, site, space, addr, length, width, row) in enumerate(rows):
        events[[*EVENT_COLUMNS]][i] = (EVENTS.index(code), site, SPACES.index(space), 0, 0, width, addr, length, 0)
        bins[i] = row
    counters, state = np.zeros(2, COUNTERS).view(np.recarray), model.start(SITE_KINDS, buffer_bytes)
    for part in (slice(0, cut), slice(cut, None)):
        model.simulate(state, counters, events[part].view(np.recarray), bins[part], len(events[part]))
    assert {field: int(counters[COUNTED][field]) for field in FIELDS} == whole


def test_small_stores_into_one_granule_combine_while_it_is_in_the_buffer():
    pieces = [("NTSTORE", 0, "pm", 64 * i, 64, 8, COUNTED) for i in range(4)]
    with_buffer, _ = account(pieces, 16 << 10)
    assert with_buffer["media_bytes_256"] == 256 and with_buffer["media_bytes_64"] == 4 * 64
    far = [row for i in range(4) for row in (pieces[i], ("NTSTORE", 0, "pm", 256 * 64 + 64 * i, 64, 8, COUNTED))]
    assert account(far, 16 << 10)[0]["media_bytes_256"] == 8 * 256  # both granules want the same place in the buffer


def test_a_small_streamed_store_misses_the_buffer_once_while_its_granule_stays():
    def misses(rows, buffer_bytes=16 << 10):
        found, _ = account(rows, buffer_bytes)
        return found["write_buffer_misses"], found["write_buffer_miss_lines"]

    first, again, far = (("NTSTORE", 0, "pm", addr, 64, 8, COUNTED) for addr in (0, 64, 256 * 64))
    assert misses([first]) == misses([first, again, first]) == (1, 1)
    assert misses([first, far, first]) == (3, 3)  # both granules want the same place
    assert misses([first, again], 0) == misses([("STORE", 0, "pm", 0, 64, 8, COUNTED)]) == (0, 0)
    assert misses([("NTSTORE", 0, "pm", 0, 256, 8, COUNTED)]) == (1, 4)
    part = [("STORE", 0, "pm", 64, 192, 8, COUNTED), ("FLUSH", 0, "pm", 64, 192, 0, COUNTED)]
    assert misses([*part, first]) == (1, 1)  # the device is still reading what the write-back left of the granule
    assert misses([("NTSTORE", 0, "pm", 0, 257, 8, COUNTED)]) == (0, 0)  # streams


def test_a_page_displaces_what_is_dirty_in_its_places():
    """All lines of another page, some of them, its own, and none."""
    far, rows = 4096 * 64, []
    for addr, length in ((0, 4096), (far, 4096), (far, 4096), (2 * far + 1024, 1024), (0, 4096), (8192, 4096)):
        rows.append(("STORE", 0, "pm", addr, length, 8, COUNTED))
        assert account(rows, 16 << 10) == slow(rows, 16 << 10)
    assert account(rows, 0)[0]["lines_written_back"] == 64 + 16 + 64


@pytest.mark.parametrize("buffer_bytes", [0, *BUFFERS])
@pytest.mark.parametrize("shift", [0, 1, 3, 70])
def test_a_copy_displaces_the_lines_of_an_earlier_copy(shift, buffer_bytes):
    """Runs of lines with gaps between them, which a longer run displaces; the run ends within a granule."""
    rows = [
        ("STORE", 0, "pm", 64 * first, 64 * count, 8, COUNTED)
        for first, count in ((0, 64), (70, 3), (74, 9), (90, 200))
    ]
    rows += [("STORE", 0, "pm", 64 * (4096 * turn + shift), 64 * 150, 8, COUNTED) for turn in (1, 2)]
    rows += [("NTSTORE", 0, "pm", 64 * 4096 * 3 + 8 * k, 8, 8, COUNTED) for k in range(0, 4096, 97)]
    assert account(rows, buffer_bytes) == slow(rows, buffer_bytes)


@pytest.mark.parametrize("lines", [1, 8, 9, 64])
@pytest.mark.parametrize("beside", [-1, 0, 1])
def test_a_run_leaves_the_lines_beside_it(lines, beside):
    """Lines of another page hold the slots before and behind a run that is stored, flushed or stored past the cache."""
    far, first = 4096 * 64, 100 * 64
    others = [
        ("STORE", 0, "pm", far + first - 64, 64, 8, COUNTED),
        ("STORE", 0, "pm", far + first + lines * 64, 64, 8, COUNTED),
    ]
    run = ("pm", first + 64 * beside, lines * 64, 8, COUNTED)
    rows = [*others, ("STORE", 1, *run), *others, ("FLUSH", 1, *run[:3], 0, COUNTED), ("NTSTORE", 2, *run)]
    rows += [("FLUSH", 0, "pm", far, 4096 * 16, 0, COUNTED), ("FLUSH", 0, "pm", 0, 4096 * 16, 0, COUNTED)]
    for buffer_bytes in (0, 16 << 10):
        assert account(rows, buffer_bytes) == slow(rows, buffer_bytes)


@pytest.mark.parametrize("first", [0, 1, 4095])
def test_lines_that_are_flushed_leave_together_from_the_first_on(first):
    """Those that are clean end a run; a small granule is written whole where its lines leave together."""
    for dirty in ([0], [0, 1], [0, 1, 2, 3], [0, 2, 3], [1, 2], [3]):
        rows = [("STORE", 0, "pm", (first + line) * 64, 64, 8, COUNTED) for line in dirty]
        rows.append(("FLUSH", 0, "pm", first * 64, 4 * 64, 0, COUNTED))
        for buffer_bytes in (0, 256):
            assert account(rows, buffer_bytes) == slow(rows, buffer_bytes)


@pytest.mark.parametrize("lines", [1, 8, 9, 64, 200])
@pytest.mark.parametrize("first", [0, 61, 4095 - 200])
def test_a_non_temporal_store_takes_what_a_run_left_out_of_the_cache(lines, first):
    """All of the run, its ends and its middle, which another page displaces afterwards."""
    far, run = 4096 * 64, ("pm", first * 64, lines * 64)
    for begin, count in ((0, lines), (0, 1), (lines - 1, 1), (lines // 2, lines - lines // 2), (0, 2 * lines)):
        rows = [("STORE", 0, *run, 8, COUNTED), ("NTSTORE", 1, "pm", (first + begin) * 64, count * 64, 8, COUNTED)]
        rows += [("STORE", 0, "pm", far + (first + line) * 64, 64, 8, COUNTED) for line in range(lines)]
        assert account(rows, 0) == slow(rows, 0)


def test_a_dirty_line_leaves_the_cache_once():
    rows = [("STORE", 0, "pm", 0, 8, 0, COUNTED), ("STORE", 0, "pm", 32, 8, 0, COUNTED)]
    flush = ("FLUSH", 0, "pm", 0, 64, 0, COUNTED)
    assert account(rows, 0)[0]["lines_written_back"] == 0
    found, _ = account([*rows, flush, flush], 0)
    assert (found["lines_written_back"], found["flushes"], found["pm_stored_bytes"]) == (1, 2, 16)


def test_a_device_without_a_buffer_combines_nothing():
    rows = [("NTSTORE", 0, "pm", 0, 8, 8, COUNTED), ("NTSTORE", 0, "pm", 8, 8, 8, COUNTED)]
    assert account(rows, 0)[0]["media_bytes_64"] == slow(rows, 0)[0]["media_bytes_64"] == 2 * 64


def test_a_non_temporal_store_takes_the_line_out_of_the_cache():
    """NOVA clears an entry with cached stores, then writes it with non-temporal ones: one line written back."""
    rows = [("STORE", 0, "pm", 0, 64, 0, COUNTED), ("NTSTORE", 0, "pm", 0, 64, 8, COUNTED)]
    rows.append(("STORE", 0, "pm", 4096 * 64, 8, 0, COUNTED))  # takes the same place in the cache
    assert account(rows, 0)[0]["lines_written_back"] == 1
