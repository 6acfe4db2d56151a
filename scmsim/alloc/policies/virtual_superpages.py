"""Virtual superpages: 2 MiB of contiguous addresses over frames that need not be contiguous; the unused tail is freed at close.

Units: frames of 4096 bytes.  Source: VSM paper, sections III.A (mapping by a 4-level page table, so one entry per 4 KiB) and III.C
(zero-copy migration: at close, unused frames of the last superpage are freed).  This is a reconstruction: the source code is not
public.
"""

from scmsim.alloc.frames import HUGE

SUMMARY = "virtual superpages of 2 MiB over frames of 4 KiB, the unused tail freed at close (VSM)"
SOURCE = "VSM paper, section III"
PARAMS = {"capacity": ("64GiB", "bytes", "size of the device")}


def rules(params):
    """Return the policy's rules for `scmsim.alloc.pages`: superpages whose frames are allocated as separate pieces."""
    return {"order": HUGE, "pieces": 1}
