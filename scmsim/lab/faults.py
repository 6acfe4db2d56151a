"""What the guest told of its mapped files: faults of each region by outcome, and where files lie (struct output of guest.h)."""

import struct

import numpy as np

FAULTS = np.dtype([(name, "<u8") for name in ("faults", "large", "major", "bus", "segv")])
EXTENT = np.dtype(
    [
        ("file", "<u4"), ("flags", "<u4"), ("logical", "<u8"), ("physical", "<u8"), ("length", "<u8"), ("tag", "<i8"),
    ]
)  # fmt: skip  # tag: `buffer` of the operation that asked
HEAD = struct.Struct("<4Q")  # whether sizes are told, regions, extents, nothing
MOST = 64 << 20  # bytes


def read(raw: bytes) -> tuple[np.ndarray, np.ndarray, bool]:
    """(Faults by region, from the uncounted one on; extents; whether sizes of entries are told)."""
    told, regions, extents, _ = HEAD.unpack_from(raw)
    faults = np.frombuffer(raw, FAULTS, regions, HEAD.size)
    return faults, np.frombuffer(raw, EXTENT, extents, HEAD.size + faults.nbytes), bool(told)


def counters(of: np.ndarray, told: bool) -> dict[str, int]:
    """Counters of regions that touched mapped files; without the sizes of entries where they are not told."""
    faults, large, major = (int(of[name].sum()) for name in ("faults", "large", "major"))
    found = {"page_faults": faults, "page_faults_major": major}
    if told:
        found |= {"page_faults_pte": faults - large, "page_faults_pmd": large}
    return found
