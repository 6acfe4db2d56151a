"""What `perf stat` printed -> readings: JSON (-j), CSV (-x) or plain text, of perf 6.1 to 6.12 and later.

The three outputs are not stable between versions and honour the locale: metric values are numbers or strings, a comma
may be the decimal sign (which makes perf's JSON invalid), numbers are grouped, aggregation columns come and go, hybrid
CPUs put the PMU around the event.  Source: builtin-stat.c and util/stat-display.c of linux/tools/perf, and real output.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from scmsim.core.errors import UsageError

MAX_LINE = 1 << 14  # characters; perf's longest lines (a group of raw events with a cgroup path) are below 1 KiB
MAX_READINGS = 1 << 20
MAX_EVENT = 256

_REASONS = {"<not supported>": "not supported", "<not counted>": "not counted"}
_PLACES = ("cpu", "core", "die", "cluster", "cache", "socket", "node", "thread", "cgroup")
_SEPARATORS = ";\t|,"
_EVENT = re.compile(r"[A-Za-z][^\s;\"'#]*")
# cpu_core/cycles/u; raw codes (event=0x..) keep their spelling
_NAMED = re.compile(r"(?:cpu|cpu_core|cpu_atom|armv8_\w+)/([^/=,]+)/(\w*)")
_DECIMAL_COMMA = re.compile(r"(:\s*-?\d+),(\d+)(?=\s*[,}])")
_NUMBER = r"\d{1,3}(?:[.,'’\u00a0\u202f]\d{3})+(?:[.,]\d+)?|\d+(?:[.,]\d+)?"
_TEXT_START = re.compile(r"Performance counter stats for|^#[ \t]+time[ \t].*\bevents\b", re.MULTILINE)
_PERF_ERROR = re.compile(
    r"event syntax error|Cannot find PMU|No permission|Permission denied|paranoid|not supported|failed to|Error:",
    re.IGNORECASE,
)


class Reading(NamedTuple):
    """One event as perf reported it.

    Attributes
    ----------
    event : str
        Name as perf printed it, without the PMU of a hybrid CPU; a modifier stays: "page-faults:u".
    value : int, float or None
        None where perf could not count; then `reason` says why ("not supported" or "not counted").
    unit : str
        "" for counts, else perf's own: "msec", "Joules".
    running_percent : float
        Share of the time in which the event was on a counter; below 100 the value is an extrapolation.
    pmu : str
        "cpu_core", "cpu_atom" ... where the event named one, else "".
    cpu : str
        Aggregation as perf printed it ("CPU0", "S0-D0", "perf-1234"), "" for the whole run.
    interval : float or None
        Seconds since the start, of `perf stat -I`.
    spread_percent : float or None
        With `perf stat -r`: standard error of the mean over the mean, in percent (perf calls it variance).
    """

    event: str
    value: int | float | None
    unit: str = ""
    running_percent: float = 100.0
    pmu: str = ""
    cpu: str = ""
    reason: str = ""
    interval: float | None = None
    spread_percent: float | None = None


def parse_stat(text: str) -> list[Reading]:
    """Readings of one `perf stat`, in the order in which perf printed them.

    Parameters
    ----------
    text : str
        Output of `perf stat` with -j, with -x (separator `,` `;` `|` or a tab) or plain; what the program itself wrote
        between the lines is skipped.

    Raises
    ------
    UsageError
        If it holds no reading (perf's own message is quoted), or a line of perf's that is cut off or wrong.
    """
    kind = stat_kind(text)
    if kind is None:
        raise UsageError(_no_reading(text))
    found: list[Reading] = []
    for reading in {"json": _json, "csv": _csv, "text": _text}[kind](text):
        found.append(reading)
        if len(found) > MAX_READINGS:
            raise UsageError(f"perf stat output has more than {MAX_READINGS} readings; import it in parts")
    if not found:
        raise UsageError(_no_reading(text))
    return found


def stat_kind(text: str) -> str | None:
    """ "json", "csv" or "text" for the output of perf stat; None for anything else."""
    if '"counter-value"' in text and text.lstrip().startswith("["):
        return "json"
    lines = [line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#")]
    if any(line.startswith("{") and ('"counter-value"' in line or '"event"' in line) for line in lines):
        return "json"
    if _TEXT_START.search(text):
        return "text"
    try:
        return "csv" if any(_csv_line(line) is not None for line in lines) else None
    except UsageError:  # a line of perf's with a wrong number: `parse_stat` says which
        return "csv"


def merged(readings: Iterable[Reading]) -> dict[str, Reading]:
    """One reading per event: summed over CPUs, PMUs and intervals.

    An event that only some of them counted (the idle core type of a hybrid CPU) is the sum of those; its running
    percentage is the smallest of those.
    """
    found: dict[str, Reading] = {}
    for new in readings:
        old = found.get(new.event)
        if old is None or old.value is None and new.value is not None:
            found[new.event] = new._replace(cpu="", interval=None)
        elif old.value is not None and new.value is not None:
            found[new.event] = old._replace(
                value=old.value + new.value,
                running_percent=min(old.running_percent, new.running_percent),
                pmu=old.pmu if old.pmu == new.pmu else "",
            )
    return found


def _json(text: str) -> Iterator[Reading]:
    if text.lstrip().startswith("["):  # made an array by another tool; perf itself prints one object per line
        for row in _loaded(text, "the JSON array") or []:
            reading = _json_reading(row, "the JSON array") if isinstance(row, dict) else None
            if reading:
                yield reading
        return
    for number, line in _lines(text):
        if line.startswith("{"):
            where = f"line {number}"
            reading = _json_reading(_loaded(line, where), where)
            if reading:
                yield reading


def _loaded(text: str, where: str) -> Any:
    for attempt in (text, _DECIMAL_COMMA.sub(r"\1.\2", text)):
        try:
            return json.loads(attempt, parse_constant=_no_constant, parse_float=str)
        except (ValueError, RecursionError):
            continue
    raise UsageError(f"{where} of perf stat's JSON is cut off or wrong: {_quoted(text)}; run perf stat -j again")


def _no_constant(name: str) -> float:
    raise ValueError(name)


def _json_reading(row: dict, where: str) -> Reading | None:
    """One object; None where it holds only a metric."""
    if "counter-value" not in row and "event" not in row:
        return None
    event = row.get("event")
    if not isinstance(event, str) or "counter-value" not in row:
        raise UsageError(f"{where} of perf stat's JSON lacks event or counter-value; run perf stat -j again")
    places = [str(row[key])[:MAX_EVENT] for key in _PLACES if key in row]
    value, reason = _value(str(row["counter-value"]), where, grouped=False)
    return _reading(
        event,
        value,
        reason,
        where,
        unit=str(row.get("unit") or "").replace("(null)", "")[:MAX_EVENT],
        running_percent=_percent(row.get("pcnt-running", 100.0), where),
        cpu=" ".join(places),
        interval=_optional(row.get("interval"), where),
        spread_percent=_optional(row.get("variance"), where),
    )


def _csv(text: str) -> Iterator[Reading]:
    for number, line in _lines(text):
        if line.startswith("#"):
            continue
        reading = _csv_line(line, f"line {number}")
        if reading:
            yield reading
        elif re.match(rf"(?:{_NUMBER}|<not \w+>)[{_SEPARATORS}]", line):
            raise UsageError(f"line {number} of perf stat's CSV is cut off or wrong: {_quoted(line)}")


def _csv_line(line: str, where: str = "a line") -> Reading | None:
    """A line `[interval,][place,[cpus,]]value,unit,event,[spread%,]run time,percentage,...`; None for any other."""
    for separator in _SEPARATORS:
        if line.count(separator) >= 3:
            reading = _csv_fields(_decimals_joined(line.strip(), separator).split(separator), separator, where)
            if reading:
                return reading
    return None


def _decimals_joined(line: str, separator: str) -> str:
    """Commas that are decimal signs in a line separated by commas, as points: the interval, the value, the percentage."""
    if separator != ",":
        return line
    line = re.sub(r"^(\d+),(\d{9}),", r"\1.\2,", line)
    line = re.sub(r"(^|,)(\d+),(\d\d),([A-Za-z%]+),(?=[A-Za-z])", r"\1\2.\3,\4,", line, count=1)
    line = re.sub(r",(\d+),(\d\d%)", r",\1.\2", line, count=1)
    return re.sub(r",(\d+),(100|\d?\d),(\d\d)(?=,|$)", r",\1,\2.\3", line, count=1)


def _csv_fields(fields: list[str], separator: str, where: str) -> Reading | None:
    for i in range(min(4, len(fields) - 2)):
        value, unit, event = fields[i], fields[i + 1], fields[i + 2]
        if not re.fullmatch(rf"{_NUMBER}|<not supported>|<not counted>", value) or re.match(r"\d", unit):
            continue
        rest = fields[i + 3 :]
        while event.count("/") % 2 and rest:  # cpu/event=0x08,umask=0x10/: perf does not quote its commas
            event += separator + rest.pop(0)
        times = [j for j in range(len(rest) - 1) if rest[j].isdecimal() and re.fullmatch(_NUMBER, rest[j + 1])]
        if not _EVENT.fullmatch(event) or not times:
            return None
        spread = next((field.rstrip("%") for field in rest[: times[0]] if field.endswith("%")), None)
        places = [field for field in fields[:i] if not re.match(r"\d", field)]
        interval = next((field for field in fields[:i] if re.fullmatch(r"\d+[.,]\d{9}", field.strip())), None)
        count, reason = _value(value, where, grouped=False)
        return _reading(
            event,
            count,
            reason,
            where,
            unit=unit,
            running_percent=_percent(rest[times[0] + 1], where),
            cpu=" ".join(places)[:MAX_EVENT],
            interval=_optional(interval, where),
            spread_percent=_optional(spread, where),
        )
    return None


def _text(text: str) -> Iterator[Reading]:
    begun = False
    for number, line in _lines(text):
        begun = begun or bool(_TEXT_START.search(line))
        reading = _text_line(line, f"line {number}") if begun else None
        if reading:
            yield reading


def _text_line(line: str, where: str) -> Reading | None:
    """A line `[interval] [place [cpus]] value [unit] event [# comment] [( +- spread% )] [(percentage%)]`, or None."""
    head = re.split(r"[#(]", line, maxsplit=1)[0].replace("<not ", "<not-").strip(" \t")
    words = re.split(r"[ \t]+", head, maxsplit=6)
    interval = words.pop(0) if re.fullmatch(r"\d+[.,]\d{9}", words[0]) else None
    place = words.pop(0) if words and re.match(r"[A-Za-z]", words[0]) else ""
    if len(words) > 2 and place and words[0].isdecimal() and re.match(r"\d|<", words[1]):
        words.pop(0)  # how many CPUs the place has
    if not 2 <= len(words) <= 3 or not re.fullmatch(rf"{_NUMBER}|<not-supported>|<not-counted>", words[0]):
        return None
    unit = words[1] if len(words) == 3 else ""
    if unit == "seconds" or not _EVENT.fullmatch(words[-1]):  # "0.012 seconds user" is no event
        return None
    spread = re.search(r"\( *\+- *(\d+[.,]\d+)%", line)
    running = re.search(r"\((\d+[.,]\d+)%\)$", line)
    value, reason = _value(words[0].replace("<not-", "<not "), where, grouped=True)
    return _reading(
        words[-1],
        value,
        reason,
        where,
        unit=unit,
        running_percent=_percent(running[1] if running else 100.0, where),
        cpu=place,
        interval=_optional(interval, where),
        spread_percent=_optional(spread[1] if spread else None, where),
    )


def _reading(
    event: str,
    value: int | float | None,
    reason: str,
    where: str,
    *,
    unit: str,
    running_percent: float,
    cpu: str,
    interval: float | None,
    spread_percent: float | None,
) -> Reading:
    if len(event) > MAX_EVENT or not event.isprintable() or not _EVENT.fullmatch(event):
        raise UsageError(f"{where} of perf stat's output names no event: {_quoted(event)}")
    pmu = event.partition("/")[0] if "/" in event else ""
    named = _NAMED.fullmatch(event)
    if named:
        event = named[1] + (f":{named[2]}" if named[2] else "")
    if unit and not unit.isprintable():
        raise UsageError(f"{where} of perf stat's output has a unit that is not text: {_quoted(unit)}")
    return Reading(event, value, unit, running_percent, pmu, cpu, reason, interval, spread_percent)


def _value(text: str, where: str, grouped: bool) -> tuple[int | float | None, str]:
    """Value and reason of its absence."""
    text = text.strip()
    if text in _REASONS:
        return None, _REASONS[text]
    return _number(text, where, grouped), ""


def _number(text: str, where: str, grouped: bool) -> int | float:
    """A number as a locale writes it; `grouped`: three digits behind the only separator are a group (plain text)."""
    if len(text) > 40 or not re.fullmatch(_NUMBER, text):
        raise UsageError(f"{where} of perf stat's output has {_quoted(text)} where a count belongs")
    groups = re.split(r"[.,'’\u00a0\u202f]", text)
    signs = re.findall(r"[.,'’\u00a0\u202f]", text)
    decimal = bool(signs) and signs[-1] in ".," and signs.count(signs[-1]) == 1
    if decimal and len(groups[-1]) == 3 and (grouped and len(set(signs)) == 1):
        decimal = False
    fraction = groups.pop() if decimal else ""
    whole = int("".join(groups))
    return whole if not fraction.strip("0") else float(f"{whole}.{fraction}")


def _percent(value: object, where: str) -> float:
    percent = _optional(value, where)
    if percent is None or percent > 100.01:
        raise UsageError(f"{where} of perf stat's output has {_quoted(str(value))} where a percentage belongs")
    return min(percent, 100.0)


def _optional(value: object, where: str) -> float | None:
    return None if value is None else float(_number(str(value).strip(), where, grouped=False))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines that hold something."""
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if len(line) > MAX_LINE:
            raise UsageError(
                f"line {number} has {len(line)} characters, perf stat's have at most {MAX_LINE}; wrong file?"
            )
        if line:
            yield number, line


def _no_reading(text: str) -> str:
    said = next((line.strip() for line in text.splitlines() if _PERF_ERROR.search(line)), "")
    if said:
        return f"perf stat counted nothing and said {_quoted(said)}; see 'scmsim perf check'"
    return "no reading of perf stat found; give the output of perf stat with -j, with -x, or plain"


def _quoted(text: str) -> str:
    text = text.strip()
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
