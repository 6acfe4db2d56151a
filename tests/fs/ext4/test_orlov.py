"""The choice of inodes and groups beside the reference of ext4's, which is exact to a real kernel (layout_cases.py)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.fs.engine.events import new_state
from scmsim.fs.ext4.state import STATE
from scmsim.fs.linux import descriptors, hashing, orlov
from scmsim.fs.linux import state as e
from tests.conftest import NO_JIT
from tests.reference.ext4_layout.hashing import half_md4, seed_of
from tests.reference.ext4_layout.inodes import Inodes
from tests.reference.ext4_layout.mballoc import Mballoc
from tests.reference.ext4_layout.mkfs import Disk, Group, Mkfs
from tests.verification import layout_histories, layout_models

GROUP = 32768
OPTIONS = Mkfs(1 << 30)


class Home:
    """A directory of the reference."""

    def __init__(self, number, group, is_root=False):
        self.number, self.group, self.is_root, self.last_group = number, group, is_root, None


class Both:
    """A model's record and the reference, with groups of `inodes` inodes; the root is directory 0."""

    def __init__(self, groups, inodes, flex):
        options = Mkfs(1 << 30, flex_groups=flex) if flex > 1 else Mkfs(1 << 30).without("flex_bg")
        disk = Disk(options, groups * GROUP, 0, GROUP, inodes, 1, 1, 0)
        disk.groups = [Group(bytearray(GROUP), inodes, block_uninit=False) for _ in range(groups)]
        disk.groups[0].free_inodes, disk.groups[0].directories = inodes - 11, 2
        self.blocks = Mballoc(disk)
        self.inodes = Inodes(disk, self.blocks, seed_of(options.hash_seed))
        self.state = new_state(STATE, 1 << 16, np.zeros((1, 4), np.int64))
        self.s, self.arena = self.state.record[0], self.state.arena
        s = self.s
        s.arena_top, s.rows, s.row_count = 4096, 16, 1
        s.group_count, s.group_inodes, s.flex_shift = groups, inodes, flex.bit_length() - 1
        s.group_table = s.arena_top
        s.arena_top += groups * orlov.mballoc.GROUP_WORDS
        descriptors.attach(s, self.arena, np.full(groups, GROUP))
        self.folders = [(self._record(2), Home(2, 0, is_root=True))]
        self.arena[s.rows] = self.folders[0][0]
        self.files = []

    def _record(self, number):
        at, self.s.arena_top = int(self.s.arena_top), self.s.arena_top + 32
        self.arena[at + e.INODE] = number
        return at

    def make(self, folder, name, is_dir):
        """Take an inode on both sides, and compare the numbers."""
        record, home = self.folders[folder % len(self.folders)]
        number, group = self.inodes.take(home, name, is_dir)
        assert int(orlov.take(self.s, self.arena, record, is_dir, hashing.half_md4(name.encode()))) == number
        self.files.append((number, is_dir))
        if is_dir:
            self.folders.append((self._record(number), Home(number, group)))

    def remove(self, which):
        """Free the inode of a file."""
        plain = [one for one in self.files if not one[1]]
        if plain:
            number, _ = plain[which % len(plain)]
            self.files.remove((number, False))
            self.inodes.give(number, False)
            free_inode(self.s, self.arena, number)

    def fill(self, group, count):
        """Use blocks of a group."""
        group %= len(self.blocks.groups.all)
        free = self.blocks.groups.all[group]
        count = min(count, free.disk_free)
        if count:
            self.blocks.groups.mark_disk(group, GROUP - free.disk_free, count)
            self.blocks.free.add(-count)
            descriptors.count_blocks(self.s, self.arena, group * GROUP, count, -1)


@orlov.kernel
def free_inode(s, arena, number):
    """Free an inode that is no directory's."""
    descriptors.count_inode(s, arena, (number - 1) // s.group_inodes, False, 1)
    orlov.make_available(s, arena, number)


NAMES = st.text(st.characters(codec="latin-1", exclude_characters="/\0"), min_size=1, max_size=70)
STEPS = st.one_of(
    st.tuples(st.just("make"), st.integers(0, 9), NAMES, st.booleans()),
    st.tuples(st.just("make"), st.just(0), NAMES, st.booleans()),
    st.tuples(st.just("remove"), st.integers(0, 99)),
    st.tuples(st.just("fill"), st.integers(0, 20), st.integers(1, GROUP)),
)


@settings(max_examples=30 if NO_JIT else 400, deadline=None)
@given(
    groups=st.integers(1, 13), inodes=st.sampled_from([16, 40, 200]), flex=st.sampled_from([1, 2, 4]),
    steps=st.lists(STEPS, max_size=120),
)  # fmt: skip
def test_inodes_equal_the_reference(groups, inodes, flex, steps):
    """Whatever the directories, until every inode is used."""
    both = Both(groups, inodes, flex)
    for name, *rest in steps:
        if name == "make" and both.inodes.free.exact == 0:
            assert both.s.free_inode_count == both.s.fresh_inodes == 0
            break
        getattr(both, name)(*rest)


@given(NAMES)
def test_hash_of_a_name(name):
    expected = half_md4(name.encode(), seed_of(OPTIONS.hash_seed))[0]
    assert hashing.half_md4(name.encode()) == expected


@pytest.mark.parametrize("seed", range(1, 3 if NO_JIT else 9))
def test_directories_of_a_random_history(seed):
    """Every inode of a history of many directories, on devices of up to two flex groups."""
    history = layout_histories.make("names", seed)
    expected, found = layout_models.of_reference(history), layout_models.of_model("ext4-dax", history)
    assert {path: found[path][0] for path in expected} == {path: shown[0] for path, shown in expected.items()}
