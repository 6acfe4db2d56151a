"""The kernels of virtual superpages against their reference implementation; the log's recovery rule against every crash."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import NO_JIT
from tests.fs import drive, laws
from tests.fs.vsm import reference
from tests.fs.vsm.reference import Vsm

NAMES = ("/d", "/d/a", "/d/longer-name", "/d/n" + "x" * 60, "/d/old", "/d/two")
SIZES = (0, -1, -1, -1, 10_000, (2 << 20) + 5000)
PLAIN = st.integers(1, 5)
MIB = 1 << 20

offsets = st.one_of(
    st.integers(0, 70_000),
    st.integers(0, 20).map(lambda page: page * 4096),
    st.integers(0, 9 * MIB),
    st.integers(0, 4).map(lambda i: i * 2 * MIB),
)
lengths = st.one_of(
    st.integers(0, 20_000), st.integers(1, 5 * MIB), st.integers(1, 5).map(lambda i: i * MIB), st.just(4096)
)


commands = laws.commands(
    offsets, lengths, laws.command("write", PLAIN, offsets, lengths), laws.command("close", PLAIN), file=PLAIN
)
VARIANTS = {"4 KiB entries": {}, "2 MiB entries": {"entries": "2MiB"}, "original": {"version": "original"}}


def start(capacity=128 << 20, **params):
    model = drive.Model("vsm", drive.files(*SIZES, dirs=[0], names=NAMES), capacity=capacity, **params)
    leaf = 21 if params.get("entries") == "2MiB" else 12
    slow = Vsm(laws.names_of(NAMES), SIZES, (0,), capacity, dax=params.get("version") != "original", leaf=leaf)
    return model, slow


def same(model, slow, events):
    assert int(model.record.free_blocks) == len(slow.space.free)


FAMILY = laws.BySite(start, same)


@pytest.mark.parametrize("variant", VARIANTS)
@settings(max_examples=3 if NO_JIT else 25, deadline=None)
@given(rows=st.lists(commands, max_size=12))
def test_kernels_do_what_the_twin_does(variant, rows):
    FAMILY.agree(rows, **VARIANTS[variant])


@pytest.mark.parametrize("variant", VARIANTS)
def test_edges_of_blocks(variant):
    for unit in (4096, 2 * MIB):
        FAMILY.agree(laws.edges_of_blocks(unit), **VARIANTS[variant])


def test_many_overwrites_and_migrations_on_a_device_in_pieces():
    """Closed small files leave tails, so that pages of a copy-on-write come from many places."""
    rows = [("write", i, 0, 12_288 * i + 1) for i in (1, 2, 3)] + [("close", i) for i in (1, 2, 3)]
    rows += [("write", 1 + i % 3, 4096 * (i % 7), 30_000 + i) for i in range(12)] + [("close", i) for i in (1, 2, 3)]
    rows += [("write", 4, 0, 3 * MIB), ("write", 4, MIB // 2, 3 * MIB), ("truncate", 4, 100), ("write", 4, 5 * MIB, 9)]
    FAMILY.agree(rows)


def test_entries_are_split_once_wherever_they_lie():
    """Of 2 MiB, some of which lie behind the first 64 MiB of the device."""
    rows = [
        ("create", 1),
        ("write", 1, 0, 72 * MIB),
        *[("write", 1, at * MIB + 5000, 20_000) for at in (66, 66, 2, 70, 67, 2)],
    ]
    FAMILY.agree(rows, entries="2MiB")


@pytest.mark.parametrize("at", [3 << 30, (1 << 30) - 4 * MIB, 3 << 39])
def test_a_file_whose_index_has_one_level_more(at):
    """More than 512 superpages, or than 512 times as many, most of which are a hole without nodes; and nearly 512."""
    rows = [("create", 1), ("write", 1, 0, 3 * MIB), ("write", 1, at + 5000, 9 * MIB), ("write", 1, at + MIB, 5 * MIB)]
    rows += [("write", 1, at - 3 * MIB, 4 * MIB), ("write", 1, at // 3 * 2, 5000), ("read", 1, at - MIB, 4 * MIB)]
    rows += [("write", 1, MIB, MIB), ("write", 1, at // 3 * 2 - MIB, 3 * MIB)]
    FAMILY.agree([*rows, ("truncate", 1, at + 100), ("write", 1, at, 3 * MIB), ("truncate", 1, 5 * MIB)])


@settings(max_examples=30, deadline=None)
@given(offset=st.integers(0, 9 * MIB), length=st.integers(1, 6 * MIB), seed=st.randoms(use_true_random=False))
def test_an_overwrite_survives_a_crash_at_any_point(offset, length, seed):
    """Pages written before the commit are the old file; any of the swaps after it, redone from the log, are the new one."""
    slow = Vsm(["", "a"], (0, -1), (0,), 64 << 20)
    slow.do("create", 1)
    slow.do("write", 1, 0, 9 * MIB + 100)
    f = slow.files[1]
    before = SimpleNamespace(index=dict(f.data), frame=dict(slow.frame), size=f.length)
    slow.do("write", 1, min(offset, f.length - 1), length)
    after = SimpleNamespace(index=dict(f.data), frame=dict(slow.frame), size=f.length)

    def reached(part):
        """A page table and index of which a random part has reached persistent memory."""
        changed = {k: v for k, v in after.__dict__[part].items() if before.__dict__[part].get(k) != v}
        return {**before.__dict__[part], **{k: v for k, v in changed.items() if seed.random() < 0.5}}

    def mapped(index, frame, size):
        """Physical page of each page of the file."""
        pages = range(-(-size // 4096))
        return [frame.get(v := index[p // 512] + p % 512, v) for p in pages]

    log = slow.log_written
    log.state = reference.OPEN
    assert reference.recover(log, dict(before.index), dict(before.frame), before.size, 21) == before.size
    log.state = reference.COMMITTED
    index, frame = reached("index"), reached("frame")
    size = reference.recover(log, index, frame, before.size, 21)
    assert size == after.size and mapped(index, frame, size) == mapped(after.index, after.frame, after.size)
    assert len(set(mapped(index, frame, size))) == -(-size // 4096)
    assert log.state == reference.COMPLETE
