"""Blocks that a transaction freed, beside the reference of ext4's allocator: the order of groups in their lists after a commit."""

import random

import pytest

from scmsim.alloc import mballoc as m
from scmsim.alloc import mballoc_freed as freed
from tests.fs import drive
from tests.reference.ext4_layout import mkfs
from tests.reference.ext4_layout.groups import Groups

GIB = 1 << 30


def orders(record, arena, field):
    """Return, for each order, the groups of its list in order."""
    rows = arena[record.group_table :][: record.group_count * m.GROUP_WORDS].reshape(-1, m.GROUP_WORDS)
    found = [[] for _ in range(m.ORDERS)]
    for group in sorted(range(len(rows)), key=lambda group: rows[group, field + 1]):
        if rows[group, field] >= 0:
            found[rows[group, field]].append(group)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_a_commit_frees_runs_in_the_order_of_the_reference(seed):
    """Runs of random groups, some of which continue others; each commit is compared."""
    draw = random.Random(seed)
    model = drive.Model("ext4-dax", drive.files(), capacity=2 * GIB)
    record, arena = model.state.record[0], model.state.arena
    reference, transaction = Groups(mkfs.make(mkfs.Mkfs(2 * GIB)), True), 1
    taken = []
    for _ in range(300):
        group, count = draw.randrange(3, 6), draw.choice([1, 2, 16, 500, 4096])
        info = reference.load(group)
        m.load(record, arena, group)
        at = info.buddy.used.find(bytes(count))
        if at >= 0 and draw.random() < 0.6:
            m.mark_used(record, arena, (group << m.GROUP_SHIFT) + at, count)
            reference.take(group, at, count)
            reference.mark_disk(group, at, count)
            taken += [(group, at + i, min(count, i + 8) - i) for i in range(0, count, 8)][:40]
        elif taken:
            group, at, count = taken.pop(draw.randrange(len(taken)))
            freed.release_at_commit(record, arena, (group << m.GROUP_SHIFT) + at, count)
            reference.free_later((group << m.GROUP_SHIFT) + at, count, transaction)
        if draw.random() < 0.1:
            freed.commit(record, arena)
            reference.commit(transaction)
            transaction += 1
            assert orders(record, arena, m.LARGEST) == reference.by_largest
            assert orders(record, arena, m.AVERAGE) == reference.by_fragment
            assert record.freed_run_count == record.freed_blocks == 0


def test_more_runs_than_the_list_holds_become_free_too():
    model = drive.Model("ext4-dax", drive.files(), capacity=2 * GIB)
    record, arena = model.state.record[0], model.state.arena
    first, count = 3 << m.GROUP_SHIFT, 2 * m.MOST_FREED_RUNS + 10
    before = int(record.free_blocks)
    m.mark_used(record, arena, first, 2 * count)
    for i in range(count):
        freed.release_at_commit(record, arena, first + 2 * i, 1)
    assert record.freed_blocks == count and record.freed_run_count == m.MOST_FREED_RUNS
    freed.commit(record, arena)
    assert int(record.free_blocks) == before - count
