"""Declare the hooks of the device under a page cache: by default they do nothing; on NAND, the NFTL binds them."""

from scmsim.jit import subroutine


@subroutine
def write(s, arena, out, at, units):
    """Handle the write of a run of units at offset `at`."""


@subroutine
def read(s, units):
    """Handle the read of a run of units."""


@subroutine
def place_old_unit(s, arena, out, at):
    """Handle a unit at offset `at` that was written before the trace."""


@subroutine
def table_entries(s):
    """Return how many fields the device's own table needs for the tracked units."""
    return 0
