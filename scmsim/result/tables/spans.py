"""90 % intervals of the figures of the comparison table: "3,698 (2,600 to 6,100)"."""

from scmsim.core.text import printable
from scmsim.result import intervals
from scmsim.result.run import Run
from scmsim.result.tables.figures import Row, number

# figure of `intervals.FIGURES` that a row is proportional to; other rows have no interval
FIGURES = {
    "instructions": "instructions",
    "loads + stores (TLB traffic)": "tlb_traffic",
    "dTLB first-level misses": "dtlb_l1_misses",
    "dTLB page walks": "dtlb_walks",
    "bytes stored: all": "pm_stored_bytes",
    "bytes stored": "pm_stored_bytes",
    "cache-line flushes": "flushes",
    "store fences": "fences",
    "time (estimate), ns": "estimated_ns_per_call",
    "write amplification: stored": "write_amplification",
    "bytes written by the program": "payload_written",
    "bytes read by the program": "payload_read",
}
_WIDE = 1.2  # high / low from which bounds have two digits
NOTE = (
    "figure (low to high): the 90 % interval from errors that were measured beside real kernels; --json has what each is from, "
    "docs/validation/intervals.md how often it holds"
)


def span(row: Row, run: Run) -> str:
    """Return a figure's interval in parentheses; "" for a row without one, or an absent figure."""
    value, name = row.value(run), FIGURES.get(row.label, "")
    found = run.intervals.get(name)
    if value is None or found is None:
        return ""
    low, high, whole = found.get("low"), found.get("high"), intervals.figure(run, name)
    if low is None or high is None or not whole or found["basis"] == intervals.EXACT:
        return f"({printable(found['basis'])})"
    wide = high > _WIDE * low
    return f"({_bound(low * value / whole, wide)} to {_bound(high * value / whole, wide)})"


def overlap(name: str, one: Run, other: Run) -> bool:
    """Return whether the intervals of a figure of two runs overlap, or one of them is unknown."""
    bounds = [(found.get("low"), found.get("high")) for found in (run.intervals.get(name, {}) for run in (one, other))]
    (a, b), (c, d) = bounds
    return a is None or b is None or c is None or d is None or (a <= d and c <= b)


def _bound(value: float, wide: bool) -> str:
    return number(float(f"{value:.2g}") if wide else value)
