"""Normal pages and superpages from one region: shows that superpages run out if they have no region of their own.

Units: bytes; frames of 4096 bytes.  Source: the case that the SCMFS superpage paper (2013), section IV.A, argues against: as the
file system ages, no free superpage is left although enough space is free.
"""

from scmsim.alloc.frames import HUGE

SUMMARY = "normal pages and superpages of 2 MiB mixed in one region, files move at a threshold"
SOURCE = "SCMFS superpage paper (2013), section IV.A"
PARAMS = {
    "capacity": ("64GiB", "bytes", "size of the device"),
    "threshold": ("2MiB", "bytes", "length above which a file moves to superpages"),
}


def rules(params):
    """Return the policy's rules for `scmsim.alloc.pages`; `threshold` in frames, `super_order` as log2 of frames."""
    return {"threshold": params["threshold"] >> 12, "super_order": HUGE}
