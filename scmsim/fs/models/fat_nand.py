"""Models FAT over an NFTL on NAND flash: pages of 512 bytes, erase units of 32 pages, replacement units that are folded.
Units: bytes, instructions.
Source: SCM manager paper, section 5; Linux 2.6.24 fs/fat, drivers/mtd/nftlcore.c; costs in fat-scm.toml.
"""

from scmsim.fs.scm_manager import state
from scmsim.fs.scm_manager.operations import emit
from scmsim.fs.scm_manager.recipes import FAT, SITES
from scmsim.fs.scm_manager.state import FAT_LARGEST_FILE as LARGEST_FILE
from scmsim.fs.scm_manager.state import space

__all__ = ["LARGEST_FILE", "PARAMS", "SITES", "SOURCE", "SUMMARY", "emit", "space", "start"]

SUMMARY = "FAT over an NFTL on NAND flash: page cache, pages of 512 bytes, erase units of 16 KiB with replacement units"
SOURCE = "SCM manager paper, section 5; Linux 2.6.24 fs/fat, drivers/mtd/nftlcore.c; costs in fat-scm.toml"
PAGE_BYTES = 512
HOLES = False
PARAMS = {
    "capacity": ("64GiB", "bytes", "size of the flash; the paper's board has 64MiB"),
    "mount": ("async", "async|sync", "sync: every change is written to the device before its call ends"),
    "page_cache": ("warm", "warm|cold", "cold: file data is read from the device each time, as after a reboot"),
    "replacements": ("1", "units", "erase units that may replace one before the chain is folded: 1 or 2"),
}


def start(params, files):
    """State of an empty file system that knows the trace's files (see state.start)."""
    return state.start(params, files, kind=FAT, shift=9, nand=True)
