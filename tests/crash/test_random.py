"""Random traces on every system that promises something: no finding but the flaws that its source is known to have."""

import pytest

from scmsim import crash
from tests.crash.histories import OLD, history
from tests.crash.test_crash import SYSTEMS
from tests.fs import drive


def found(fs, seed, params=None, count=24):
    return crash.check(history(seed, count), fs, params={"capacity": "256MiB", **(params or {})}, samples=24)


# PMFS with blocks of 2 MiB shows old bytes where a file was cut and grew again, also without a crash (docs/guide/crash.md)
CHECKED = [system for system in SYSTEMS if system.values[0] != "pmfs-2m"]


@pytest.mark.parametrize(("fs", "params"), CHECKED)
@pytest.mark.parametrize("seed", [7, 10])
def test_a_random_trace_shows_only_known_flaws(fs, params, seed):
    report = found(fs, seed, params)
    assert report.operations
    unknown = [failure for failure in report.failures if not failure.blame.startswith("the file system:")]
    assert unknown == []


@pytest.mark.parametrize(
    ("fs", "rows", "blame"),
    [
        ("nova-cow", [("fallocate", 2, 4096, 8192)], "over blocks that exist it returns without a fence"),
        ("nova-cow", [("write", 2, 0, 8), ("fallocate", 2, 4096, 4096)], ""),
        ("winefs", [("write", 2, 4000, 8000), ("truncate", 2, 20_000)], "a strict write that begins before the end"),
        ("ext4", [("write", 2, 8960, 20_000), ("truncate", 2, 12_000), ("create", 1, 0, 0, 0), ("fsync", 1)], ""),
        ("xfs", [("write", 2, 8960, 20_000), ("truncate", 2, 12_000), ("create", 1, 0, 0, 0), ("fsync", 1)], ""),
    ],
)  # fmt: skip
def test_flaws_of_the_sources(fs, rows, blame):
    source = drive.source(drive.files(0, -1, OLD, dirs=[0]), drive.ops(*rows))
    report = crash.check(source, fs, params={"capacity": "256MiB"})
    assert [blame in failure.blame for failure in report.failures] == ([True] if blame else [])


@pytest.mark.parametrize("pieces", [1, 3])
def test_the_size_of_an_overwrite_in_place_after_a_truncate(pieces):
    """NOVA takes the size from the last of the write entries, although the write changed an earlier one."""
    rows = [("create", 1)] + [("write", 1, 12_288 // pieces * k, 12_288 // pieces) for k in range(pieces)]
    rows += [("truncate", 1, 5000), ("write", 1, 5000, 3000)]
    source = drive.source(drive.files(0, -1, dirs=[0]), drive.ops(*rows))
    report = crash.check(source, "nova-inplace", params={"capacity": "256MiB"})
    assert [failure.wrong for failure in report.failures] == ["has 5000 bytes, expected 8000"] * (pieces > 1)
    assert not crash.check(source, "nova-cow", params={"capacity": "256MiB"}).failures


def test_a_fallocate_over_blocks_after_a_truncate():
    """fallocate stores the new size in an entry that it finds, but the truncate has the newer transaction."""
    rows = [("create", 1), ("write", 1, 0, 12_288), ("truncate", 1, 5000), ("fallocate", 1, 0, 8192)]
    source = drive.source(drive.files(0, -1, dirs=[0]), drive.ops(*rows))
    [failure] = crash.check(source, "nova-cow", params={"capacity": "256MiB"}).failures
    assert failure.wrong == "has 5000 bytes, expected 8192" and failure.lost == []


def test_a_truncated_page_of_the_cache_is_written_back():
    """What a truncate cuts off reads as zeroes after an fsync, if a later write makes the file grow past it."""
    rows = [("truncate", 2, 3304), ("write", 2, 10_008, 12_288), ("fsync", 2)]
    for fs in ("ext4", "ext4-linux4", "xfs"):
        source = drive.source(drive.files(0, -1, OLD, dirs=[0]), drive.ops(*rows))
        assert crash.check(source, fs, params={"capacity": "256MiB"}).failures == []
