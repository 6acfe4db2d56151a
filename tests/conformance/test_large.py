"""Check for every model large and odd sizes: reads and calls far past the end, files of 32 GiB, devices of terabytes."""

import pytest

from scmsim.core.errors import UsageError
from tests.conformance.systems import LIMITED, SYSTEMS, page, replay, side
from tests.conftest import NO_JIT
from tests.fs import drive

FAR = [("create", 1), ("write", 1, 0, 100), ("read", 1, 1 << 45, 4096)]


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_read_far_behind_the_end_takes_no_memory(fs):
    """pread() at 32 TiB of a short file returns 0."""
    model = drive.Model(fs, side())
    model.feed(drive.ops(*FAR[:2]))
    before = len(model.state.arena)
    batch, taken = drive.ops(FAR[2]), model.state.grow
    model.state.grow = lambda words: taken(words) if words < 1 << 24 else pytest.fail(f"{words} words for a read")
    model.feed(batch)
    assert len(model.state.arena) == before


@pytest.mark.parametrize("fs", SYSTEMS)
def test_lengths_far_beyond_the_device_cost_nothing(fs):
    """A read is cut at the end of the file; a write or fallocate beyond the largest file fails."""
    rows = [
        ("create", 1),
        ("write", 1, 0, 4096),
        ("read", 1, 0, 1 << 50),
        ("write", 1, 0, 1 << 50),
        ("fallocate", 1, 0, 1 << 50),
    ]
    run = replay(fs, drive.ops(*rows))
    assert run.errors["EFBIG"] == 2 and run.space["live_bytes"] == 4096


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_fallocate_without_a_length_fails(fs):
    """EINVAL, so nothing is allocated, wherever it begins; and the file can go."""
    model = drive.Model(fs, side())
    model.feed(drive.ops(("create", 1), ("fallocate", 1, 239, 0), ("fallocate", 1, 1 << 20, 0)))
    assert model.space()["allocated_bytes"] == 0
    model.feed(drive.ops(("truncate", 1, 1642), ("unlink", 1)))
    assert model.space()["allocated_bytes"] == 0


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_call_beyond_the_largest_file_fails_alone(fs):
    """Where the limit is the model's and not the file system's, a warning says so."""
    run = replay(fs, drive.ops(("create", 1), ("write", 1, 1 << 60, 4096), ("truncate", 1, 1 << 60)))
    assert run.errors == {"EFBIG": 2} and run.payload["written"] == 0
    assert any("16 TiB" in warning for warning in run.warnings) is (fs not in LIMITED)


HUGE = 32 << 30
HUGE_OPS = {
    "fallocate": [
        ("create", 1),
        ("fallocate", 1, 0, HUGE),
        ("truncate", 1, 4096),
        ("fallocate", 1, 0, HUGE),
        ("unlink", 1),
    ],
    "from before": [("read", 2, 0, 4096), ("truncate", 2, 4096), ("unlink", 2)],
}


@pytest.mark.slow
@pytest.mark.parametrize("fs", SYSTEMS)
@pytest.mark.parametrize("rows", HUGE_OPS.values(), ids=HUGE_OPS)
def test_operations_on_32_gib_take_moderate_memory(fs, rows):
    """Events go out in pieces, and the arena holds little more than the 64 MiB of the file's page map.

    On file systems with smaller pages as many pages: fewer GiB.
    """
    share = min(4096, page(fs))
    rows = [tuple(HUGE // 4096 * share if part == HUGE else part for part in row) for row in rows]
    model = drive.Model(fs, drive.files(0, -1, HUGE // 4096 * share, dirs=[0]), room=1 << 14)
    grow, make = model.state.grow, model.buffer
    model.state.grow = lambda words: grow(words) if words <= 1 << 25 else pytest.fail(f"{words} words")
    model.buffer = lambda room: make(room) if room <= 1 << 17 else pytest.fail(f"{room} events")
    for _ in model.events(drive.ops(*rows)):  # not kept: daxfs has 260 million, as it treats page by page
        pass
    assert int(model.record.failed) == 0 and model.space()["allocated_bytes"] == 0
    assert len(model.state.arena) <= 1 << 26


@pytest.mark.slow
@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_truncate_of_many_entries_goes_out_in_pieces(fs):
    """40,000 pages written backwards: as many entries or extents, in a buffer of 4096 events."""
    model = drive.Model(fs, side())
    count = 2000 if NO_JIT else 40_000
    model.feed(drive.ops(("create", 1), *[("write", 1, (count - i) << 12, 4096) for i in range(count)], ("fsync", 1)))
    make = model.buffer
    make(1 << 12)
    model.buffer = lambda room: make(room) if room <= 1 << 15 else pytest.fail(f"{room} events")
    model.feed(drive.ops(("truncate", 1, 5000), ("read", 1, 0, 1 << 30), ("unlink", 1)))
    assert model.space()["allocated_bytes"] == 0


@pytest.mark.parametrize("fs", SYSTEMS)
@pytest.mark.parametrize("capacity", ["1TiB", "100T", "4000T"])
def test_a_device_of_many_terabytes_works_or_is_an_error_that_names_the_limit(fs, capacity):
    try:
        model = drive.Model(fs, side(), capacity=capacity)
    except UsageError as error:
        assert "\n" not in str(error) and ("16TiB" in str(error) or "1PiB" in str(error)) and capacity != "1TiB"
        return
    model.feed(drive.ops(("create", 1), ("write", 1, 0, 1 << 20), ("fsync", 1)))
    assert model.space()["live_bytes"] == 1 << 20 and len(model.state.arena) <= 1 << 26
