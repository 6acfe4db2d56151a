"""What the device under a page cache does besides what is asked of it: nothing by itself, the NFTL's work on NAND."""

from scmsim.fs.scm_manager import recipes
from scmsim.jit import subroutine


@subroutine
def write(s, arena, out, at, units):
    """When a run of units at offset `at` is written."""


@subroutine
def read(s, units):
    """When a run of units is read."""


@subroutine
def settle(s, arena, out, at):
    """When a unit at offset `at` turns out to be from before the trace."""


@subroutine
def table_entries(s):
    """How many words the device's own table needs for the units that are tracked."""
    return recipes.ZERO + 0
