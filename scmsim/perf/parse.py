"""Parser of the output of `perf stat`: JSON (-j), CSV (-x) or plain text.

Each line is a count, or a known line without a count (titles, times, metrics, comments), or is reported as not understood.
The formats differ between versions and locales: metric values are numbers or strings, a comma may be the decimal sign (which
makes perf's JSON invalid), digits may be grouped, aggregation columns may be missing, and on hybrid CPUs the event's name
includes the PMU.
Source: builtin-stat.c and util/stat-display.c of linux/tools/perf, and real output.
"""

import json
import re
from typing import Any

from scmsim.core.errors import UsageError
from scmsim.perf import parse_csv, parse_text
from scmsim.perf.reading import MAX_EVENT, Reading, Stat, counted, optional, percentage, quoted, reading

MAX_LINE = 1 << 14  # maximum characters; perf's longest lines (groups of raw events with cgroup paths) have below 1 KiB

_PLACES = ("cpu", "core", "die", "cluster", "cache", "socket", "node", "thread")
_DECIMAL_COMMA = re.compile(r"(:\s*-?\d+)[,\u066b](\d+)(?=\s*[,}])")
_PERF_ERROR = re.compile(
    r"event syntax error|Cannot find PMU|No permission|Permission denied|paranoid|not supported|failed to|Error:",
    re.IGNORECASE,
)


def parse_stat(text: str) -> list[Reading]:
    """Return the readings of one `perf stat` in the order in which perf printed them; see `read_stat`."""
    return read_stat(text).readings


def read_stat(text: str) -> Stat:
    """Return everything that one `perf stat` printed, with -j, with -x (any separator), or as plain text.

    Raises UsageError if the text has no reading (the error quotes perf's message), or if a line of perf is cut off or wrong.
    """
    kind = stat_kind(text)
    if kind is None:
        raise UsageError(_no_reading(text))
    lines = _lines(text)
    if kind == "csv":
        found = parse_csv.parse(lines, parse_csv.separator(lines) or ",")
    else:
        found = _json(text, lines) if kind == "json" else parse_text.parse(lines)
    _set_totals_apart(found)
    if not found.readings:
        raise UsageError(_no_reading(text, found))
    return found


def stat_kind(text: str) -> str | None:
    """Return "json", "csv" or "text" for the output of perf stat; None for anything else."""
    if '"counter-value"' in text and text.lstrip().startswith("["):
        return "json"
    lines = [line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#")]
    if any(line.startswith("{") and ('"counter-value"' in line or '"event"' in line) for line in lines):
        return "json"
    if parse_text.START.search(text):
        return "text"
    return "csv" if parse_csv.separator([(0, line) for line in lines if len(line) <= MAX_LINE]) else None


def _set_totals_apart(found: Stat) -> None:
    """Move rows that total the preceding intervals of the same event and place to `totals` (perf stat -I --summary)."""
    kept: list[Reading] = []
    seen: set[tuple] = set()
    for one in found.readings:
        key = (one.event, one.pmu, one.cpu, one.cgroup)
        if one.interval is not None:
            seen.add(key)
        (found.totals if one.interval is None and key in seen else kept).append(one)
    found.readings = kept


def _json(text: str, lines: list[tuple[int, str]]) -> Stat:
    found = Stat()
    if text.lstrip().startswith("["):  # another tool made an array; perf itself prints one object per line
        for row in _loaded(text, "the JSON array") or []:
            if isinstance(row, dict):
                _add(found, row, "the JSON array")
        return found
    for number, line in lines:
        if line.lstrip().startswith("{"):
            where = f"line {number}"
            _add(found, _loaded(line, where), where)
        elif not line.startswith("#"):
            found.name(number, line)
    return found


def _loaded(text: str, where: str) -> Any:
    for attempt in (text, _DECIMAL_COMMA.sub(r"\1.\2", text)):
        try:
            return json.loads(attempt, parse_constant=_no_constant, parse_float=str)
        except (ValueError, RecursionError):
            continue
    raise UsageError(f"{where} of perf stat's JSON is cut off or wrong: {quoted(text)}; run perf stat -j again")


def _no_constant(name: str) -> float:
    raise ValueError(name)


def _add(found: Stat, row: dict, where: str) -> None:
    """Add an object's reading; if the object has only a metric, just count it."""
    if "counter-value" not in row and "event" not in row:
        found.metrics += 1
        return
    event = row.get("event")
    if not isinstance(event, str) or "counter-value" not in row:
        raise UsageError(f"{where} of perf stat's JSON lacks event or counter-value; run perf stat -j again")
    places = [_place(key, str(row[key])) for key in _PLACES if key in row]
    value, reason = counted(str(row["counter-value"]), where, groups=False)
    found.add(
        reading(
            event,
            value,
            where,
            unit=str(row.get("unit") or "").replace("(null)", ""),
            reason=reason,
            running_percent=percentage(row.get("pcnt-running", 100.0), where),
            cpu=" ".join(places),
            interval=optional(row.get("interval"), where),
            spread_percent=optional(row.get("variance"), where),
            cgroup=str(row["cgroup"])[:MAX_EVENT] if "cgroup" in row else None,
        )
    )


def _place(key: str, name: str) -> str:
    return f"CPU{name}" if key == "cpu" and name.isdecimal() else name[:MAX_EVENT]


def _lines(text: str) -> list[tuple[int, str]]:
    """Return the lines that are not empty, with their numbers."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.rstrip()
        if len(line) > MAX_LINE:
            raise UsageError(
                f"line {number} has {len(line)} characters, perf stat's have at most {MAX_LINE}; wrong file?"
            )
        if line:
            found.append((number, line))
    return found


def _no_reading(text: str, found: Stat | None = None) -> str:
    said = next((line.strip() for line in text.splitlines() if _PERF_ERROR.search(line)), "")
    if said:
        return f"perf stat counted nothing and said {quoted(said)}; see 'scmsim perf check'"
    if found and found.metrics:
        return "this perf stat printed metrics and no counts; run it without --metric-only and --topdown, with -e and events"
    if found and found.not_understood:
        return f"no reading of perf stat found, and not understood: {found.not_understood[0]}"
    return "no reading of perf stat found; give the output of perf stat with -j, with -x, or plain"
