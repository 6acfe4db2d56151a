"""The PMFS kernels against their slow twin, operation by operation."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import NO_JIT
from tests.fs import drive
from tests.fs.pmfs.reference import Pmfs

NAMES = ("/d", "/d/a", "/d/longer-name", "/d/n" + "x" * 60, "/d/old")
SIZES = (0, -1, -1, -1, 10_000)
PLAIN = st.integers(1, 4)
FIELDS = ("stored", "nt", "flushes", "fences")
PARENT = st.sampled_from([-1, 0])

offsets = st.one_of(
    st.integers(0, 70_000), st.integers(0, 20).map(lambda page: page * 4096), st.integers(2_000_000, 5_000_000)
)
lengths = st.one_of(st.integers(1, 20_000), st.integers(1, 90).map(lambda page: page * 4096), st.just(0))


def command(op, *parts):
    return st.tuples(st.just(op), *parts)


commands = st.one_of(
    command("create", PLAIN, st.just(0), st.just(0), PARENT),
    command("write", PLAIN, offsets, lengths),
    command("write", PLAIN, offsets, lengths),
    command("read", PLAIN, offsets, lengths),
    command("truncate", PLAIN, offsets),
    command("fallocate", PLAIN, offsets, lengths),
    command("fsync", PLAIN),
    command("close", PLAIN),
    command("unlink", PLAIN, st.just(0), st.just(0), PARENT),
    command("link", PLAIN, st.just(0), st.just(0), PARENT),
    st.tuples(PLAIN, st.sampled_from([-1, 1, 2, 3, 4])).filter(lambda pair: pair[0] != pair[1]).map(
        lambda pair: ("rename", pair[0], 0, 0, pair[1])
    ),
)  # fmt: skip

VARIANTS = {
    "in place": ("pmfs-4k", 12, {}),
    "copy-on-write": ("pmfs-4k", 12, {"data_path": "cow"}),
    "original": ("pmfs-4k", 12, {"version": "original"}),
    "2 MiB": ("pmfs-2m", 21, {}),
    "2 MiB copy-on-write": ("pmfs-2m", 21, {"data_path": "cow"}),
}


def both(variant, rows, capacity=64 << 20):
    """Feed kernels and twin; compare them after every operation."""
    fs, shift, params = VARIANTS[variant]
    model = drive.Model(fs, drive.files(*SIZES, dirs=[0], names=NAMES), capacity=capacity, **params)
    names = [path.rsplit("/", 1)[-1] for path in NAMES]
    cow, dax = params.get("data_path") == "cow", params.get("version") != "original"
    slow = Pmfs(names, SIZES, (0,), capacity, shift, cow, dax)
    for number, row in enumerate(rows):
        found = drive.persistent(model.feed(drive.ops(row)), model.sites)
        assert int(model.record.failed) == 0
        slow.do(*row)
        for field in FIELDS:
            expected = Counter({site: amount for site, amount in getattr(slow, field).items() if amount})
            assert found[field] == expected, f"operation {number}, {row}, {field}"
        assert int(model.record.free_blocks) == len(slow.space.free), f"operation {number}, {row}"
    return model, slow


@pytest.mark.parametrize("variant", VARIANTS)
@settings(max_examples=3 if NO_JIT else 25, deadline=None)
@given(rows=st.lists(commands, max_size=14))
def test_kernels_do_what_the_twin_does(variant, rows):
    both(variant, rows)


@pytest.mark.slow
def test_directories_of_many_names():
    """Names of three lengths come and go until directory blocks have gaps, and a second level of the tree is needed."""
    rows = [(op, i, 0, 0, 0) for _ in range(120) for i in (1, 2, 3) for op in ("create", "link", "link")]
    rows += [("unlink", i, 0, 0, 0) for _ in range(70) for i in (3, 1)] + [("link", 2, 0, 0, 0)] * 90
    both("in place", rows)


@pytest.mark.slow
def test_the_cleaner_runs_when_an_eighth_of_the_journal_is_used():
    model, slow = both("in place", [("write", 1, 0, 8192)] * 4200)
    assert int(model.record.cleanings) == 1
