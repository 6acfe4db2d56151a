"""Darshan's counters of a file, counted call by call as darshan-runtime does (lib/darshan-posix.c of Darshan 3.5)."""

from collections import Counter

CLASSES = {"0_100": 100, "100_1K": 1024, "1K_10K": 10240, "10K_100K": 102400, "100K_1M": 1048576, "1M_4M": 4194304,
           "4M_10M": 10485760, "10M_100M": 104857600, "100M_1G": 1073741824, "1G_PLUS": float("inf")}  # fmt: skip
Call = tuple[str, int, int]  # "read" or "write", offset, length


def counters(calls: list[Call]) -> dict[str, int]:
    """The counters of reads and writes, by their names without POSIX_."""
    out: Counter[str] = Counter()
    for kind, past in (("READ", "READ"), ("WRITE", "WRITTEN")):
        last = 0
        for _, offset, length in (call for call in calls if call[0] == kind.lower()):
            out[f"SEQ_{kind}S"] += offset > last
            out[f"CONSEC_{kind}S"] += offset == last + 1
            last = offset + length - 1
            out[f"MAX_BYTE_{past}"] = max(out[f"MAX_BYTE_{past}"], last)
            out[f"BYTES_{past}"] += length
            out[f"{kind}S"] += 1
            out[f"SIZE_{kind}_" + next(name for name, most in CLASSES.items() if length <= most)] += 1
    common = Counter(length for _, _, length in calls)
    for k, (size, count) in enumerate(sorted(common.items(), key=lambda item: (-item[1], -item[0]))[:4], 1):
        out[f"ACCESS{k}_ACCESS"], out[f"ACCESS{k}_COUNT"] = size, count
    return dict(out)
