"""Tailored page sizes: a file has pages of any power of two, each aligned to its size in the file and on the device.

Units: frames of 4096 bytes.  Source: Guvenilir and Patt, Tailored Page Sizes, ISCA 2020 (thesis, University of Maine, 2020,
1.2.4): all sizes of 2**n bytes from n = 12 on.  `exact` takes only frames that the file needs; `doubling` reserves more frames so
that the file has few pages.  Use by a file system is an assumption: the paper is about the memory of programs.
"""

SUMMARY = "tailored page sizes: every power of two from 4 KiB to 1 GiB"
SOURCE = "Guvenilir and Patt, Tailored Page Sizes, ISCA 2020"
PARAMS = {
    "capacity": ("64GiB", "bytes", "size of the device"),
    "sizing": ("exact", "exact|doubling", "exact: only what is needed; doubling: a growing file doubles"),
}


def rules(params):
    """Return the policy's rules for `scmsim.alloc.pages`: the sizing, 1 for exact, 2 for doubling."""
    return {"sizing": 1 if params["sizing"] == "exact" else 2}
