"""Normal pages and superpages, each in its own region: a file moves to superpages once it outgrows a threshold.

Units: bytes; frames of 4096 bytes.  Source: SCMFS superpage paper (2013), section IV.A and IV.B: all files begin on normal pages;
the boundary between the regions is a mount option.  The paper does not state what happens when a region is full.  Here, a file that
finds no superpage stays on (or continues with) normal pages; a file that finds no normal page takes it from a superpage, as in the
model `scmfs-lp` (`lend`), and the superpage is whole again once all its pages are free.
"""

from scmsim.alloc.frames import HUGE

SUMMARY = "normal pages below a boundary, superpages of 2 MiB above it, files move at a threshold (SCMFS-LP)"
SOURCE = "SCMFS superpage paper (2013), section IV"
PARAMS = {
    "capacity": ("64GiB", "bytes", "size of the device"),
    "threshold": ("2MiB", "bytes", "length above which a file moves to superpages"),
    "superpages": ("75", "percent", "share of the device that is the superpage region; 0: no superpages"),
}


def rules(params):
    """Return the policy's rules for `scmsim.alloc.pages`, in frames; the boundary is rounded down to a superpage."""
    frames = params["capacity"] >> 12
    boundary = frames * (100 - min(params["superpages"], 100)) // 100 >> HUGE << HUGE
    large = {"super_order": HUGE, "super_zone": 1, "boundary": max(boundary, 1 << HUGE)}
    return {"threshold": params["threshold"] >> 12, **(large if params["superpages"] else {})}
