"""Tailored page sizes: a file is cut into pages of powers of two, each aligned in the file and on the device.

Units: frames of 4096 bytes.  Source: Guvenilir and Patt, Tailored Page Sizes, ISCA 2020 (thesis, University of Maine, 2020,
1.2.4): all sizes 2**n from n = 12 on; `exact` takes no frame that the file does not need, `doubling` reserves frames so that a
file has few pages.  The use by a file system is an assumption: the paper is about programs' memory.
"""

SUMMARY = "tailored page sizes: every power of two from 4 KiB to 1 GiB"
SOURCE = "Guvenilir and Patt, Tailored Page Sizes, ISCA 2020"
PARAMS = {
    "capacity": ("64GiB", "bytes", "size of the device"),
    "sizing": ("exact", "exact|doubling", "exact: only what is needed; doubling: a growing file doubles"),
}


def rules(params):
    """Return the rules for `scmsim.alloc.pages`."""
    return {"sizing": 1 if params["sizing"] == "exact" else 2}
