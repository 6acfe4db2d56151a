"""Models WineFS in strict mode: PMFS's trees, an alignment-aware allocator, a journal for each CPU, names indexed in DRAM.
Units: bytes, device blocks of 4096 bytes, instructions.
Source: WineFS (utsaslab/WineFS) Linux-5.1/fs/winefs; costs in pmfs-5.13.toml and winefs.toml: nothing measured on it.
"""

from scmsim.fs.winefs.operations import emit
from scmsim.fs.winefs.recipes import SITES
from scmsim.fs.winefs.state import space, start

__all__ = ["PARAMS", "SITES", "SOURCE", "SUMMARY", "emit", "space", "start"]

SUMMARY = (
    "WineFS, strict: aligned 2 MiB extents kept whole, overwrites copied (twice in aligned files), a journal a CPU"
)
SOURCE = (
    "WineFS fs/winefs (xip.c, balloc.c, journal.c, dir.c, inode.c, namei.c); costs of PMFS, measured on a 5.13.13 port"
)
PARAMS = {
    "capacity": ("64GiB", "bytes", "size of the persistent-memory device"),
    "cpus": ("4", "CPUs", "CPUs, each with a journal and a range of the device; thread t runs on CPU t modulo this"),
    "journal": ("1MiB", "bytes", "size of one CPU's undo journal (4 MiB in WineFS; here small devices shall do)"),
}
