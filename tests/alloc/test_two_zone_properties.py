"""The allocator of two zones against a slow one: superpages as a list, normal blocks as a set."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.alloc import first_fit, two_zone
from scmsim.fs.engine.events import HEADER, new_state
from tests.conftest import NO_JIT

STATE = np.dtype((np.record, [*HEADER, *two_zone.FIELDS]))
RESERVED, BLOCKS, LISTS, ROOM = 100, 4096 * 4 + 700, 4, 40
SUPER = two_zone.SUPERPAGE

actions = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["alloc", "free", "expand", "shrink"]), st.integers(0, LISTS - 1), st.integers(0, 12)),
        st.tuples(st.just("lend"), st.just(0), st.just(0)),
        st.tuples(st.just("take"), st.just(0), st.integers(1, 3000)),
    ),
    max_size=30,
)  # fmt: skip


class Zones:
    """Two zones and a few lists of superpages, as a file would hold them."""

    def __init__(self, percent):
        self.boundary = two_zone.boundary_of(RESERVED, BLOCKS, percent)
        words = two_zone.arena_words(BLOCKS, self.boundary) + LISTS * ROOM + 64
        self.state = new_state(STATE, words, np.zeros((1, 4), np.int64))
        two_zone.attach(self.state, RESERVED, BLOCKS, self.boundary)
        self.where = int(self.state.record.arena_top[0])
        self.normal = set(range(RESERVED, self.boundary))
        self.supers = [self.boundary + k * SUPER for k in range((BLOCKS - self.boundary) // SUPER)]
        self.lists: list[list[int]] = [[] for _ in range(LISTS)]
        self.lent = 0

    def do(self, action, i, count):
        s, arena, at, mine = self.state.record[0], self.state.arena, self.where + i * ROOM, self.lists[i]
        if action == "alloc" and not mine:
            got = two_zone.nvmalloc_superpage(s, arena, at, count)
            fits = count <= len(self.supers)
            assert got == (count if fits else 0)
            self.lists[i] = [self.supers.pop(0) for _ in range(got)]
        elif action == "free":
            two_zone.nvfree_superpage(s, arena, at, len(mine))
            self.supers, self.lists[i] = mine + self.supers, []
        elif action == "expand":
            wanted = min(len(mine) + count, ROOM)
            got = two_zone.nvmalloc_expand_superpage(s, arena, at, len(mine), wanted)
            assert got == (wanted if wanted - len(mine) <= len(self.supers) else len(mine))
            self.lists[i] = mine + [self.supers.pop(0) for _ in range(got - len(mine))]
        elif action == "shrink":
            assert two_zone.nvmalloc_shrink_superpage(s, arena, at, len(mine), count) == min(len(mine), count)
            self.supers, self.lists[i] = mine[count:] + self.supers, mine[:count]
        elif action == "lend":
            assert bool(two_zone.lend(s, arena)) == bool(self.supers)
            if self.supers:
                start, self.lent = self.supers.pop(0), self.lent + 1
                self.normal |= set(range(start, start + SUPER))
        elif action == "take" and self.normal:
            start, got = int(first_fit.allocate(s, arena, count)), int(s.got)
            assert start == min(self.normal) and set(range(start, start + got)) <= self.normal
            assert got == count or start + got not in self.normal
            self.normal -= set(range(start, start + got))

    def check(self):
        s, arena = self.state.record[0], self.state.arena
        for i, mine in enumerate(self.lists):
            assert arena[self.where + i * ROOM :][: len(mine)].tolist() == mine
        assert arena[s.stack : s.stack + s.free_supers].tolist()[::-1] == self.supers
        assert (int(s.free_blocks), int(s.lent)) == (len(self.normal), self.lent)
        assert two_zone.free_everywhere(s) == len(self.normal) + SUPER * len(self.supers)
        held = [block for mine in self.lists for block in mine] + self.supers
        assert len(set(held)) == len(held) and all((block - self.boundary) % SUPER == 0 for block in held)
        assert not any(set(range(block, block + SUPER)) & self.normal for block in held)


@settings(max_examples=10 if NO_JIT else 60, deadline=None)
@given(percent=st.sampled_from([1, 30, 50, 80, 100]), rows=actions)
def test_both_do_the_same(percent, rows):
    zones = Zones(percent)
    zones.check()
    for row in rows:
        zones.do(*row)
        zones.check()
    assert int(zones.state.record.supers[0]) == (BLOCKS - zones.boundary) // SUPER


def test_a_long_run_of_both_zones():
    random, zones = np.random.default_rng(1), Zones(50)
    for number in range(150):
        action = str(random.choice(["alloc", "free", "expand", "shrink", "lend", "take"]))
        zones.do(
            action,
            int(random.integers(0, LISTS)),
            int(random.integers(0, 13) if action != "take" else random.integers(1, 400)),
        )
        if number % 10 == 9:
            zones.check()


def test_the_boundary_is_where_it_was_asked_for():
    assert two_zone.boundary_of(100, 1 << 20, 50) == 1 << 19
    assert two_zone.boundary_of(100, 1 << 20, 100) == 1 << 20
    assert two_zone.boundary_of(5000, 1 << 20, 0) % two_zone.STEP == 0 and two_zone.boundary_of(5000, 1 << 20, 0) > 5000
    assert two_zone.boundary_of(100, 4096 + 511, 50) == 4096 + 511  # no room for a superpage


def test_the_boundary_is_behind_what_is_reserved():
    """At a multiple of 16 MiB, with a free block at least; without room for a superpage there is but one zone."""
    found = [two_zone.boundary_of(reserved, 1 << 20, 0) for reserved in (0, 4094, 4095, 4096)]
    assert found == [4096, 4096, 4096, 8192]
    assert [two_zone.boundary_of(100, blocks, 100) for blocks in (8192, 8192 + 512)] == [8192, 8704]
    assert [two_zone.boundary_of(100, blocks, 50) for blocks in (4096 + 511, 4096 + 512)] == [4096 + 511, 4096]
