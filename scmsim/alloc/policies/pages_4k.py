"""Base pages of 4 KiB alone, as every file system supports: one page-table entry per page, no waste except in the last page.

Units: frames of 4096 bytes.  Source: SCMFS before it had superpages; the base page of PMFS and NOVA.
"""

SUMMARY = "every file on pages of 4 KiB"
SOURCE = "SCMFS before its superpages; PMFS, NOVA: the file systems' base page"
PARAMS = {"capacity": ("64GiB", "bytes", "size of the device; whole pages are used")}


def rules(params):
    """Return the policy's rules for `scmsim.alloc.pages`: the page size as log2 of frames."""
    return {"order": 0}
