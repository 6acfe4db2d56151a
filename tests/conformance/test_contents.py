"""What a read brings into a program's memory is what was last written there, on every file system and any memory of the program."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.errors import UsageError
from scmsim.core.records import LOAD, NTSTORE, PM, STORE
from tests.conformance import systems
from tests.conftest import NO_JIT
from tests.fs import drive, laws
from tests.fs.contents import Contents
from tests.golden import events, options

SIZES = (0, -1, -1, -1, 8192)  # whole pages: how the end of a file from before was zeroed is not seen
# Models that have no event where they zero what lies behind a file's end: in the page cache this is work without an address, PMFS
# zeroes no more than 4 KiB of a larger page, and the others do not zero all of it.
UNZEROED = {
    "ctfs", "device-dax", "ext2", "ext2-ramdisk", "ext2-scm", "ext4", "ext4-linux4", "famfs", "hugetlbfs", "pmfs-1g",
    "pmfs-2m", "ramfs", "tmpfs", "vsm-1g",
}  # fmt: skip
# Reads before an fsync that go beside what lies in the scratch area, from where it will be copied to.
SYSTEMS = [fs for fs in systems.SYSTEMS if fs != "splitfs"]
KINDS = ["write"] * 8 + ["read"] * 6 + ["truncate", "fallocate", "unlink", "rename", "fsync"]


def rows(seed: int, count: int) -> Iterator[tuple]:
    """Calls on data that overlap, at edges of pages and of words; at last every file is read."""
    random, exists = np.random.default_rng(seed), {4}
    for _ in range(count):
        kind, file, other = str(random.choice(KINDS)), int(random.integers(1, 5)), int(random.integers(1, 5))
        page, pages, buffer = (int(random.integers(below)) for below in (12, 7, 5000))
        edge, short = (int(edge) for edge in random.choice([0, 0, 1, 8, 100, 2048, 4095], 2))
        if file not in exists:
            exists.add(file)
            yield "create", file, 0, 0, 0
        if kind in ("write", "read", "fallocate"):
            yield kind, file, page * 4096 + edge, (pages + 1) * 4096 - short, -1, 0, buffer
        elif kind == "truncate":
            yield kind, file, page * 4096 + edge
        elif kind == "unlink":
            exists.discard(file)
            yield kind, file, 0, 0, 0
        elif kind == "rename" and other != file:
            exists.discard(other)
            yield kind, file, 0, 0, other
        elif kind == "fsync":
            yield kind, file
    yield from (("read", file, 0, 100_000, -1, 0, file) for file in sorted(exists))


def contents_of(fs: str) -> Contents:
    """A fresh model and its memory."""
    model = drive.Model(fs, drive.files(*SIZES, dirs=[0]), capacity="16GiB")
    return Contents(model, SIZES, zeroed=fs not in UNZEROED)


@pytest.mark.parametrize("fs", SYSTEMS)
@settings(max_examples=3 if NO_JIT else 30)
@given(st.integers(0, 1 << 30))
def test_a_read_brings_what_was_written(fs: str, seed: int) -> None:
    contents = contents_of(fs)
    for row in rows(seed, 40):
        assert contents.do(*row), "the device is meant to have room"


def reused() -> Iterator[tuple]:
    """Files get blocks that held others' data, by writes that do not fill them, by fallocate, and in holes."""
    for file in (1, 2, 3):
        yield "create", file, 0, 0, 0
        yield "write", file, 0, 300_000
    yield from (("unlink", file, 0, 0, 0) for file in (1, 2, 3))
    yield from (("create", file, 0, 0, 0) for file in (1, 2, 3))
    for file, grown in ((1, (0, 20_000)), (2, (30_000, 50_000))):
        yield "write", file, 100, 200
        yield "fallocate", file, *grown
        yield "read", file, 0, 100_000
    yield "truncate", 3, 200_000
    yield "write", 3, 16_384, 5000
    yield "read", 3, 0, 200_000
    yield "fallocate", 3, 100_000, 150_000
    yield "read", 3, 0, 250_000


@pytest.mark.parametrize("fs", SYSTEMS)
def test_blocks_that_come_back_are_zeroed(fs: str) -> None:
    contents = contents_of(fs)
    for row in reused():
        contents.do(*row)


def fragments(count: int) -> Iterator[tuple]:
    """Two files whose pages alternate on the device, the second from its end, and one of many small writes; then all is cut."""
    yield from (("create", file, 0, 0, 0) for file in (1, 2, 3))
    for i in range(count):
        yield "write", 1, 8192 * i, 4096
        yield "write", 2, 4096 * (count - i), 4096
        yield from (("write", 3, 1000 * at, 1000, -1, 0, at) for at in (2 * i, 2 * i + 1))
    for cut in (count // 2 * 4096 + 100, 5000, 0):
        for file in (1, 2, 3):
            yield "read", file, max(cut - 9000, 0), 1 << 16
            yield "truncate", file, cut
            yield "write", file, cut + 3000, 9000
            yield "read", file, max(cut - 1000, 0), 30_000
    yield from (("unlink", file, 0, 0, 0) for file in (1, 3))
    yield from (("write", 4, 12_288 * i, 20_000) for i in range(6))
    yield from (("read", file, 0, 1 << 18) for file in (2, 4))


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_read_of_many_extents_brings_what_was_written(fs: str) -> None:
    contents = contents_of(fs)
    for row in fragments(140):
        assert contents.do(*row), "the device is meant to have room"


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_read_of_large_files_brings_what_was_written(fs: str) -> None:
    """Larger than a page of 2 MiB, and than the slices in which a call goes out; some models move such files later."""
    contents, large = contents_of(fs), 5 << 20
    rows = [
        ("create", 1, 0, 0, 0),
        ("write", 1, 100, large),
        ("create", 2, 0, 0, 0),
        ("write", 2, 0, 3 << 20),
        ("close", 1),
    ]
    rows += [("write", 2, i << 20, 1 << 20) for i in (3, 4, 2)] + [("fsync", 2), ("close", 2), *[("stat", 1)] * 9]
    rows += [("read", file, (1 << 21) - 5000, 2 << 20, -1, 0, 77) for file in (1, 2)]
    rows += [("write", 1, (1 << 20) + 5000, 2 << 20, -1, 0, 99), ("truncate", 2, (2 << 20) + 5000)]
    for row in [*rows, ("read", 1, 0, 2 * large), ("read", 2, 0, large)]:
        assert contents.do(*row), "the device is meant to have room"


@pytest.mark.parametrize("fs", systems.SYSTEMS)
def test_a_small_device_is_refused_or_works(fs: str) -> None:
    """Of 64 KiB to 20 MiB, half as much again each time: what is stored lies on it, and it counts what it has."""
    capacity, works = 1 << 16, 0
    while capacity < 20 << 20:
        capacity += capacity // 8192 * 4096
        try:
            model = drive.Model(fs, drive.files(*SIZES, dirs=[0]), capacity=capacity)
        except UsageError as error:
            assert "capacity" in str(error) and not works
            continue
        works += 1
        for row in (
            ("create", 1, 0, 0, 0),
            ("write", 1, 0, 4096),
            ("fsync", 1),
            ("read", 4, 0, 4096),
            ("write", 4, 0, 9000),
        ):
            events = model.feed(drive.ops(row))
            stored = events[(events.space == PM) & np.isin(events.code, (LOAD, STORE, NTSTORE))]
            assert not len(stored) or (stored.addr.min() >= 0 and (stored.addr + stored.length).max() <= capacity), (
                capacity,
                row,
            )
        now = model.space()
        laws.space(now)
        assert now.get("free_bytes", 0) + now["allocated_bytes"] <= now["capacity_bytes"]
    assert works or fs.endswith("-1g"), "pages of 1 GiB need more"


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_device_that_fills_up_keeps_what_was_written(fs: str) -> None:
    """And counts what it has, and has all of it again in the end."""
    model = drive.Model(
        fs, drive.files(*events.SIZES, dirs=events.FOLDERS, names=events.PATHS), capacity=options.SMALL[fs]
    )
    contents, there = Contents(model, events.SIZES, zeroed=fs not in UNZEROED), set()
    for row in events.scarce():
        if row[0] != "create" and row[1] not in there:
            continue
        done = contents.do(*row)
        if row[0] == "create" and done:
            there.add(row[1])
        elif row[0] == "unlink":
            there.discard(row[1])
        now = model.space()
        laws.space(now)
        assert now.get("free_bytes", 0) + now["allocated_bytes"] <= now["capacity_bytes"]
    assert int(model.record.failed) > 0 and now["allocated_bytes"] == 0
