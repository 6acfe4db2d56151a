"""Superpages of 2 MiB alone: 512 times fewer page-table entries than base pages, and the waste of equation 1 of the VSM paper.

Units: frames of 4096 bytes.  Source: VSM paper, section II.B.
"""

SUMMARY = "every file on pages of 2 MiB"
SOURCE = "VSM paper, section II.B"
PARAMS = {"capacity": ("64GiB", "bytes", "size of the device; whole pages are used")}


def rules(params):
    """Return the policy's rules for `scmsim.alloc.pages`: the page size as log2 of frames."""
    return {"order": 9}
