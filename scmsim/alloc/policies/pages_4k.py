"""Base pages alone, which every file system supports: no waste beyond the last page, one entry per 4 KiB.

Units: frames of 4096 bytes.  Source: SCMFS before its superpages; PMFS, NOVA: the file systems' base page.
"""

SUMMARY = "every file on pages of 4 KiB"
SOURCE = "SCMFS before its superpages; PMFS, NOVA: the file systems' base page"
PARAMS = {"capacity": ("64GiB", "bytes", "size of the device; whole pages are used")}


def rules(params):
    """Return the rules for `scmsim.alloc.pages`."""
    return {"order": 0}
