"""Footprints between events: the kernel beside its reference, in buffers of any size; files, kernels and models without a table."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scmsim import footprint
from scmsim.core.errors import UsageError
from scmsim.core.records import EVENT, EVENTS, KERNEL, LOAD, OPS, STORE, WORK
from scmsim.footprint import interleave
from scmsim.footprint.interleave import ENTRY, TOUCH
from tests.footprint.reference import Entry, interleaved

SITES = ["syscall", "copy", "journal", "inode"]
touch = st.tuples(st.integers(1, 1 << 40), st.sampled_from([12, 21]), st.booleans())
entry = st.builds(
    Entry,
    st.integers(0, 3),
    st.frozensets(st.integers(0, 3)),
    st.integers(0, 50) | st.integers(0, 1 << 40),
    st.lists(touch, max_size=9),
)
events = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([LOAD, STORE, WORK]), st.integers(0, 3)), max_size=30)


def stored(path: Path, book: list[Entry], theirs: list[str]) -> None:
    entries, touches = np.zeros(len(book), ENTRY), np.zeros(sum(len(one.touches) for one in book), TOUCH)
    start = 0
    for row, one in zip(entries, book, strict=True):
        mask = sum(1 << theirs.index(SITES[site]) for site in one.sites if SITES[site] in theirs)
        row["kind"], row["sites"], row["instructions"] = one.kind, mask, one.instructions
        row["start"], row["count"] = start, len(one.touches)
        touches[start : start + len(one.touches)] = one.touches
        start += len(one.touches)
    footprint.write(path, entries, touches, {"fs": "tmpfs", "kernel": "6.1", "sites": theirs})


@given(st.lists(entry, min_size=1, max_size=6), events, st.integers(11, 40), st.permutations(SITES))
def test_touches_stand_where_the_reference_has_them(tmp_path_factory, book, drawn, room, theirs) -> None:
    theirs = theirs[:3]  # one mechanism of the model is unknown to the file
    known = {SITES.index(name) for name in theirs}
    book = [one._replace(sites=one.sites & known) for one in book]
    path = tmp_path_factory.mktemp("footprint") / "f.npz"
    stored(path, book, theirs)
    prints = footprint.read(path, SITES)
    drawn = sorted(drawn, key=lambda one: one[0])
    buffer = np.zeros(len(drawn), EVENT)
    buffer["op"], buffer["code"], buffer["site"] = np.array(drawn, "i8").reshape(-1, 3).T
    buffer["addr"] = np.arange(len(drawn)) * 7
    kinds, out, found = np.array([2, 0, 5, 1]), np.zeros(room, EVENT), []
    interleave.begin_batch(prints.state)
    interleave.begin_events(prints.state, len(buffer))
    whole = False
    while not whole:
        whole = interleave.interleave(prints.state, prints.entries, prints.touches, kinds, buffer, out)
        found.append(out[: prints.state.emitted[0]].copy())
    named = [
        {"op": int(e["op"]), "site": int(e["site"]), "code": EVENTS[e["code"]], "addr": int(e["addr"])} for e in buffer
    ]
    expected = interleaved(sorted(book, key=lambda one: one.kind), known, kinds.tolist(), named)
    result = np.concatenate(found)
    assert len(result) == len(expected)
    for made, wanted in zip(result, expected, strict=True):
        if isinstance(wanted, dict):
            assert [made["op"], made["site"], EVENTS[made["code"]], made["addr"]] == list(wanted.values())[:0] + [
                wanted["op"], wanted["site"], wanted["code"], wanted["addr"],
            ]  # fmt: skip
        else:
            assert (made["op"], made["site"], made["vaddr"], made["order"], made["code"] == STORE) == wanted
            assert made["space"] == KERNEL and made["width"] == 0


def test_an_operation_that_goes_on_in_the_next_buffer_has_its_touches_once(tmp_path: Path) -> None:
    stored(tmp_path / "f.npz", [Entry(2, frozenset(), 0, [(4096, 12, False)] * 5)], SITES)
    prints = footprint.read(tmp_path / "f.npz", SITES)
    buffer, out, emitted = np.zeros(3, EVENT), np.zeros(20, EVENT), []
    interleave.begin_batch(prints.state)
    for _ in range(2):
        interleave.begin_events(prints.state, len(buffer))
        assert interleave.interleave(prints.state, prints.entries, prints.touches, np.array([2]), buffer, out)
        emitted.append(int(prints.state.emitted[0]))
    interleave.begin_batch(prints.state)  # the same row of another batch is another operation
    interleave.begin_events(prints.state, len(buffer))
    assert interleave.interleave(prints.state, prints.entries, prints.touches, np.array([2]), buffer, out)
    assert [*emitted, int(prints.state.emitted[0])] == [8, 3, 8]


@pytest.mark.parametrize("kernel", footprint.kernels())
def test_shipped_footprints_are_of_the_kernel(kernel: str) -> None:
    own = footprint.load(kernel, "tmpfs", ["syscall", "copy"])
    assert own.own and not footprint.load(kernel, "nova-cow", ["syscall"]).own
    assert (own.touches["vaddr"] < 0).all()  # the program's pages are the program's
    assert set(np.unique(own.touches["order"])) <= {12, 21, 30}
    assert (own.entries["start"] + own.entries["count"] <= len(own.touches)).all() and own.entries["kind"].max() < len(
        OPS
    )


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no kernel with footprints named '6.2'"):
        footprint.load("6.2", "tmpfs", [])
    (tmp_path / "x.npz").write_bytes(b"nothing")
    with pytest.raises(UsageError, match="has no footprints .*; make it with scmsim lab footprints"):
        footprint.read(tmp_path / "x.npz", [])
