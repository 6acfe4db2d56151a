"""Lines of footprints between events: equal to the reference, which is given every line in order."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.cache import state
from scmsim.cache.replay import OBJECTS, WALKS, simulate_touched
from scmsim.core.records import KERNEL, SLICE
from scmsim.mmu.state import LOGGED
from tests.cache.machines import cache, events
from tests.reference.cache_slow import Hierarchy

TABLES = [cache(4, 2), cache(8, 4), cache(16, 4)]
BLOCKS = st.lists(
    st.tuples(
        st.integers(0, 3), st.integers(1, (1 << 64) - 1), st.booleans(), st.sampled_from([0, 0, 1, 126, 127, 129])
    ),
    min_size=1,
    max_size=5,
)
SLICES = st.lists(
    st.tuples(*(st.integers(0, most) for most in (9, 4, 4, 9, 2))), max_size=8
)  # event, chunks, number of the objects, page of the metadata block
COMMITTED = 1 << 40  # address of the metadata blocks
WALKED = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 60)), max_size=20)


def lines_of(block: tuple, inode: int, opening: int, made: int, directory: int) -> list[int]:
    """Return the lines of a block.

    They are of its page, of the directory block or a new page of the call, or of an object, which begins 17 lines further each.
    """
    page, mask, _, kind = block
    bits = [bit for bit in range(64) if mask >> bit & 1]
    if not kind or kind == 126:
        return [64 * (directory if kind and directory else page) + bit for bit in bits]
    if kind == 127:
        return [OBJECTS + (kind * 2**24 + 16 * made + page) * 64 + bit for bit in bits]
    number = opening if kind >= 128 else inode
    return [OBJECTS + (kind * 2**24 + number) * 64 + (bit + 17 * number) % 64 for bit in bits]


@settings(deadline=None, max_examples=100)
@given(
    BLOCKS,
    st.lists(st.integers(0, 9), min_size=5, max_size=20),
    SLICES,
    st.integers(1, 10),
    WALKED,
    st.sets(st.integers(0, 9)),
    st.booleans(),
)
def test_lines_come_before_their_event(
    blocks: list[tuple],
    which: list[int],
    slices: list[tuple],
    count: int,
    walks: list[tuple[int, int]],
    commits: set[int],
    sums: bool,
) -> None:
    table = np.zeros(len(blocks), state.BLOCK)
    for row, (page, mask, store, kind) in zip(table, blocks, strict=True):
        row["vaddr"], row["lines"], row["store"], row["cache"] = page if kind == 127 else 4096 * page, mask, store, kind
    which = [each % len(blocks) for each in which]
    bounds = np.arange(len(which) + 1)
    cut = np.zeros(len(slices), SLICE)
    ordered = sorted((event % count, min(a, b), max(a, b), *rest) for event, a, b, *rest in slices)
    for row, (event, first, end, number, directory) in zip(cut, ordered, strict=True):
        row["event"], row["first"], row["end"], row["objects"] = event, first, end, (number, number + 1)
        row["block"] = 4096 * directory
    accesses = [("load" if k % 2 or k in commits else "store", 64 * 7 * k) for k in range(count)]
    read = sorted(((event % count, line) for event, line in walks), key=lambda walk: walk[0])
    walked = np.array(read, LOGGED) if read else np.zeros(0, LOGGED)
    slow, made = Hierarchy(TABLES, True), 0  # calls so far that filled new pages
    for k, (kind, at) in enumerate(accesses):
        fills = 0
        of_event = [piece for piece in ordered if piece[0] == k]
        if sums and k in commits and of_event and of_event[0][4]:  # the checksum of a block that the call commits
            slow.access(at // 64, kind)
        for event, first, end, number, directory in ordered:
            for touch in which[first:end] if event == k else ():
                fills |= blocks[touch][3] == 127
                for line in lines_of(blocks[touch], number, number + 1, made, directory):
                    slow.access(line, "store" if blocks[touch][2] else "load")
        made += fills
        for _, line in (walk for walk in read if walk[0] == k):
            slow.look_up(WALKS + line, "walk")
        slow.access(at // 64, kind)
    caches, counts = state.build(TABLES), np.zeros(3, state.ROW)
    caches.record["sums_commits"] = sums
    table["row"] = 1
    rows = np.zeros(count, np.int64)
    stream = events([(kind, at, 1) for kind, at in accesses])
    stream["op"] = np.arange(count) + 1
    stream["space"] = KERNEL
    stream["addr"] = [COMMITTED if k in commits else 0 for k in range(count)]
    touched = bounds, np.array(which, np.uint32), table
    simulate_touched(caches.record, caches.arena, counts, touched, cut, walked, stream, rows, rows)
    found = dict(zip(state.COLUMNS, counts["at"].sum(axis=0).tolist(), strict=True))
    assert {name: n for name, n in found.items() if n} == {name: n for name, n in slow.counts.items() if n}
    summed = sums * sum(k in commits and next((one[4] for one in ordered if one[0] == k), 0) > 0 for k in range(count))
    assert (
        counts["at"][0, 0] + counts["at"][0, state.PER_SIDE] == count + summed
    )  # the others are in the row of the blocks
