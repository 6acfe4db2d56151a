"""Compare the kernels that put footprints between events with their reference."""

import bisect
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scmsim import footprint
from scmsim.core.records import (
    EVENT,
    EVENTS,
    KERNEL,
    LOAD,
    OPS,
    REMAPPED,
    SETUP,
    SLICE,
    SPACES,
    STORE,
    SYNCHRONOUS,
    WORK,
    joined,
)
from scmsim.footprint import interleave
from scmsim.footprint.describe import (
    FIRST,
    GROWS,
    LONG_READDIR,
    MANY_DIRTY_INODES,
    NONE,
    OPERATION,
    STILL_REFERENCED,
    begin,
    describe,
)
from scmsim.footprint.expand import expanded
from scmsim.footprint.interleave import CALL, OPEN_FILE, PAGE
from tests.conftest import NO_JIT
from tests.footprint.reference import Described, Entry, Inodes, Player
from tests.fs import drive

NOWHERE = (0, np.zeros(1, PAGE))  # the model has no objects that were measured
FIELDS = ("op", "site", "addr", "length", "vaddr")
SITES = ["syscall", "copy", "user library", "mapped access"]
BITS = {
    62: GROWS,
    61: STILL_REFERENCED,
    60: FIRST,
    59: MANY_DIRTY_INODES,
    58: LONG_READDIR,
}  # by the reference's numbers
CACHES = {"inode_cache": [(4096, 12), (8192, 12), (4096, 12)], "other_inode_cache": [(2 << 21, 21)] * 3}
CACHES |= {"open files": [(8192, 12), (12288, 12), (4096, 12)]}
page = st.tuples(st.integers(1, 1 << 40), st.sampled_from([12, 21])) | st.sampled_from(list(CACHES))
TOUCH = OPS.index("load")
entry = st.builds(
    Entry,
    st.sampled_from([0, 1, 2, 3, TOUCH]),
    st.frozensets(st.integers(0, 3)),
    st.integers(0, 300) | st.integers(0, 1 << 40),
    st.lists(st.tuples(page, st.booleans()), max_size=9),
    st.none() | st.integers(0, 5),
)
described = st.builds(
    Described,
    st.just(""),
    st.booleans(),
    st.booleans(),
    st.just(0) | st.integers(0, 500),
    st.none() | st.integers(0, 5),
    st.integers(-1, 3),
    st.none(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
events = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([LOAD, STORE, WORK]), st.integers(0, 3)), max_size=30)


def stored(path: Path, book: list[Entry], theirs: list[str]) -> None:
    """A file of footprints."""
    calls = np.zeros(len(book), footprint.MEASURED)
    places = sorted({page for one in book for page, _ in one.touches if not isinstance(page, str)})
    places += sorted({place for each in CACHES.values() for place in each} - set(places))
    pages = np.zeros(len(places) + len(CACHES), PAGE)
    pages["vaddr"][: len(places)], pages["order"][: len(places)] = np.array(places).T
    pages["cache"][len(places) :] = [1, 2, 3 | OPEN_FILE]
    numbers = {place: number for number, place in enumerate([*places, *CACHES])}
    for row, one in zip(calls, book, strict=True):
        mask = sum(1 << theirs.index(SITES[site]) for site in one.sites if site < 58 and SITES[site] in theirs)
        row["kind"], row["amount"], row["count"] = one.kind, one.amount, len(one.touches)
        row["sites"] = mask | sum(bit for number, bit in BITS.items() if number in one.sites)
        row["opening"] = NONE if one.opening is None else one.opening
    touches = [numbers[place] << 1 | store for one in book for place, store in one.touches]
    inodes = np.array([[numbers[place] for place in each] for each in CACHES.values()])
    about = {"fs": "tmpfs", "kernel": "6.1", "sites": theirs}
    footprint.write(path, about, calls=calls, touches=np.array(touches, np.uint16), pages=pages, inodes=inodes)


def told(event: np.void, fields: tuple[str, ...]) -> dict[str, Any]:
    """An event as the reference knows it."""
    return {
        **{name: int(event[name]) for name in fields},
        "code": EVENTS[event["code"]],
        "space": SPACES[event["space"]],
    }


def operations_of(known: list[Described], kinds: list[int]) -> np.ndarray:
    out = np.zeros(len(known), OPERATION)
    for row, one, kind in zip(out, known, kinds, strict=True):
        row["kind"], row["freed"], row["file"], row["opening"] = kind, one.freed, one.file, NONE
        row["sites"] = (GROWS if one.grows else 0) | (STILL_REFERENCED if one.held else 0) | (FIRST if one.first else 0)
        row["sites"] |= (MANY_DIRTY_INODES if one.piled else 0) | (LONG_READDIR if one.long else 0)
        row["inode"] = NONE if one.inode is None else one.inode
    return out


@given(
    st.lists(entry, min_size=1, max_size=12),
    st.lists(described, min_size=4, max_size=4),
    events,
    st.integers(1, 5),
    st.integers(1, 10),
    st.permutations(SITES),
    st.booleans(),
)
def test_touches_stand_where_the_reference_has_them(
    tmp_path_factory, book, known, drawn, alike, chunk, theirs, nearest
) -> None:
    compare(tmp_path_factory.mktemp("footprint") / "f.npz", book, known, drawn, (alike, chunk, theirs, nearest))


@pytest.mark.parametrize("seed", range(12))
def test_many_calls_around_an_amount(tmp_path: Path, seed: int) -> None:
    """Kinds with calls of their own and without, opens that make an open file, amounts near each other."""
    random, book = np.random.default_rng(seed), []
    amounts = [0, 64, 94, 124, 128, 154, 158, 184, 188, 218, 222, 252]  # of one to some events, and between them
    pages = [(4096, 12), (4096 << 9, 21), (12288, 12), (1 << 40, 12), *CACHES]
    for _ in range(30):
        touches = [
            (pages[random.integers(0, len(pages))], bool(random.integers(0, 2))) for _ in range(random.integers(0, 12))
        ]
        sites = frozenset(np.flatnonzero(random.random(4) < (0.4 if seed < 6 else 0.05)).tolist())  # large groups, too
        opening = int(random.integers(0, 4)) if random.random() < 0.6 else None
        book.append(
            Entry(
                int(random.choice([0, 1, 3, TOUCH][seed % 2 :])), sites, int(random.choice(amounts)), touches, opening
            )
        )
    known = [
        Described("", *(random.random(2) < 0.3), int(random.choice([0, 0, 200])), int(random.integers(0, 4)),
        int(random.integers(-1, 3)), None, bool(k % 2), bool(k & 2))
        for k in range(4)
    ]  # fmt: skip
    drawn = [
        (int(random.integers(0, 4)), int(random.choice([LOAD, STORE, WORK])), int(random.integers(0, 4)))
        for _ in range(40 if seed < 6 else 8)
    ]
    order = [SITES[k] for k in random.permutation(4)]
    alike, chunk = random.integers(1, 6).item(), random.integers(1, 6).item()
    for nearest in (False, True):
        compare(tmp_path / "f.npz", book, known, drawn, (alike, chunk, order, nearest))


def compare(path: Path, book: list[Entry], known: list[Described], drawn: list, how: tuple) -> None:
    alike, chunk, theirs, nearest = how
    theirs = theirs[:3]  # one mechanism of the model is unknown to the file
    shared = {SITES.index(name) for name in theirs}
    own = [{bit for bit in BITS if one.amount >> bit - 58 & 1} for one in book]
    book = [one._replace(sites=one.sites & shared | more) for one, more in zip(book, own, strict=True)]
    stored(path, book, theirs)
    with mock.patch.object(footprint, "CHUNK", chunk):
        prints = footprint.read(path, SITES)
    prints.state.alike[0], prints.state.nearest[0] = alike, nearest
    drawn = sorted(drawn, key=lambda one: one[0])
    buffer = np.zeros(len(drawn), EVENT)
    buffer["op"], buffer["code"], buffer["site"] = np.array(drawn, "i8").reshape(-1, 3).T
    buffer["addr"], buffer["length"] = np.arange(len(drawn)) << 37, np.arange(len(drawn)) % 5 * 30
    buffer["space"], buffer["vaddr"] = np.arange(len(drawn)) % 3, buffer["addr"] + 7
    kinds, slices = [2, 0, TOUCH, 1], np.zeros(len(drawn), SLICE)
    opened = np.zeros(4, np.int64)
    interleave.begin_batch(prints.state)
    named = [told(e, FIELDS) for e in buffer]
    count = interleave.interleave(
        prints.state, prints.book, opened, NOWHERE, slices, operations_of(known, kinds), buffer
    )
    player = Player(book, shared, CACHES, alike, chunk, {2, 3}, nearest)
    expected = player.interleaved(known, kinds, named)
    bins = np.arange(len(buffer)) * 3
    whole = list(expanded(prints.book, slices[:count], buffer, bins))
    result = joined([some for some, _ in whole]) if whole else buffer
    assert len(result) == len(expected)
    marks = np.concatenate([rows for _, rows in whole]) if whole else bins
    assert (
        marks[[isinstance(wanted, dict) for wanted in expected]].tolist() == bins.tolist()
        and (np.diff(marks) >= 0).all()
    )
    for made, wanted in zip(result, expected, strict=True):
        if isinstance(wanted, dict):
            assert told(made, FIELDS) == wanted
        else:
            assert (made["op"], made["site"], made["vaddr"], made["order"], made["code"] == STORE) == wanted
            assert made["space"] == KERNEL and made["width"] == 0


calls = st.tuples(
    st.sampled_from(
        ["create", "write", "fallocate", "truncate", "unlink", "rename", "mkdir", "rmdir", "read", "sync", "fsync"]
        + ["link", "open", "close", "mmap", "munmap", "stat", "msync", "load", "store", "flush", "readdir"]
    ),
    st.integers(0, 5),
    st.integers(0, 9000),
    st.integers(0, 9000),
    st.integers(-1, 5),
    st.sampled_from([0, SYNCHRONOUS, REMAPPED, SETUP]),
)
changed_before = st.just(0) | st.integers(250, 257)


@given(st.lists(calls, max_size=40), st.lists(st.integers(-1, 5000), min_size=6, max_size=6), changed_before)
def test_operations_are_described_as_the_reference_does(rows, sizes, before) -> None:
    rows = [(op, -1 if op == "sync" else file, *rest) for op, file, *rest in rows]
    rows, sizes = [("write", 6 + n, 0, 1, -1, 0) for n in range(before)] + rows, sizes + [0] * before
    batch = drive.ops(*rows)
    out, slow = np.zeros(len(batch), OPERATION), Inodes(sizes)
    state, known = begin(drive.files(*sizes))
    describe(state, known, batch.view(np.ndarray), out)
    for made, row in zip(out, rows, strict=True):
        wanted = slow.describe(*row[:5], {row[5]})
        grows, held = bool(made["sites"] & GROWS), bool(made["sites"] & STILL_REFERENCED)
        assert bool(made["sites"] & FIRST) == wanted.first
        assert bool(made["sites"] & MANY_DIRTY_INODES) == wanted.piled
        assert bool(made["sites"] & LONG_READDIR) == wanted.long
        assert (OPS[made["kind"]], grows, held, made["freed"]) == wanted[:4] and made["file"] == wanted.file
        assert made["inode"] == (NONE if wanted.inode is None else wanted.inode)
        assert made["opening"] == (NONE if wanted.opening is None else wanted.opening)
    assert int(state.used[0]) == slow.used and int(state.free[0]) == len(slow.freed)


def test_a_call_returns_many_names_from_14_on() -> None:
    batch = drive.ops(*(("readdir", 0, -1, length) for length in (0, 447, 448, 4096)), ("open", 0, -1, 4096))
    out = np.zeros(len(batch), OPERATION)
    state, known = begin(drive.files(0, dirs=(0,)))
    describe(state, known, batch.view(np.ndarray), out)
    assert (out["sites"] & LONG_READDIR > 0).tolist() == [False, False, True, True, False]


@pytest.mark.skipif(not NO_JIT, reason="a subroutine is compiled into its kernel only")
def test_calls_of_the_same_amount_begin_with_the_first() -> None:
    calls = np.zeros(7, CALL)
    calls["amount"] = amounts = [5, 5, 7, 7, 7, 9, 9]
    for first, behind in ((0, 7), (1, 4), (3, 3)):
        for amount in range(4, 11):
            expected = bisect.bisect_left(amounts, amount, first, behind)
            assert int(interleave._first_of(calls, first, behind, amount)) == expected


@pytest.mark.parametrize("seed", range(6))
def test_many_operations_on_few_files(seed: int) -> None:
    random, rows = np.random.default_rng(seed), []
    usual = "create write fallocate truncate unlink rename read link open close mmap munmap".split()
    for _ in range(120):
        op = str(random.choice(usual if random.random() < 0.9 else ["mkdir", "rmdir", "sync", "stat", "msync"]))
        flag = int(random.choice([0, 0, SETUP, SYNCHRONOUS if op == "write" else REMAPPED]))
        rows.append((op, *random.integers([0, 0, 0, -1], [4, 9, 9, 4]).tolist(), flag))
    test_operations_are_described_as_the_reference_does.hypothesis.inner_test(rows, [5, -1, 0, 3, -1, -1], 0)


def test_the_state_comes_back_where_a_trace_repeats_itself() -> None:
    """Else whole passes could not be left out (`pipeline.periods`)."""
    state, known = begin(drive.files(8192, 8192))
    seen = []
    for _ in range(3):
        batch = drive.ops(("write", 0, 0, 100), ("write", 1, 0, 100), ("fsync", 0), ("write", 1, 0, 100), ("sync", -1))
        describe(state, known, batch.view(np.ndarray), np.zeros(len(batch), OPERATION))
        seen.append((state.tobytes(), known.tobytes()))
    assert seen[0] == seen[1] == seen[2] and int(state.changed[0]) == 0


def test_an_operation_that_goes_on_in_the_next_buffer_has_its_touches_once(tmp_path: Path) -> None:
    stored(tmp_path / "f.npz", [Entry(2, frozenset(), 0, [((4096, 12), False)] * 5, None)], SITES)
    prints = footprint.read(tmp_path / "f.npz", SITES)
    buffer, slices, taken = np.zeros(3, EVENT), np.zeros(3, SLICE), []
    for begins in (True, False, True):  # the same row of another batch is another operation
        if begins:
            interleave.begin_batch(prints.state)
        count = interleave.interleave(
            prints.state, prints.book, np.zeros(1, np.int64), NOWHERE, slices, np.zeros(1, OPERATION), buffer
        )
        taken.append(int((slices["end"] - slices["first"])[:count].sum()))
    assert taken == [1, 0, 1]


def test_answers_that_are_kept_are_those_of_each_sort(tmp_path: Path) -> None:
    """More sorts of operations than there are places for answers, so that one takes the place of another."""
    random = np.random.default_rng(1)
    book = [
        Entry(
            kind, frozenset(random.choice(3, 2).tolist()), int(amount), [((4096 * (1 + n), 12), False)] * (n % 3), None
        )
        for n, (kind, amount) in enumerate(zip(random.choice([0, 1, 2], 60), random.integers(0, 2000, 60), strict=True))
    ]
    stored(tmp_path / "f.npz", book, SITES[:3])
    prints, player = (
        footprint.read(tmp_path / "f.npz", SITES),
        Player(book, {0, 1, 2}, CACHES, 3, footprint.CHUNK, {2, 3}),
    )
    prints.state.alike[0] = 3
    sorts = [(kind, site, length) for kind in (0, 1, 2) for site in (0, 1) for length in range(0, 1500, 30)]
    known = [Described("", False, False, 0, None, -1, None, False, False)] * len(sorts)
    kinds = [kind for kind, _, _ in sorts]
    buffer = np.zeros(len(sorts), EVENT)
    buffer["op"], buffer["space"] = np.arange(len(sorts)), SPACES.index("pm")
    buffer["site"], buffer["length"] = np.array(sorts).T[1:]
    slices = np.zeros(len(sorts), SLICE)
    interleave.begin_batch(prints.state)
    rows = operations_of(known, kinds)
    count = interleave.interleave(prints.state, prints.book, np.zeros(1, np.int64), NOWHERE, slices, rows, buffer)
    merged = list(expanded(prints.book, slices[:count], buffer, np.zeros(len(buffer), np.int64)))
    found = [int(event["vaddr"]) for some, _ in merged for event in some if event["space"] == KERNEL]
    wanted = player.interleaved(known, kinds, [told(event, FIELDS) for event in buffer])
    assert found == [event[2] for event in wanted if not isinstance(event, dict)] and len(found) > 100


@pytest.mark.parametrize("ops", [[], [7], [7] * 5, [7, 7, 8], [7, 8, 8], [5, 7, 9]])
def test_how_many_events_at_both_ends_are_of_one_operation(ops: list[int]) -> None:
    events = np.zeros(len(ops), EVENT)
    events["op"] = ops
    front = next((at for at, op in enumerate(ops) if op != 7), len(ops))
    end = next((at for at, op in enumerate(reversed(ops)) if op != ops[-1]), len(ops))
    assert interleave.lengths_of_ends(events, 7) == (front, end)


def test_touches_of_more_events_than_are_expanded_together(tmp_path: Path) -> None:
    """Each ahead of its own event, a row of the counters for each."""
    stored(tmp_path / "f.npz", [Entry(2, frozenset(), 0, [((4096, 12), False)], None)], SITES)
    book, events = footprint.read(tmp_path / "f.npz", SITES).book, np.zeros(2500, EVENT)
    events["addr"], events["space"] = np.arange(2500), SPACES.index("pm")
    slices = np.zeros(5, SLICE)
    slices["event"], slices["end"] = [0, 1023, 1024, 2047, 2499], 1
    whole = list(expanded(book, slices, events, np.arange(2500)))
    rows, bins = joined([some for some, _ in whole]), np.concatenate([some for _, some in whole])
    assert bins[rows["space"] == KERNEL].tolist() == [0, 1023, 1024, 2047, 2499]
    assert bins.tolist() == sorted(bins.tolist()) and rows["addr"][rows["space"] != KERNEL].tolist() == list(
        range(2500)
    )


def test_slices_name_the_first_metadata_block_that_their_operation_reads(tmp_path: Path) -> None:
    stored(tmp_path / "f.npz", [Entry(2, frozenset(), 0, [((4096, 12), False)] * 3, None)], SITES)
    prints = footprint.read(tmp_path / "f.npz", SITES)
    buffer, slices = np.zeros(5, EVENT), np.zeros(5, SLICE)
    buffer["op"], buffer["space"], buffer["code"] = [0, 0, 0, 1, 1], KERNEL, [STORE, LOAD, LOAD, STORE, WORK]
    buffer["addr"], buffer["vaddr"] = [1 << 40] * 5, [-5 << 12, -4 << 12, -3 << 12, -2 << 12, -1 << 12]
    interleave.begin_batch(prints.state)
    count = interleave.interleave(
        prints.state, prints.book, np.zeros(1, np.int64), NOWHERE, slices, np.zeros(2, OPERATION), buffer
    )
    assert [int(one["block"]) for one in slices[:count]] == [-4 << 12, 0]  # block 0 is at its own address
