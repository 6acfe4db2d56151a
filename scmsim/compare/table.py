"""Format a comparison as plain text: a line for each row, then cells that only one side has, the warnings and the verdict."""

from scmsim.compare import Comparison, Quantity, Row
from scmsim.compare.tolerances import FIXED, GIVEN, SAME
from scmsim.core.text import percent, printable
from scmsim.core.units import format_bytes
from scmsim.result.tables.figures import FEW, number

_HEAD = (
    "fs",
    "operation",
    "file",
    "unit",
    "quantity",
    "per",
    "{0}",
    "{1}",
    "ratio",
    "spread",
    "tolerance",
    "",
)  # {0}, {1}: names of the sides
_LEFT = (0, 1, 4, 5, 11)  # left-aligned columns
_SUMMARY_HEAD = ("quantity", "rows", "ok", "noisy", "out", "least ratio", "median", "most")
NO_INTERVAL = ("", GIVEN, SAME, FIXED)  # bases of a row's tolerance that are not measured cells
_MOST_WARNINGS = 20
_MOST_OUT = 20  # maximum number of rows in the list of rows that are out


def text(comparison: Comparison, rows: bool = True) -> str:
    """Return the comparison for a terminal; without `rows`, only the summary by quantity."""
    parts = [_grid(grid, left) for grid, left in tables(comparison, rows)]
    if not rows:
        parts += _out(comparison)
    for title, lines in lists(comparison).items():
        parts.append(f"{title}:\n" + "\n".join(f"  {line}" for line in lines))
    if comparison.warnings:
        more = len(comparison.warnings) - _MOST_WARNINGS
        lines = [f"warning: {printable(warning)}" for warning in comparison.warnings[:_MOST_WARNINGS]]
        parts.append("\n".join([*lines, *([f"and {more} more warnings; see --json"] if more > 0 else [])]))
    parts.append(summary(comparison))
    return "\n\n".join(parts)


def tables(comparison: Comparison, rows: bool = True) -> list[tuple[list[list[str]], tuple[int, ...]]]:
    """Return, for each table, (rows of strings of which the first is the head, left-aligned columns)."""
    found: list[tuple[list[list[str]], tuple[int, ...]]] = []
    if comparison.rows and rows:
        found.append(
            ([[word.format(*comparison.sides) for word in _HEAD], *(_cells(row) for row in comparison.rows)], _LEFT)
        )
    if len({row.key for row in comparison.rows}) > 1:
        found.append(([list(_SUMMARY_HEAD), *map(_quantity, comparison.quantities())], (0,)))
    return found


def _out(comparison: Comparison) -> list[str]:
    """Return a paragraph that lists the rows with verdict "out"."""
    rows = [row for row in comparison.rows if row.verdict == "out"]
    lines = [f"  {_difference(row, comparison.sides)}" for row in rows[:_MOST_OUT]]
    more = len(rows) - _MOST_OUT
    return ["\n".join(["out:", *lines, *([f"  and {more} more rows; see --json"] if more > 0 else [])])] if rows else []


def _difference(row: Row, sides: tuple[str, str]) -> str:
    ours, theirs = _figure(row.simulated, row.simulated_calls), _figure(row.measured, row.measured_calls)
    per = f" per {row.per}" if row.per else ""
    return f"{printable(str(row.key))}: {row.quantity} {ours} {sides[0]}, {theirs} {sides[1]}{per}, ratio {_ratio(row.ratio)}"


def lists(comparison: Comparison) -> dict[str, list[str]]:
    """Return lists by title: cells that only one side has, counters that a side lacks, bases of the tolerances."""
    first, second = comparison.sides
    sides = {f"only {first}": comparison.only_simulated, f"only {second}": comparison.only_measured}
    found = {side: [printable(str(key)) for key in keys] for side, keys in sides.items() if keys}
    if comparison.absent:
        lacking = comparison.absent.items()
        found["not compared"] = [f"{printable(name)}: not {' and not '.join(sides)}" for name, sides in lacking]
    bases = _bases(comparison)
    return {**found, "tolerances": bases} if bases else found


def _bases(comparison: Comparison) -> list[str]:
    """Return a line for each basis of the tolerances, with its quantities; [] if no tolerance is an interval."""
    found: dict[str, dict[str, None]] = {}
    for row in comparison.rows:
        found.setdefault(row.tolerance_basis, {})[row.quantity] = None
    if not found.keys() - set(NO_INTERVAL):
        return []
    return [
        f"{basis if basis in NO_INTERVAL else f'90 % interval from {basis}'}: {', '.join(map(printable, names))}"
        for basis, names in found.items()
        if basis
    ]


def summary(comparison: Comparison) -> str:
    """Return one line: the verdict, and the number of rows that support it."""
    counts = comparison.as_dict()["counts"]
    if comparison.verdict == "nothing in common":
        if not comparison.common:
            return (
                "nothing in common: no cell on both sides; simulate the cells that were measured, "
                "or try --ignore file or --fs OLD=NEW"
            )
        return (
            f"nothing in common: {comparison.common} cells on both sides, but none of the default counters in both (the "
            "software back end has none of them); try --events all"
        )
    if comparison.verdict == "nothing judged":
        return "nothing judged: no counter here has a tolerance; set one with --tolerance COUNTER=PERCENT"
    judged = counts["ok"] + counts["noisy"] + counts["out"]
    noisy = f", {counts['noisy']} too noisy to tell" if counts["noisy"] else ""
    return f"{comparison.verdict}: {counts['ok']} of {judged} rows within tolerance, {counts['out']} out{noisy}"


def _cells(row: Row) -> list[str]:
    sizes = ["" if size is None else format_bytes(size) for size in (row.key.file_bytes, row.key.unit_bytes)]
    percents = ["" if part is None else percent(part / 100) for part in (row.spread_percent, row.tolerance_percent)]
    if row.tolerance_ratios:
        percents[1] = f"{_ratio(row.tolerance_ratios[0])} to {_ratio(row.tolerance_ratios[1])}"
    return [
        row.key.fs,
        row.key.operation,
        *sizes,
        row.quantity,
        row.per,
        _figure(row.simulated, row.simulated_calls),
        _figure(row.measured, row.measured_calls),
        _ratio(row.ratio),
        *percents,
        row.verdict,
    ]


def _quantity(found: Quantity) -> list[str]:
    ratios = (found.least_ratio, found.median_ratio, found.most_ratio)
    return [found.quantity, *map(str, found[1:5]), *map(_ratio, ratios)]


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _figure(value: float, calls: float) -> str:
    """Format a figure; if it is a rate per call from fewer than FEW events, return their number instead."""
    events = value * calls
    if value and abs(events) < FEW and 10 * abs(events) < calls:
        return f"{number(round(events, 1))} in all"
    return f"{value:,.1f}" if 1000 <= abs(value) < 1e5 else number(value)


def _grid(rows: list[list[str]], left: tuple[int, ...]) -> str:
    rows = [list(map(printable, row)) for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        words = [
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(words).rstrip())
    return "\n".join(lines)
