"""Read the guest's report on mapped files: page faults of each region by outcome, and the files' extents (guest.h)."""

import struct

import numpy as np

FAULTS = np.dtype([(name, "<u8") for name in ("faults", "large", "major", "bus", "segv")])
EXTENT = np.dtype(
    [
        ("file", "<u4"), ("flags", "<u4"), ("logical", "<u8"), ("physical", "<u8"), ("length", "<u8"), ("tag", "<i8"),
    ]
)  # fmt: skip  # tag: `buffer` of the operation that requested the extent
HEAD = struct.Struct("<4Q")  # whether sizes of page-table entries are known, counts of regions and extents, unused
MOST = 64 << 20  # maximum bytes of the report


def read(raw: bytes) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return (faults by region, where region 0 is uncounted work; extents; whether sizes of page-table entries are known)."""
    told, regions, extents, _ = HEAD.unpack_from(raw)
    faults = np.frombuffer(raw, FAULTS, regions, HEAD.size)
    return faults, np.frombuffer(raw, EXTENT, extents, HEAD.size + faults.nbytes), bool(told)


def counters(of: np.ndarray, told: bool) -> dict[str, int]:
    """Return the fault counters of a region; page-table entries are counted by size only if sizes are known (`told`)."""
    faults, large, major = (int(of[name].sum()) for name in ("faults", "large", "major"))
    found = {"page_faults": faults, "page_faults_major": major}
    if told:
        found |= {"page_faults_pte": faults - large, "page_faults_pmd": large}
    return found
