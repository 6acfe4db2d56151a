"""Check for every model what a device that fills up refuses, shortens and still does."""

from collections.abc import Iterator

import numpy as np
import pytest

from scmsim.core.errors import UsageError
from scmsim.core.records import WRITE
from tests.conformance.systems import HALVING, SYSTEMS, WHOLE, full, page, replay, side
from tests.conftest import NO_JIT
from tests.fs import drive, laws
from tests.golden.options import LARGER, OTHERWISE, SMALL, THIRD

FILES = 7
KINDS = ["write"] * 12 + ["close"] * 4 + ["fallocate", "truncate", "unlink", "create"]


def rows(seed: int) -> Iterator[tuple]:
    """Calls that fill a small device, many of them on a file that was closed, and many across a boundary of 2 MiB."""
    random = np.random.default_rng(seed)
    yield from (("create", file, 0, 0, 0) for file in range(1, FILES))
    for _ in range(60):
        kind, file = str(random.choice(KINDS)), int(random.integers(1, FILES))
        piece, before = int(random.integers(0, 3)) << 21, int(random.choice([0, 10, 5000, 1 << 20]))
        length = int(random.choice([100, 9000, 300_000, 1 << 21, 3 << 20, 1 << 24]))
        if kind in ("write", "fallocate"):
            yield kind, file, max(piece - before, 0), length
        elif kind == "truncate":
            yield kind, file, piece + before
        else:
            yield kind, file, 0, 0, -1 if kind == "close" else 0


@pytest.mark.parametrize("fs", [fs for fs in SYSTEMS if fs in SMALL])
def test_a_shortened_write_is_done(fs: str) -> None:
    """`failed_bytes` counts the bytes of refused writes, and those that short writes did not write."""
    for seed in range(5 if NO_JIT else 60):
        capacity, params = (SMALL, LARGER)[seed & 1].get(fs, SMALL[fs]), ({}, OTHERWISE, THIRD)[seed % 3].get(fs, {})
        model = drive.Model(fs, drive.files(0, *[-1] * (FILES - 1), dirs=[0]), **{"capacity": capacity, **params})
        batch = drive.ops(*rows(seed))
        model.feed(batch)
        assert not set(model.short) & set(model.refused), seed
        assert all(0 < length < batch[row].length for row, length in model.short.items()), seed
        refused = sum(int(batch[row].length) for row in model.refused if batch[row].op == WRITE)
        cut = sum(int(batch[row].length) - length for row, length in model.short.items())
        assert int(model.record.failed_bytes) == refused + cut, seed
        laws.space(model.space())


@pytest.mark.slow
@pytest.mark.parametrize("capacity", ["4MiB", "8MiB", "16MiB"])
@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_full_device_is_an_error_in_the_result(fs, capacity):
    batch = drive.ops(("create", 1), *[("write", 1, i << 16, 1 << 16) for i in range(400)], ("fsync", 1), ("stat", 1))
    try:
        run = replay(fs, batch, params={fs: {"capacity": capacity}})
    except UsageError as error:
        assert capacity in str(error) and ("larger capacity" in str(error) or "out of range" in str(error))
        return
    assert run.errors["ENOSPC"] >= 100 and 0 <= run.errors["first ENOSPC"] < 400
    assert any("device is full" in warning and f"--set {fs}.capacity" in warning for warning in run.warnings)
    assert run.space["live_bytes"] <= run.space["allocated_bytes"] <= run.space["capacity_bytes"]


def without_windows(space):
    """Return a report of space in which preallocated blocks are free, and without the runs of free blocks."""
    kept = {key: value for key, value in space.items() if key not in ("largest_free_bytes", "preallocated_bytes")}
    if "free_bytes" in space:
        kept["free_bytes"] += space.get("preallocated_bytes", 0)
    return kept


@pytest.mark.slow
@pytest.mark.parametrize("fs", SYSTEMS)
def test_what_fits_of_a_write_is_written_as_a_write_of_that_length_is(fs):
    """It ends with a block, and the block behind it does not fit; families that write all or nothing refuse the write.

    Where HALVING puts blocks depends on the length of the request, but not how many bytes it stores.
    """
    capacity, unit = full(fs, 16 << 20)[0], max(page(fs), 4096)
    length = 700_000 if unit == 4096 else unit * 5 // 4
    model, before = drive.Model(fs, side(), capacity=capacity), drive.Model(fs, side(), capacity=capacity)
    rows, events = [("create", 1)], model.feed(drive.ops(("create", 1)))
    while not (model.short or model.record.failed):
        rows.append(("write", 1, (len(rows) - 1) * length, length))
        events = model.feed(drive.ops(rows[-1]))
    begin, done = rows.pop()[2], model.short.get(0, 0)
    assert (int(model.record.short), int(model.record.failed)) == ((0, 1) if fs in WHOLE else (1, 0))
    assert int(model.record.failed_bytes) == length - done and model.space()["file_bytes"] == begin + done
    laws.space(model.space())
    if fs in WHOLE:
        return
    assert 0 < done < length and (begin + done) % unit == 0
    before.feed(drive.ops(*rows))
    fitting = before.feed(drive.ops(("write", 1, begin, done)))
    if fs in HALVING:
        assert drive.persistent(fitting, before.sites)["stored"] == drive.persistent(events, model.sites)["stored"]
        assert model.space().get("preallocated_bytes", 0) == 0
    else:
        assert fitting["addr"].tolist() == events["addr"].tolist()
    assert without_windows(before.space()) == without_windows(model.space()) and not before.record.short
    model.feed(drive.ops(("write", 1, begin + done, unit)))
    assert model.record.failed or fs in ("xfs", "xfs-dax")  # where the pages of a hole get their blocks at once


@pytest.mark.slow
@pytest.mark.parametrize("fs", [fs for fs in SYSTEMS if fs not in {*WHOLE, *HALVING} and page(fs) < 1 << 30])
def test_a_write_far_longer_than_the_device_is_one_of_what_fits(fs):
    """Its first page exists, so the blocks that are requested at once do not end with a slice of the write."""
    capacity, most = 17 << 20, (1 << 31) - 4096
    model, before = drive.Model(fs, side(), capacity=capacity), drive.Model(fs, side(), capacity=capacity)
    rows = drive.ops(("create", 1), ("write", 1, 0, 100))
    model.feed(rows)
    before.feed(rows)
    events = model.feed(drive.ops(("write", 1, 0, most)))
    if fs in ("vsm", "winefs", "winefs-relaxed"):  # a write that replaces blocks is done whole or refused
        assert not model.short and int(model.record.failed_bytes) == most
        return
    done = model.short[0]
    assert 1 << 20 < done < 1 << 30 and int(model.record.failed_bytes) == most - done
    fitting = before.feed(drive.ops(("write", 1, 0, done)))
    assert drive.persistent(fitting, before.sites)["stored"] == drive.persistent(events, model.sites)["stored"]
    assert without_windows(before.space()) == without_windows(model.space())


@pytest.mark.slow
@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_full_device_refuses_growth_and_names_and_goes_on(fs):
    """Small files that grow by one page and more, and calls on files whose creation was refused: each one ends."""
    capacity, step = full(fs, 16 << 20)
    small, large = range(1, 20), 20
    model = drive.Model(fs, drive.files(0, *[-1] * 500, dirs=[0]), capacity=capacity)
    rows = [(op, file, 0, 3000, 0) for file in small for op in ("create", "write")]
    rows += [("create", large, 0, 0, 0), ("write", large, 0, step)]
    rows += [("write", large, k * step, 4096) for k in range(1, capacity // step)]
    rows += [("write", file, 3000 + 4096 * k, 4096 * k) for k in (1, 5, 20) for file in small]
    rows += [(op, file, 0, 1, 0) for file in range(large + 1, 500) for op in ("create", "open", "write", "link")]
    for i in range(0, len(rows), 64):
        model.feed(drive.ops(*rows[i : i + 64]))
        space = model.space()
        assert 0 <= space["live_bytes"] <= space["allocated_bytes"] <= space["capacity_bytes"]
    assert int(model.record.failed) > 0


@pytest.mark.slow
@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_full_device_works_again_after_an_unlink(fs):
    capacity, step = full(fs, 32 << 20)
    model = drive.Model(fs, side(), capacity=capacity)
    model.feed(
        drive.ops(("create", 1), *[("write", 1, i * step, 1 << 12) for i in range(8200)], ("fsync", 1), ("close", 1))
    )
    failed = int(model.record.failed)
    assert failed > 0
    model.feed(drive.ops(("read", 1, 0, 4096), ("stat", 1), ("unlink", 1, 0, 0, 0)))
    assert int(model.record.failed) == failed, "a read, stat or unlink failed for want of space"
    model.feed(drive.ops(("create", 2, 0, 0, 0), *[("write", 2, i << 12, 1 << 12) for i in range(100)], ("fsync", 2)))
    assert int(model.record.failed) == failed
    assert model.space()["live_bytes"] == 100 << 12


@pytest.mark.slow
@pytest.mark.parametrize("fs", SYSTEMS)
def test_what_needs_no_space_does_not_fail_for_want_of_it(fs):
    """Full devices of several sizes, so that the log's last page is full in some of them and not in others."""
    for extra in range(0, 130, 10):
        capacity, step = full(fs, 16 << 20)
        model = drive.Model(fs, side(), capacity=capacity + extra * 4096)
        model.feed(drive.ops(("create", 1), *[("write", 1, i * step, 1 << 12) for i in range(4300)]))
        failed = int(model.record.failed)
        model.feed(drive.ops(("read", 1, 0, 4096), ("fsync", 1), ("stat", 1), ("open", 1), ("close", 1)))
        model.feed(drive.ops(("fallocate", 1, 0, 1 << 20), ("load", 1, 0, 64), ("mmap", 1, 0, 4096)))
        assert int(model.record.failed) == failed > 0, extra
