"""Models SCMFS with superpages: files begin on pages of 4 KiB and migrate to 2 MiB superpages of a region of their own.
Units: bytes, pages and blocks of 4096 bytes, nanoseconds.
Source: Qiu and Reddy, Exploiting superpages in a nonvolatile memory file system (2013), III to IV; a reconstruction.
"""

from scmsim.fs.contiguous import state
from scmsim.fs.contiguous.move import collect
from scmsim.fs.contiguous.operations import emit
from scmsim.fs.contiguous.recipes import SITES
from scmsim.fs.contiguous.state import space

__all__ = ["PARAMS", "SITES", "SOURCE", "SUMMARY", "collect", "emit", "space", "start"]

SUMMARY = "SCMFS with superpages (reconstruction): large files migrate from 4 KiB pages to a region of 2 MiB pages"
SOURCE = "Qiu and Reddy, Exploiting superpages in a nonvolatile memory file system, MSST 2013 (reconstruction)"
PAGING = "own"  # its own page tables
PARAMS = {
    "capacity": ("64GiB", "bytes", "size of the storage-class memory"),
    "normal_percent": ("50", "percent", "share of the device for normal pages: the boundary between the two regions"),
    "threshold": ("2MiB", "bytes", "a file that holds more than this is due for migration to superpages"),
    "tail": ("superpage", "superpage|normal", "where the rest behind the last whole 2 MiB of a large file goes"),
    "quiet": ("0ns", "time", "an open file without a write for this long counts as not being written"),
    "copy_rate": ("1GiB", "bytes", "bytes a second that the migration thread copies; writes to the file wait meanwhile"),
    "preallocate": ("64KiB", "bytes", "pages that a growing file gets beyond what it needs, at most 2MiB"),
    "null_files": ("64", "files", "unlinked files that are kept, with their range and first pages, for new files"),
    "collect_above": ("64MiB", "bytes", "unused pages (preallocated, null files) above which the collector frees them"),
    "collect_every": ("1s", "time", "least time between two runs of the collector"),
}  # fmt: skip


def start(params, files):
    """State of an empty file system that knows the trace's files (see state.start)."""
    return state.start(params, files)
