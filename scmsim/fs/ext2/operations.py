"""Operations of ext2: those of Linux's file systems, with pointer blocks and without a journal, by two drivers."""

from scmsim.fs.ext2 import dirs, ext4_driver, map, metadata
from scmsim.fs.ext2 import goals as own_goals
from scmsim.fs.ext2 import inodes as waiting_inodes
from scmsim.fs.ext2 import transfer as ext2_transfer
from scmsim.fs.ext4 import dirs as hashed_dirs
from scmsim.fs.linux import (
    driver,
    entries,
    goals,
    index,
    inodes,
    lookups,
    orlov,
    pages,
    placement,
    preallocation,
    transfer,
)
from scmsim.fs.linux import metadata as linux_metadata
from scmsim.jit import calling, kernels_of
from scmsim.jit.binding import bind

HOOKS = {
    entries: dirs.HOOKS, index: map.HOOKS, inodes: orlov.HOOKS, linux_metadata: metadata.HOOKS, transfer: ext2_transfer.HOOKS,
    placement: preallocation.HOOKS, preallocation: {"HAS_EXTENTS": False}, goals: own_goals.HOOKS,
    pages: {"AT_SAME_SIZE": False},
}  # fmt: skip
BY_EXT4 = {
    entries: hashed_dirs.HOOKS,
    inodes: {**orlov.HOOKS, **waiting_inodes.HOOKS, "note_change": ext4_driver.note_change},
    linux_metadata: ext4_driver.HOOKS,
    index: {**map.HOOKS, "reach": ext4_driver.reach, "piece_after": ext4_driver.piece_after},
    lookups: {"forget": ext4_driver.forget_hole, "drop": ext4_driver.drop_hole},
    pages: {},
}
emit = driver.emitter(bind("ext2", driver, HOOKS))
emit_by_ext4 = driver.emitter(bind("ext2_by_ext4", driver, HOOKS | BY_EXT4))


@calling(*kernels_of(emit), *kernels_of(emit_by_ext4))
def emit_by_either(state, arena, ops, i, out):
    """Run the emit of the driver that the state was built for: only ext4's driver keeps a ring of freed inodes."""
    return (emit_by_ext4 if state[0]["recent_room"] else emit)(state, arena, ops, i, out)
