"""Pages of 1 GiB alone: the most waste by equation 1 of the VSM paper.

Units: frames of 4096 bytes.  Source: VSM paper, section II.B.
"""

SUMMARY = "every file on pages of 1 GiB"
SOURCE = "VSM paper, section II.B"
PARAMS = {"capacity": ("64GiB", "bytes", "size of the device; whole pages are used")}


def rules(params):
    """Return the policy's rules for `scmsim.alloc.pages`: the page size as log2 of frames."""
    return {"order": 18}
