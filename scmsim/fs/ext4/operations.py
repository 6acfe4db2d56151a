"""Bind ext4's extents, hashed directories and journal to the operations that all Linux file systems share.

`emit` serves ext4 and ext4-dax, `emit_by_dax_io` serves ext4-dax of kernels before iomap.
"""

from scmsim.fs.ext4 import dax_io, delayed, dirs, extents, jbd2, known
from scmsim.fs.linux import delayed as linux_delayed
from scmsim.fs.linux import (
    driver,
    entries,
    index,
    inodes,
    lookups,
    metadata,
    orlov,
    pages,
    placement,
    preallocation,
    transfer,
)
from scmsim.jit.binding import bind

HOOKS = {
    linux_delayed: delayed.HOOKS, entries: dirs.HOOKS, index: extents.HOOKS, inodes: orlov.HOOKS, lookups: known.HOOKS,
    metadata: jbd2.HOOKS, placement: preallocation.JOURNAL_HOOKS, pages: {"FROM_END": True}, transfer: {"WHOLE_REQUESTS": True},
}  # fmt: skip
emit = driver.emitter(bind("ext4", driver, HOOKS))
emit_by_dax_io = driver.emitter(bind("ext4_dax_io", driver, HOOKS | dax_io.HOOKS))
