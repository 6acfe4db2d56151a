"""Check for every model the life of files: from before the trace, unlinked, replaced, mapped, and their live bytes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core import registry
from tests.conformance.systems import FILES, STAMPS, SYSTEMS, held, loaded, mixed, page, side
from tests.conftest import NO_JIT
from tests.fs import drive


@settings(max_examples=5 if NO_JIT else 15)
@pytest.mark.parametrize("fs", SYSTEMS)
@given(seed=st.integers(0, 1 << 30), count=st.integers(1, 60))
def test_live_bytes_fit_what_is_allocated(fs, seed, count):
    """After each operation on files without holes."""
    model = drive.Model(fs, side(), capacity=(64 << 20) * page(fs) // 4096)
    for row in mixed(seed, count):
        model.feed(np.array([row]).view(np.recarray))
        space = model.space()
        assert 0 <= space["live_bytes"] <= space["allocated_bytes"] <= space["capacity_bytes"]
        assert int(model.record.free_blocks) * min(4096, page(fs)) + space["allocated_bytes"] <= space["capacity_bytes"]
        assert space["waste_bytes"] >= 0
    assert int(model.record.failed) == 0


@settings(max_examples=3 if NO_JIT else 10)
@pytest.mark.parametrize("fs", SYSTEMS)
@given(seed=st.integers(0, 1 << 30))
def test_what_is_unlinked_comes_back(fs, seed):
    """After all files are gone, nothing is allocated for data."""
    model = drive.Model(fs, side(), capacity=(64 << 20) * page(fs) // 4096)
    model.feed(mixed(seed, 60, holes=True))
    model.feed(
        drive.ops(*[(op, file, 0, 0, 0) for file in range(1, FILES) for op in ("close",) * 25 + ("unlink",) * 25])
    )
    space = model.space()
    assert (space["allocated_bytes"], space["live_bytes"], space["files"]) == (0, 0, 0)


@pytest.mark.parametrize("fs", SYSTEMS)
@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 1_000_000])
def test_a_file_from_before_is_there_at_no_cost(fs, size):
    """Looking at it stores nothing, and reading it loads all its bytes from persistent memory."""
    files = drive.files(0, size, dirs=[0])
    model = drive.Model(fs, files)
    looked = drive.persistent(model.feed(drive.ops(("stat", 1), ("open", 1))), model.sites)
    assert set(looked["stored"]) <= STAMPS.get(fs, set()) and not looked["flushes"]
    events = model.feed(drive.ops(("read", 1, 0, 2 * size)))
    found = drive.persistent(events, model.sites)
    assert not found["stored"] and not found["flushes"]
    pages = -(-size // 4096) * 4096
    assert size <= loaded(fs, events, model.sites) <= pages + 64 * (pages // 4096 + 8)
    space = model.space()
    assert (
        space["live_bytes"] in (size, pages)
        and space["files"] == 1
        and space["allocated_bytes"] == held(fs, size, closed=True)
    )


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_create_of_a_file_from_before_opens_it(fs):
    """open(O_CREAT) of a file that exists is an open."""
    model = drive.Model(fs, drive.files(0, 50_000, dirs=[0]))
    model.feed(drive.ops(("create", 1, 0, 0, 0)))
    events = model.feed(drive.ops(("read", 1, 0, 50_000)))
    assert loaded(fs, events, model.sites) >= 50_000


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_file_unlinked_while_open_lives_until_its_close(fs):
    """What tmpfile() does: create, unlink, use, close."""
    model = drive.Model(fs, side())
    model.feed(drive.ops(("create", 2, 0, 0, 0), ("close", 2)))  # a trace that has closes at all
    model.feed(drive.ops(("create", 1, 0, 0, 0), ("write", 1, 0, 8192), ("fsync", 1), ("unlink", 1, 0, 0, 0)))
    model.feed(drive.ops(("write", 1, 8192, 4096)))
    assert model.space()["allocated_bytes"] == held(fs, 3 * 4096)
    model.feed(drive.ops(("close", 1)))
    assert model.space()["allocated_bytes"] == model.space()["live_bytes"] == 0


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_file_from_before_that_is_replaced_does_not_come_back(fs):
    """It was never looked at: the file that gets its number is a new one."""
    model = drive.Model(fs, side())
    model.feed(drive.ops(("create", 1, 0, 0, 0), ("write", 1, 0, 5000), ("rename", 1, 0, 0, 4), ("create", 4, 0, 0, 0)))
    assert (model.space()["files"], model.space()["live_bytes"]) == (2, 5000)


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_file_replaced_while_open_lives_until_its_close(fs):
    model = drive.Model(fs, side())
    rows = [("create", 1), ("write", 1, 0, 8192), ("create", 2), ("write", 2, 0, 4096), ("close", 2), ("fsync", 1)]
    model.feed(drive.ops(*rows, ("fsync", 2), ("rename", 2, 0, 0, 1)))
    assert model.space()["allocated_bytes"] == held(fs, 8192) + held(fs, 4096, closed=True)
    model.feed(drive.ops(("close", 1)))
    assert model.space()["allocated_bytes"] == held(fs, 4096, closed=True) and model.space()["files"] == 1


@pytest.mark.parametrize("fs", SYSTEMS)
def test_holes_are_not_live(fs):
    model, holes = drive.Model(fs, side()), getattr(registry.load("fs", fs), "HOLES", True)
    gap = 1 << 30 if holes else 1 << 20  # a file system without holes fills it
    model.feed(drive.ops(("create", 1), ("write", 1, gap, 4096), ("fsync", 1)))
    assert 4096 <= model.space()["live_bytes"] <= max(4096, page(fs)) + gap * (not holes)


@pytest.mark.parametrize("fs", SYSTEMS)
def test_loads_and_stores_through_a_mapping_are_no_calls(fs):
    """What a program does to its mapped memory does not enter the file system."""
    model = drive.Model(fs, side())
    model.feed(drive.ops(("create", 1), ("write", 1, 0, 8192), ("fsync", 1)))
    assert len(model.feed(drive.ops(("load", 1, 0, 64), ("store", 1, 64, 64)))) == 0


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_rename_onto_itself_changes_nothing(fs):
    """rename() of two names of the same inode does nothing (POSIX)."""
    model = drive.Model(fs, side())
    model.feed(drive.ops(("create", 1, 0, 0, 0), ("write", 1, 0, 5000), ("rename", 1, 0, 0, 1)))
    assert model.space()["live_bytes"] in (5000, 8192) and model.space()["files"] == 1
