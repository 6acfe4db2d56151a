"""Measured against replayed, every row: stored bytes, write-backs, fences, loads + stores, instructions per call.

Run: python -m tests.verification.validate [--markdown]   (prints all rows, worst first; about a minute)
Units of 512, 1 Ki, 16 Ki and 256 Ki are those that the costs were fitted to; structure (stored bytes, flushes) is not fitted.
"""

import sys

import scmsim
from tests.verification import cells

SYSTEMS = (
    tuple(sys.argv[1].split(","))
    if sys.argv[1:] and not sys.argv[1].startswith("-")
    else (
        "nova-cow",
        "nova-inplace",
        "ext4-dax",
        "ext4",
        "pmfs-4k",
        "tmpfs",
        "6.1:tmpfs",
        "6.1:ramfs",
        "ext2-dax",
        "6.1:ext2-dax",
        "6.1:ext2",
        "xfs-dax",
        "winefs",
        "winefs-relaxed",
        "4.4:ext4-dax-linux4",
        "4.4:ext4-linux4",
    )
)
# Ordering store fences of one call, from the source: a copy ends with one, NOVA's commit has two, an in-place update five in all.
LIMITS = {"stored": 0.02, "flushes": 0.05, "loads+stores": 0.10}


def compare(row: dict) -> dict:
    """One row: measured and replayed figures per call and their ratios."""
    params = {"linux": {"user_page": "2MiB"}, row["fs"]: cells.kernel(row)}
    run = scmsim.replay(cells.workload(row), fs=row["fs"], params=params).runs[0]
    per_call = {name: value / run.calls for name, value in run.counters.items()}
    measured = {
        "stored": row["pmstB_call"],
        "flushes": row["flush_call"],
        "loads+stores": row["ld_norep_call"] + row["st_norep_call"],
        "instructions": row["ins_call"],
    }
    replayed = {
        "stored": per_call["pm_stored_bytes"],
        "flushes": per_call["flushes"],
        "loads+stores": per_call["mem_inst_retired_all_loads"] + per_call["mem_inst_retired_all_stores"],
        "instructions": per_call["instructions"],
    }
    error = {name: _error(replayed[name], measured[name]) for name in measured}
    return {**row, "measured": measured, "replayed": replayed, "error": error, "fences": per_call["fences"]}


def _error(replayed: float, measured: float) -> float:
    """Relative error; 0 where both are (nearly) nothing, e.g. the stored bytes of a read."""
    if abs(measured) < 0.5 and abs(replayed) < 0.5:
        return 0.0
    return replayed / measured - 1 if measured else float("inf")


def badness(row: dict) -> float:
    """How far the row is from its limits: 1 is the limit of its worst figure."""
    return max(abs(row["error"][name]) / limit for name, limit in LIMITS.items())


def line(row: dict) -> str:
    """One row of the Markdown table."""
    m, r, e = row["measured"], row["replayed"], row["error"]
    figures = [
        f"{m[k]:,.1f} | {r[k]:,.1f} | {100 * e[k]:+.1f} %"
        for k in ("stored", "flushes", "loads+stores", "instructions")
    ]
    verdict = "ok" if badness(row) <= 1 else "**out**"
    name = f"{row['fs']} ({row['kernel']})" if "kernel" in row else row["fs"]
    head = f"| {name} | {row['op']} | {int(row['unit'])} | {verdict} | "
    return head + " | ".join(figures) + f" | {row['fence_call']:.1f} | {row['fences']:.1f} |"


def main() -> None:
    """Print every row, worst first, and the summary."""
    rows = sorted((compare(row) for row in cells.measured(*SYSTEMS)), key=badness, reverse=True)
    parts = ("stored B", "flushes", "loads + stores", "instructions")
    print("| fs | pass | unit | | " + " | ".join(f"{p} measured | replayed | error" for p in parts), end="")
    print(" | fence instructions measured | ordering fences replayed |")
    print("|" + "---|" * (4 + 3 * len(parts) + 2))
    for row in rows:
        print(line(row))
    inside = sum(badness(row) <= 1 for row in rows)
    print(
        f"\n{inside} of {len(rows)} rows within limits (stored 2 %, flushes 5 %, loads + stores 10 %)", file=sys.stderr
    )


if __name__ == "__main__":
    main()
