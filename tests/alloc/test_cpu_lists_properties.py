"""NOVA's free lists against sorted ranges: data and log pages on several CPUs, aligned 2 MiB, the dead zone, the layout."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scmsim.alloc import contiguity, cpu_lists, first_fit
from scmsim.core.errors import UsageError
from scmsim.fs.engine.events import HEADER, new_state
from scmsim.fs.nova.layout import layout
from tests.conftest import NO_JIT
from tests.reference.nova_lists import Lists, formatted, parts_of

STATE = np.dtype((np.record, [*HEADER, *cpu_lists.FIELDS]))


class Device:
    """Kernel and reference side by side."""

    def __init__(self, parts, list_blocks, *, fast16=False):
        self.state = new_state(STATE, 64 + cpu_lists.arena_words(parts), np.zeros((1, 4), np.int64))
        dead_zone = 0 if fast16 else cpu_lists.DEAD_ZONE
        cpu_lists.attach(self.state, [tuple(p) for p in parts], list_blocks, aligned=not fast16, dead_zone=dead_zone)
        self.record = self.state.record[0]
        self.reference = Lists(parts, fast16=fast16)
        self.held = []  # runs [start, count]

    def take(self, want, log):
        while not cpu_lists.ready(self.record, self.state.arena, want):
            self.state.grow(int(self.record.need_words))
        allocate = cpu_lists.allocate_log if log else cpu_lists.allocate
        start, got = int(allocate(self.record, self.state.arena, want)), int(self.record.got)
        assert (start, got) == self.reference.take(want, log)
        if got:
            self.held.append([start, got])
        self.check()
        return start, got

    def give(self, index, first=0.0, last=1.0):
        """Free a part of a run that is held."""
        start, count = self.held.pop(index % len(self.held))
        low = int(first * (count - 1))
        high = low + 1 + int(last * (count - 1 - low))
        self.held += [run for run in ([start, low], [start + high, count - high]) if run[1] > 0]
        cpu_lists.release(self.record, self.state.arena, start + low, high - low)
        self.reference.give(start + low, high - low)
        self.check()

    def on(self, cpu):
        self.record.cpu = self.reference.cpu = cpu

    def check(self):
        """The free runs of both agree, so none is held or reserved as well; free and held blocks are all blocks."""
        found = contiguity.of_model(self.record, self.state.arena)
        runs = sorted(run for part in self.reference.lists for run in part.ranges)
        joined = []
        for low, stop in runs:
            if joined and joined[-1][1] == low:
                joined[-1][1] = stop
            else:
                joined.append([low, stop])
        assert [[int(s), int(s + n)] for s, n in zip(*found[:2], strict=True)] == joined and found[2] == 4096
        frees = [part.free for part in self.reference.lists]
        assert self.record.free_of[: len(frees)].tolist() == frees and int(self.record.free_blocks) == sum(frees)
        owned = sorted([*joined, *([s, s + n] for s, n in self.held)])
        assert all(low < stop <= after for (low, stop), (after, _) in zip(owned, owned[1:], strict=False))


wants = st.one_of(st.integers(1, 700), st.sampled_from([1, 63, 64, 65, 256, 512, 1024, 1536, 2048]))
part = st.floats(0, 1)
steps = st.one_of(
    st.tuples(st.just("data"), wants),
    st.tuples(st.just("data"), wants),
    st.tuples(st.just("log"), st.integers(1, 300)),
    st.tuples(st.just("give"), st.integers(0, 99), part, part),
    st.tuples(st.just("on"), st.integers(0, 63)),
)


@settings(max_examples=20 if NO_JIT else 200, deadline=None)
@given(st.integers(1, 5), st.integers(1500, 9000), st.booleans(), st.lists(steps, max_size=60))
@example(1, 3000, False, [("data", 512)] * 4)
@example(2, 2000, False, [("data", 700), ("log", 1), ("on", 1), ("data", 600), ("log", 1), ("on", 0), ("log", 200)])
def test_the_lists_do_what_sorted_ranges_do(cpus, share, fast16, steps):
    cpus = 1 if fast16 else cpus
    device = Device(parts_of(share * cpus, cpus), share, fast16=fast16)
    for kind, *given_ in steps:
        if kind == "on":
            device.on(given_[0] % cpus)
        elif kind == "give":
            if device.held:
                device.give(*given_)
        else:
            device.take(given_[0], kind == "log")


@settings(max_examples=10 if NO_JIT else 100, deadline=None)
@given(st.lists(steps, max_size=40))
def test_bitmaps_that_grow_change_nothing(steps):
    """Track 200 blocks at first; the reference knows nothing of that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first_fit, "AT_ONCE", 200)
        device = Device([[5000, 40_000]], 40_000)
    assert int(device.record.tracked) < 600
    for kind, *given_ in steps:
        if kind == "give":
            if device.held:
                device.give(*given_)
        elif kind != "on":
            device.take(given_[0], kind == "log")


def test_2_mib_leave_out_the_aligned_page_at_a_runs_start():
    """nova_alloc_superpage counts a left margin of 512 blocks where the run is aligned."""
    device = Device([[1000, 40_000]], 40_000)
    assert device.take(512, False) == (1024, 512)
    assert device.take(512, False) == (1536 + 512, 512)
    assert device.take(1024, False) == (2560 + 512, 1024)
    assert device.take(600, False) == (1000, 24)  # the lowest run, whole
    assert device.take(600, False) == (1536, 512)


def test_fewer_2_mib_pages_than_requested():
    """A run gives its whole pages; where none has any, the lowest run serves unaligned."""
    device = Device([[10, 2000]], 2000)
    assert device.take(2048, False) == (512, 1024)
    assert device.take(1024, False) == (10, 502)


def test_logs_stay_out_of_the_dead_zone():
    """A list gives log pages while its free blocks span more than 256, and data to the last block."""
    device = Device([[10, 310]], 310)
    for _ in range(44):
        assert device.take(1, True)[1] == 1
    assert device.take(1, True) == (-1, 0)
    assert device.take(300, False) == (54, 256)
    device.held.sort()
    device.give(0)  # block 10; a hole counts by its place
    device.held.sort()
    device.give(-1, 1.0, 1.0)  # the last block
    assert device.take(1, True) == (10, 1)


def test_a_request_goes_to_the_list_with_most_free_blocks():
    device = Device([[10, 700], [1000, 1900], [2000, 3000]], 1000)
    assert device.take(690, False) == (10, 690)
    assert device.take(700, False) == (2000, 700)
    assert device.take(901, False) == (1000, 900)  # no list has enough: the fullest gives what it has


@pytest.mark.parametrize("cpus", [1, 2, 7, 64])
@pytest.mark.parametrize("blocks", [(4 << 20) // 4096 * 64 + 13, 16 << 18])
@pytest.mark.parametrize("inodes", [1, 20_000])
@pytest.mark.parametrize("directories", [0, 7])
def test_layout(cpus, blocks, inodes, directories):
    lists, journals, tables, logs = formatted(blocks, cpus, inodes, directories)
    try:
        made = layout(blocks, cpus, inodes, directories, fast16=False)
    except UsageError as error:
        assert "CPUs" in str(error) and not all(part.free > 1 for part in lists.lists)
        return
    assert [list(part) for part in made.lists] == [part.ranges[0] for part in lists.lists]
    assert ([made.journal + cpu for cpu in range(cpus)], made.tables) == (journals, tables)
    assert [made.logs + page for page in range(1 + directories)] == logs


def test_the_areas_of_checksums_and_parity_are_an_eighth_of_the_device():
    """1/128 at both ends of each list and 1/9 at its start: 12.7 %."""
    blocks = 16 << 18
    for cpus in (1, 4):
        reserved = blocks - sum(stop - start for start, stop in parts_of(blocks, cpus)) - 66
        assert reserved == pytest.approx(blocks * (2 / 128 + 1 / 9), abs=3 * cpus)


def test_layout_of_fast16():
    made = layout(1 << 18, 1, 10, 2, fast16=True)
    assert made == ([(3 + 1 + 512 + 1 + 2, 1 << 18)], 1 << 18, 1, 3, [4], 3 + 1 + 512)
