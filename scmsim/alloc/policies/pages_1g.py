"""Pages of 1 GiB alone: the extreme case of equation 1 of the VSM paper.

Units: frames of 4096 bytes.  Source: VSM paper, section II.B.
"""

SUMMARY = "every file on pages of 1 GiB"
SOURCE = "VSM paper, section II.B"
PARAMS = {"capacity": ("64GiB", "bytes", "size of the device; whole pages are used")}


def rules(params):
    """Return the rules for `scmsim.alloc.pages`."""
    return {"order": 18}
