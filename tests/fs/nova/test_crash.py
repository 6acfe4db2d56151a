"""NOVA's names under crashes: links, directories, long names, a journal that wraps around; and fences that are missing."""

import pytest

from scmsim import crash
from scmsim.core.records import FENCE, FLUSH
from tests.crash.test_crash import without
from tests.fs import drive

pytestmark = pytest.mark.slow

LONG = "n" * 61
NAMES = [
    ("create", 1, 0, 0, 0), ("link", 1, 0, 0, 0), ("link", 1, 0, 0, 4), ("unlink", 1, 0, 0, 0), ("mkdir", 3, 0, 0, 0),
    ("create", 2, 0, 0, 3), ("unlink", 1, 0, 0, 0), ("unlink", 2, 0, 0, 3), ("rmdir", 3, 0, 0, 0), ("unlink", 1, 0, 0, 0),
]  # fmt: skip


def check(fs, rows, change=None, **more):
    names = ("/d", f"/d/{LONG}", "/d/short", "/d/sub", "/e")
    source = drive.source(drive.files(0, -1, -1, -1, 0, dirs=[0, 3, 4], names=names), drive.ops(*rows))
    return crash.check(source, fs, params={"capacity": "256MiB"}, change=change, **{"samples": 16, **more})


@pytest.mark.parametrize("fs", ["nova-cow", "nova-inplace", "nova-fast16"])
def test_names_hold(fs):
    """Four times the names: more journal records than its page has."""
    report = check(fs, NAMES * 4)
    assert report.failures == [] and report.operations == 4 * len(NAMES)


NEEDED = [
    *((FENCE, site) for site in ("journal", "log commit", "inode")),
    *((FLUSH, site) for site in ("journal", "log commit", "inode", "log append", "namespace")),
]
COVERED = [(FENCE, "log append"), (FENCE, "namespace"), (FENCE, "log extension"), (FLUSH, "log extension")]


@pytest.mark.parametrize(("code", "site"), NEEDED)
def test_a_missing_one_is_found(code, site):
    report = check("nova-cow", NAMES, without(code, site), samples=40, failures=1)
    assert report.failing_states and report.failures[0].lost


@pytest.mark.parametrize(("code", "site"), COVERED)
def test_what_the_commit_does_again_may_be_missing(code, site):
    """A name's copy, an update in place, a new log's head: the fences and the write-back of the next tail cover them."""
    assert check("nova-cow", NAMES, without(code, site), samples=40).failures == []


@pytest.mark.parametrize("fs", ["nova-cow", "nova-inplace"])
def test_names_hold_on_several_cpus(fs):
    """Three threads, each with its CPU's journal and inode table."""
    names = ("/d", f"/d/{LONG}", "/d/short", "/d/sub", "/e")
    rows = drive.ops(*NAMES * 2, ("create", 1, 0, 0, 0), ("write", 1, 0, 8192), ("write", 1, 104, 4096))
    rows.thread = [i % 3 for i in range(len(rows))]
    source = drive.source(drive.files(0, -1, -1, -1, 0, dirs=[0, 3, 4], names=names), rows)
    report = crash.check(source, fs, params={"capacity": "256MiB", "cpus": 3}, samples=16)
    assert report.failures == [] and report.operations == len(rows)
