"""Model FAT on the SCM driver: clusters of one sector chained in two FATs, inodes in directory entries, no holes.

A directory entry has 32 bytes, more for a name beyond 8.3 (13 characters each).
Source: Linux 2.6.24 fs/fat/{cache,dir,fatent,misc}.c, fs/vfat/namei.c; mkdosfs for devices of 64 MiB.
"""

from scmsim.core.errors import UsageError
from scmsim.core.records import Files
from scmsim.core.units import format_bytes
from scmsim.fs.engine import operations, table
from scmsim.fs.engine.events import State, emit_template
from scmsim.fs.scm_manager import cache, device, index, inodes, names, nftl, state, templates, units
from scmsim.fs.scm_manager import operations as shared
from scmsim.fs.scm_manager.index import place
from scmsim.jit import subroutine
from scmsim.jit.binding import bind

LARGEST_FILE = (1 << 32) - 1  # bytes (fat_fill_super: s_maxbytes)


@subroutine
def entries(length):
    """Return how many directory entries a name of `length` characters takes."""
    return 1 + (length + 12) // 13 * (length > 12)


@subroutine
def inode_changed(s, arena, out, row):
    """Store the inode, which is the entry of the file's newest name."""
    parent, slot = arena[row + state.PARENT], arena[row + state.SLOT]
    if parent == 0 or slot < 0:
        return
    i = slot * s.entry >> s.shift
    if table.get(arena, parent + state.BLOCKS, i) == 0:  # no block with the entry: the directory was removed
        return
    s.reg[templates.META] = place(arena, parent, i)
    cache.mark(s, arena, parent, i, 1)
    emit_template(s, out, templates.INODE_STORE)


@subroutine
def unnamed(s, arena, out, row):
    """Do nothing: the inode was removed with the entry."""


@subroutine
def read_entries(s, arena, out, row, unit):
    """Read into the cache the FAT sector with the last entry on the way to a unit."""
    cache.load_entry(s, arena, out, index.number(s, place(arena, row, unit)))


@subroutine
def flush_order(s, row):
    """Return the rows that an fsync writes back, in order: the FAT before the directory.

    The FAT has the lower block numbers, and sync_blockdev writes from the first block on (file_fsync, fs/buffer.c).
    """
    return row, s.table, s.directory, s.inodes


_HOOKS = {
    **shared.HOOKS,
    operations: {**shared.HOOKS[operations], "check_prefix": shared.check_prefix},
    cache: {"flush_order": flush_order},
    inodes: {"changed": inode_changed, "unnamed": unnamed},
    names: {"entries": entries},
    units: {"read_entries": read_entries},
}
emit = bind("fat", operations, _HOOKS).emit
emit_on_nand = bind("fat_on_nand", operations, {**_HOOKS, device: nftl.HOOKS}).emit


def start(params: dict, files: Files, *, nand: bool = False) -> State:
    """Return the state of an empty FAT: reserved sectors, two FATs, clusters; on NAND 1/32 of the erase units is spare."""
    made = templates.calls() | templates.cached(32, nand)
    built = state.build(params, files, "fat-scm", made, shift=9, entry=32, inode=0)
    record = built.record[0]
    if nand:
        _use_nand(record, params)
    usable = int(record.capacity) - int(record.spare) * templates.SECTOR * templates.PAGES
    record.table_at += 32 * templates.SECTOR
    record.table_bytes = record.mirror = state.up(usable // templates.SECTOR * templates.WORD, templates.SECTOR)
    state.add_blocks(built, int(record.table_at) + 2 * int(record.table_bytes), usable)
    return built


def _use_nand(record, params: dict) -> None:
    """Set the NFTL's parameters of the flash."""
    if params["replacements"] not in (1, 2):
        raise UsageError(
            f"replacements = {params['replacements']} is out of range; an erase unit has 1 or 2 replacement units"
        )
    if params["capacity"] > 16 << 40:
        raise UsageError(f"capacity {format_bytes(params['capacity'])} is too large for NAND; give 16TiB or less")
    record.most_written, record.replacements = 8, params["replacements"]
    record.spare = int(record.capacity) // (templates.SECTOR * templates.PAGES) // 32 or 1
