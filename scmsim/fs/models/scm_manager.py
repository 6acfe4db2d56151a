"""Models the SCM manager: files and memory objects in one buddy system of SCM, converted into each other without a copy.
Units: bytes, data objects of 512 bytes, metadata objects of 64 bytes, instructions.
Source: SCM manager paper ("Research on a software architecture for SCM"), sections 3 and 4; not public, so a reconstruction.
"""

from scmsim.fs.scm_manager import state
from scmsim.fs.scm_manager.operations import emit
from scmsim.fs.scm_manager.recipes import MANAGER, SITES
from scmsim.fs.scm_manager.state import space

__all__ = ["PARAMS", "SITES", "SOURCE", "SUMMARY", "emit", "space", "start"]

SUMMARY = "the SCM manager: files and memory objects from one buddy system; data objects of 512 bytes chained as in FAT"
SOURCE = "SCM manager paper, sections 3 and 4; costs in scm-manager.toml; a reconstruction"
PAGE_BYTES = 512  # of a data object
HOLES = False
MEMORY_OBJECTS = True  # malloc, free, mm_to_file, file_to_mm
PARAMS = {
    "capacity": ("64GiB", "bytes", "size of the SCM; the paper's board has 64MiB"),
    "boot": ("1MiB", "bytes", "the SCM driver's boot area"),
    "mm": ("0B", "bytes", "the SCM driver's area for the kernel's memory manager"),
    "fs": ("0B", "bytes", "the SCM driver's area for a file system"),
    "first_objects": ("2", "objects", "data objects that a new file gets at once (the paper: several)"),
}


def start(params, files):
    """State of an empty SCM manager that knows the trace's files (see state.start)."""
    return state.start(params, files, kind=MANAGER, shift=9)
