"""Paging policies: where each space lies, and with which pages."""

import numpy as np
import pytest

from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.core.records import (
    CONTIGUOUS,
    EVENT,
    EVENTS,
    KERNEL,
    LOAD,
    ORDER,
    PM,
    SCM_TABLE,
    SPACES,
    STACK,
    TEXT,
    USER,
    WORK,
)
from scmsim.paging import _linear
from tests.conftest import NO_JIT

POLICIES = registry.names("paging")


def placed(policy, rows, **params):
    """(vaddr, order) of events (code, space, addr, site) under a policy."""
    plugin = registry.load("paging", policy)
    batch = np.zeros(len(rows) + 1, EVENT).view(np.recarray)
    for i, (code, space, addr, site) in enumerate(rows):
        batch.code[i], batch.space[i], batch.addr[i], batch.site[i], batch.length[i] = code, space, addr, site, 77
    before = batch.copy()
    plugin.place(plugin.start(params), batch, len(rows))
    for field in ("code", "site", "space", "op", "width", "addr", "length"):
        assert np.array_equal(batch[field], before[field])
    assert batch.vaddr[-1] == 0  # only the first n events
    return [(int(e["vaddr"]), int(e["order"]) & ORDER) for e in batch[:-1]]


def unsigned(text):
    return int(text, 16) - (1 << 64)


@pytest.mark.parametrize(
    ("policy", "pm", "pm_order"),
    [
        ("linux", "ffff888100000000", 30),
        ("directmap-1g", "ffff888100000000", 30),
        ("directmap-2m", "ffff888100000000", 21),
        ("base-4k", "ffffc90000000000", 12),
        ("ioremap", "ffffc90000000000", 30),
    ],
)
def test_windows(policy, pm, pm_order):
    rows = [(LOAD, space, 5 << 12, 3) for space in (PM, KERNEL, USER, TEXT, STACK)] + [(WORK, TEXT, 123456, 3)]
    where = placed(policy, rows)
    assert where[0] == (unsigned(pm) + (5 << 12), pm_order)
    assert where[1][0] < 0 and where[1][1] == 21
    assert where[2][0] > 0 and where[2][1] == 12
    assert where[3] == (unsigned("ffffffff81000000") + (5 << 12), 21)
    assert where[4][0] < 0 and where[4][1] == 12
    assert where[5] == (unsigned("ffffffff81000000") + 3 * _linear.SITE_BYTES, 21)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("mapped", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 2), (5, 90, 5), (1, 3000, 7000)])
def test_the_kernels_objects_lie_on_pages_of_each_size_by_their_shares(policy, mapped):
    """The same under every policy: 64 GiB of objects, each page of 2 MiB (without a compiler: some) asked once."""
    rows = [(LOAD, KERNEL, at << 21, 0) for at in range(0, 1 << 15, 16 if NO_JIT else 1)]
    params = dict(zip(("direct_4k", "direct_2m", "direct_1g"), (n << 30 for n in mapped), strict=True))
    orders = [order for _, order in placed(policy, rows, **params)]
    for order, amount in zip((12, 21, 30), mapped, strict=True):
        assert orders.count(order) / len(rows) == pytest.approx(amount / sum(mapped), abs=0.02)
    assert orders == [order for _, order in placed("linux", rows, **params)]
    giants = [orders[at : at + len(rows) // 64] for at in range(0, len(orders), len(rows) // 64)]
    assert all(len(set(part)) == 1 for part in giants if 30 in part)  # a GiB is whole or split


def test_objects_keep_what_the_window_says_beside_the_size():
    """Their neighbours are contiguous, whatever page maps them, and their page tables never lie in storage-class memory."""
    events = np.zeros(4000, EVENT).view(np.recarray)
    events.code, events.space, events.addr = LOAD, KERNEL, np.arange(4000) << 21
    plugin = registry.load("paging", "linux")
    plugin.place(plugin.start({"page_tables": "scm", "direct_1g": 4 << 30, "direct_4k": 2 << 30}), events, len(events))
    assert set((events.order & ~np.uint8(ORDER)).tolist()) == {CONTIGUOUS} and set((events.order & ORDER).tolist()) == {
        12,
        21,
        30,
    }


def test_a_direct_map_needs_some_memory():
    with pytest.raises(UsageError, match="are bytes of mapped DRAM; give at least one more than 0"):
        placed("linux", [], direct_4k=0, direct_2m=0)


def test_memory_measured_elsewhere_gets_the_pages_of_this_kernel():
    linux = registry.load("paging", "linux")
    direct, stack = unsigned("ffff888000000000"), unsigned("ffffc90000000000")
    vaddr = np.array([direct + (n << 30) for n in range(1000)] + [direct, stack], np.int64)
    order = np.array([21] * 1000 + [12, 21], np.uint8)
    same = _linear.measured_orders(linux.start({}), vaddr, order)
    assert same.tolist() == order.tolist()
    half = _linear.measured_orders(
        linux.start({"direct_4k": 1 << 20, "direct_2m": 1 << 30, "direct_1g": 1 << 30}), vaddr, order
    )
    assert 490 < (half[:1000] == 30).sum() < 510 and half[1000:].tolist() == [12, 21] and half.dtype == np.uint8
    whole = _linear.measured_orders(linux.start({"direct_4k": 0}), vaddr, order)
    assert (whole == 21).all() and whole.dtype == np.uint8
    giants = _linear.measured_orders(linux.start({"direct_4k": 0, "direct_2m": 0, "direct_1g": 1 << 30}), vaddr, order)
    assert (giants[:1001] == 30).all() and giants[1001] == 21


def test_memory_measured_elsewhere_is_on_the_pages_of_the_kernels_objects():
    """An address that was on a page of 2 MiB is on one of 1 GiB where an object at that address would be."""
    params = {"direct_4k": 0, "direct_2m": 1 << 30, "direct_1g": 1 << 30}
    state, vaddr = (
        registry.load("paging", "linux").start(params),
        _linear.DIRECT_MAP + (np.arange(3000, dtype=np.int64) << 28),
    )
    found = _linear.measured_orders(state, vaddr, np.full(3000, 21, np.uint8)).tolist()
    assert found == [_linear.direct_order(state[0], where) for where in vaddr] and set(found) == {21, 30}


def test_the_page_of_an_ioremap_region_is_chosen():
    for page, order in ((4 << 10, 12), (2 << 20, 21)):
        assert placed("ioremap", [(LOAD, PM, 0, 0)], pm_page=page) == [(unsigned("ffffc90000000000"), order)]
    with pytest.raises(UsageError, match="pm_page = 1MiB; use 4KiB, 2MiB or 1GiB"):
        registry.load("paging", "ioremap").start({"pm_page": 1 << 20})


@pytest.mark.parametrize("policy", POLICIES)
def test_every_event_is_placed_and_spaces_never_meet(policy):
    """1 TiB of persistent memory, 1 TiB of kernel objects and 1000 threads lie apart, each in its half."""
    far = {PM: 1 << 40, KERNEL: 1 << 40, USER: 1000 << 36, TEXT: 1 << 20, STACK: 1 << 30}
    rows = [(code, space, addr, 0) for code in range(len(EVENTS) - 1) for space in far for addr in (0, far[space])]
    windows = {space: set() for space in far}
    for row, (vaddr, order) in zip(rows, placed(policy, rows), strict=True):
        assert order in (12, 21, 26, 30) and (vaddr >= 0) == (row[1] == USER)
        assert -(1 << 47) <= vaddr < 1 << 47  # canonical with 4-level page tables
        windows[row[1]].add(vaddr)
    spans = sorted((min(window), max(window)) for window in windows.values())
    assert all(before[1] < after[0] for before, after in zip(spans, spans[1:], strict=False))


@pytest.mark.parametrize("policy", POLICIES)
def test_windows_start_at_a_page(policy):
    for space, (vaddr, order) in enumerate(placed(policy, [(LOAD, space, 0, 0) for space in range(len(SPACES))])):
        if space != TEXT:  # the kernel's text starts 16 MiB into its 2 MiB pages, the modules' at a 4 KiB page
            assert vaddr % (1 << order) == 0


@pytest.mark.parametrize("policy", POLICIES)
def test_parameters(policy):
    rows = [(LOAD, USER, 0, 0), (WORK, TEXT, 0, 2)]
    assert [order for _, order in placed(policy, rows, user_page=2 << 20)] == [21, 21]
    module = placed(policy, rows, text_page=4096)[1]
    assert module == (unsigned("ffffffffa0000000") + 2 * _linear.SITE_BYTES, 12)
    with pytest.raises(UsageError, match="user_page = 8KiB; use 4KiB or 2MiB"):
        registry.load("paging", policy).start({"user_page": 8192})
    with pytest.raises(UsageError, match="named 'userpage'; did you mean 'user_page'"):
        registry.load("paging", policy).start({"userpage": 4096})


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_documents_itself(policy):
    literals = registry.literals("paging", policy)
    assert literals["SUMMARY"] and literals["SOURCE"]
    assert all(len(param) == 3 and param[1] in ("bytes", "dram|scm") for param in literals["PARAMS"].values())


def test_no_field_hides_behind_a_numpy_attribute():
    assert not [field for field in _linear.STATE.names if hasattr(np.void, field)]


def test_linear_windows_are_contiguous_and_tables_may_lie_in_scm():
    plugin = registry.load("paging", "base-4k")
    flags = {}
    for tables in ("dram", "scm"):
        order = plugin.start({"page_tables": tables}).order[0]
        flags[tables] = {space: int(order[space]) & ~ORDER for space in range(len(SPACES))}
    assert flags["dram"][PM] == flags["dram"][KERNEL] == CONTIGUOUS
    assert flags["scm"][PM] == CONTIGUOUS | SCM_TABLE and flags["scm"][KERNEL] == CONTIGUOUS
    assert flags["scm"][USER] == flags["scm"][STACK] == 0


@pytest.mark.parametrize(("page", "order"), [(4 << 10, 12), (128 << 10, 17), (1 << 30, 30)])
def test_tailored_pages_have_the_size_asked_for(page, order):
    assert placed("tps", [(LOAD, PM, 0, 0)], pm_page=page)[0][1] == order
    with pytest.raises(UsageError, match="pm_page = 5KiB; use a power of two"):
        placed("tps", [(LOAD, PM, 0, 0)], pm_page=5 << 10)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_file_system_that_maps_by_itself_keeps_its_addresses(policy):
    """An event that comes with a page size keeps it and its address; where the page tables lie is the policy's."""
    plugin = registry.load("paging", policy)
    batch = np.zeros(1, EVENT).view(np.recarray)
    batch.code, batch.space, batch.addr, batch.vaddr, batch.order = LOAD, PM, 77, -(5 << 40), 21
    plugin.place(plugin.start({"page_tables": "scm"}), batch, 1)
    assert (int(batch.vaddr[0]), int(batch.order[0])) == (-(5 << 40), 21 | SCM_TABLE)


@pytest.mark.parametrize(
    ("bytes_", "expected"),
    [((4096, 4096, 0), (0, 1 << 31)), ((0, 1, 0), (0, 0)), ((1, 0, 0), (0, 1 << 32)), ((0, 0, 5), (1 << 32, 0)), ((1, 1, 2),
    (1 << 31, 1 << 31)),
     ((3, 1, 12), (3 << 30, 3 << 30))],
)  # fmt: skip
def test_shares_of_the_direct_map(bytes_, expected):
    assert _linear.shares(*bytes_) == expected
    for bad in ((0, 0, 0), (-1, 5, 5), (5, -1, 5), (5, 5, -1)):
        with pytest.raises(UsageError, match="give at least one more than 0"):
            _linear.shares(*bad)


@pytest.mark.parametrize("bytes_", [(1, 3, 0), (1, 1, 2), (0, 1, 1), (1, 0, 0), (0, 0, 1)])
def test_pages_of_the_direct_map_are_spread_as_the_golden_ratio_says(bytes_):
    """Of the first GiBs, and of the first 2 MiB in them, as many are on each size as its share says, but for one or two."""
    small, large, giant = bytes_
    state = registry.load("paging", "base-4k").start(
        {"direct_4k": small << 30, "direct_2m": large << 30, "direct_1g": giant << 30}
    )
    s, phi = state[0], 2654435769 / 2**32
    of_giant, of_small = giant / (small + large + giant), small / max(small + large, 1)
    where = [_linear.DIRECT_MAP + (k << 30) for k in range(120)] + [_linear.DIRECT_MAP + (k << 21) for k in range(400)]
    found = [int(_linear.direct_order(s, np.int64(vaddr))) for vaddr in where]
    expected = []
    for vaddr in where:
        gib, piece = (vaddr >> 30) % 2**24, (vaddr >> 21) % 2**28
        expected.append(30 if gib * phi % 1 < of_giant else 12 if piece * phi % 1 < of_small else 21)
    assert sum(a != b for a, b in zip(found, expected, strict=True)) <= 1  # a product that is cut off
    assert abs(found[:120].count(30) - 120 * of_giant) <= 2
    measured = np.array(where[:120]), np.full(120, 21, np.uint8)
    assert _linear.measured_orders(state, *measured).tolist() == [30 if order == 30 else 21 for order in found[:120]]
    outside = np.array([_linear.DIRECT_MAP - 1, _linear.VMALLOC, 5, _linear.DIRECT_MAP, _linear.VMALLOC - 1])
    orders = _linear.measured_orders(state, outside, np.full(5, 12, np.uint8)).tolist()
    assert orders[:3] == [12] * 3 and (orders[3:] == [12, 12]) == (small > 0)


@pytest.mark.parametrize("at", [0, 5 << 21, (3 << 30) + 7])
def test_a_share_ends_just_before_its_number(at):
    state = registry.load("paging", "linux").start({})
    vaddr = np.int64(_linear.DIRECT_MAP + at)
    piece, gib = ((int(vaddr) >> log) % (1 << bits) * 2654435769 % (1 << 32) for log, bits in ((21, 28), (30, 24)))
    for giant, small, order in ((gib, piece, 21), (gib, piece + 1, 12), (gib + 1, piece, 30)):
        state.giant, state.small = giant, small
        assert _linear.direct_order(state[0], vaddr) == order
        expected = 30 if order == 30 else 21
        assert _linear.measured_orders(state, np.array([vaddr]), np.array([21], np.uint8)).tolist() == [expected]
