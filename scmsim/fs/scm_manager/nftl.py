"""Model the NFTL under FAT on NAND: erase units whose rewritten pages go to replacement units.

Each page of an erase unit (32 pages) is written once; a rewritten page goes to a replacement unit in the chain of the
erase unit. If the chain may not grow, or no unit is spare, the chain is folded: pages outside its last unit are copied
there, and the other units are erased.
Source: Linux 2.6.24 drivers/mtd/nftlcore.c (NFTL_findwriteunit, NFTL_foldchain, NFTL_makefreeblock).
"""

import numpy as np

from scmsim.fs.engine import table
from scmsim.fs.engine.events import emit_template
from scmsim.fs.scm_manager import state, templates
from scmsim.jit import subroutine

# SLOTS of the FAT's row has two words per erase unit: how often each page was written; number of units in its chain.
BITS, ALL = 2, 0x5555555555555555  # bits per page in its erase unit's field; the field if every page was written once
_ONE, _MASK = np.int64(1), np.int64(3)  # not int: in kernels run as plain Python, the int 3 << 62 does not fit an int64


@subroutine
def fold(s, arena, out, at, unit):
    """Fold the chain of an erase unit, whose two fields are at `at`, into its last unit (NFTL_foldchain)."""
    pages, length, copies = arena[at], arena[at + 1], 0
    for page in range(templates.PAGES):
        times = (pages >> BITS * page) & 3
        if times > 0:
            # Pages whose newest copy is not in the last unit of the chain are copied there.
            copies += times != length
            pages = (pages & ~(_MASK << BITS * page)) | _ONE << BITS * page
    arena[at], arena[at + 1] = pages, 1
    s.reg[templates.FOLD_AT] = unit * templates.PAGES * templates.SECTOR
    s.reg[templates.FOLD_BYTES] = copies * templates.SECTOR
    s.reg[templates.FOLDED], s.reg[templates.ERASED] = copies, length - 1
    emit_template(s, out, templates.FOLD)
    s.spare += length - 1
    s.folds += 1
    s.erases += length - 1
    s.page_reads += copies
    s.page_programs += copies


@subroutine
def spare_unit(s, arena, out, chains):
    """Make a unit spare: fold the next chain that has a replacement unit (NFTL_makefreeblock)."""
    units = (1 << arena[s.table + state.SLOTS + table.ORDER]) >> 1
    for _ in range(units):
        s.fold_cursor = (s.fold_cursor + 1) % units
        if arena[chains + 2 * s.fold_cursor + 1] > 1:
            fold(s, arena, out, chains + 2 * s.fold_cursor, s.fold_cursor)
            return


@subroutine
def program(s, arena, out, sector):
    """Program the page of a written sector, in its erase unit or in a replacement unit (NFTL_findwriteunit)."""
    unit, page, chains = sector // templates.PAGES, sector % templates.PAGES, arena[s.table + state.SLOTS]
    at = chains + 2 * unit
    if arena[at + 1] == 0:
        made = unit * templates.PAGES * templates.SECTOR < s.table_at + 2 * s.table_bytes  # written by mkdosfs
        arena[at], arena[at + 1] = ALL if made else 0, 1
    if (arena[at] >> BITS * page) & 3 > s.replacements:
        fold(s, arena, out, at, unit)
    times = (arena[at] >> BITS * page) & 3
    # Every unit of the chain already holds a copy of this page, so the chain needs another unit.
    if times == arena[at + 1]:
        if s.spare == 0:
            spare_unit(s, arena, out, chains)
            times = (arena[at] >> BITS * page) & 3
        s.spare -= 1
        arena[at + 1] += 1
    arena[at] = (arena[at] & ~(_MASK << BITS * page)) | (_ONE + times) << BITS * page
    s.page_programs += 1


@subroutine
def write(s, arena, out, at, units):
    """Program each sector of the run."""
    for sector in range(at // templates.SECTOR, at // templates.SECTOR + units):
        program(s, arena, out, sector)


@subroutine
def read(s, units):
    """Count one page read per unit."""
    s.page_reads += units


@subroutine
def place_old_unit(s, arena, out, at):
    """Program a page that was written once before counting began."""
    program(s, arena, out, at // templates.SECTOR)
    s.page_programs -= 1


@subroutine
def table_entries(s):
    """Return the number of fields in the NFTL's table: two per erase unit."""
    return 2 * (s.origin // (templates.SECTOR * templates.PAGES) + s.tracked // templates.PAGES + 2)


HOOKS = {"write": write, "read": read, "place_old_unit": place_old_unit, "table_entries": table_entries}
