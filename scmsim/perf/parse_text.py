"""Parser of plain `perf stat`.

A row is `[interval] [place [CPUs]] value [unit] event [cgroup] [# metric] [( +- spread% )] [(percentage%)]`. A line with `#`
after its interval and place continues the metrics of the previous row, and has the spread and the percentage of that row.
Source: abs_printout(), print_metric_std(), print_noise(), print_running() and aggr_printout() of util/stat-display.c from
Linux 3.13 to 6.12; before 4.1 the percentage was in square brackets.
"""

import re

from scmsim.perf.numbers import NUMBER, PLAIN
from scmsim.perf.reading import EVENT, Reading, Stat, counted, optional, percentage, reading

START = re.compile(r"^ ?Performance counter stats for|^#[ \t]+time[ \t]", re.MULTILINE)
_TITLE = re.compile(r"^ ?Performance counter stats for")
_TITLE_END = re.compile(r"'(?: \(\d+ runs\))?:\s*$")
_SYSTEM_WIDE = re.compile(r"stats for '(?:system wide|CPU\(s\) [\d,-]+)'")
_VALUE = rf"<not supported>|<not counted>|{NUMBER}"
_INTERVAL = re.compile(r"\s*(\d+[.,]\d{9})(?=\s)(?!\s+seconds\b)")
_CPU = re.compile(r"\s*(CPU\d+)(?=\s)|\s*([SN]\d+(?:-[A-Z]+\d+)*)\s+\d+(?=\s)")
# `%16s-%-8d `: a task's name may contain blanks, brackets and `#`, and may start with a digit
_THREAD = re.compile(rf"(?=.{{16}}) *(\S(?:.*?\S)?-\d+)\s+(?=(?:{_VALUE})\s+[A-Za-z_])|\s*(\S(?:.*?\S)?-\d+)\s+(?=#)")
_COUNT = re.compile(rf"\s*({_VALUE})(?=\s)\s+(?=[A-Za-z_])")
_TAIL = re.compile(r"\s+(?:#|\(\s*\+-|\(\s*\d+[.,\u066b]\d+%\)|\[\s*\d+[.,\u066b]\d+%\]).*$")
_SPREAD = re.compile(rf"\(\s*\+-\s*({PLAIN})%")
_RUNNING = re.compile(rf"\(({PLAIN})%\)\s*$|\[\s*({PLAIN})%\]\s*$")
_MSEC = re.compile(r" \(msec\)$")  # perf 4.1 to 4.19: "task-clock (msec)"
_UNITS = frozenset("msec ns us ms Joules Bytes KiB MiB GiB KB MB GB C M MHz % W mW uW".split())
# events that look like units if a control group follows them
_EVENTS = frozenset("cycles branches faults cs slots dummy".split())
_EVENT_WIDTH = 25  # perf pads the event to this many characters if a control group follows
_METRIC_ROW = re.compile(rf"\s*(?:(?:{_CPU.pattern})\s+)?-?{NUMBER}%?(?:\s+-?{NUMBER}%?)*\s*")
_NO_COUNT = re.compile(
    rf"\s*(?:#.*|{NUMBER}(?: \+- {NUMBER})? seconds (?:time elapsed|user|sys)\b.*|{NUMBER} \([+-]{NUMBER}\) #*)"
)


def parse(lines: list[tuple[int, str]]) -> Stat:
    """Parse numbered lines from perf's first line on; raise UsageError for an ambiguous number."""
    found = Stat(system_wide=any(_SYSTEM_WIDE.search(line) for _, line in lines))
    kept, intervals = _after_titles(lines)
    begun = not intervals  # with -I, rows without an interval are perf's only after the title of its summary
    for number, line in kept:
        if number < 0:
            begun = True
            continue
        interval, place, rest = _place(line)
        where = f"line {number}"
        if rest.lstrip().startswith("#"):
            if found.readings:
                found.readings[-1] = _continued(found.readings[-1], line, where)
            continue
        if _NO_COUNT.match(line):
            continue
        row = _row(rest, where) if begun or interval is not None else None
        if row:
            full = row._replace(cpu=place, interval=optional(interval, where))
            found.add(_continued(full, line, where))
        elif _METRIC_ROW.fullmatch(rest):
            found.metrics += 1
        else:
            found.name(number, line)
    return found


def _after_titles(lines: list[tuple[int, str]]) -> tuple[list[tuple[int, str]], bool]:
    """Return (perf's lines, where a title has the number -1; whether there are intervals).

    A title may contain a program of many lines.
    """
    at = next(i for i, (_, line) in enumerate(lines) if START.search(line))
    kept: list[tuple[int, str]] = []
    intervals = not _TITLE.match(lines[at][1])
    while at < len(lines):
        number, line = lines[at]
        if _TITLE.match(line):
            at = _title_end(lines, at)
            number = -1
        kept.append((number, line))
        at += 1
    return kept, intervals or any(_INTERVAL.match(line) for number, line in kept if number > 0)


def _title_end(lines: list[tuple[int, str]], at: int) -> int:
    """Return the index of a title's last line: the first line with the text that ends perf's titles."""
    for end in range(at, len(lines)):
        if _TITLE_END.search(lines[end][1]):
            return end
        if end > at and _TITLE.match(lines[end][1]):
            break
    return at


def _place(line: str) -> tuple[str | None, str, str]:
    """Return (interval, place, rest of a line)."""
    match = _INTERVAL.match(line)
    interval = match[1] if match else None
    rest = line[match.end() + 1 :] if match else line
    for pattern in (_CPU, _THREAD):
        found = pattern.match(rest)
        if found:
            return interval, found[1] or found[2], rest[found.end() :]
    return interval, "", rest


def _row(rest: str, where: str) -> Reading | None:
    """Return the reading of a line without interval and place; None if it is not a row."""
    match = _COUNT.match(rest)
    if not match:
        return None
    parts = _names(_TAIL.sub("", rest[match.end() :]).rstrip())
    if parts is None:
        return None
    unit, event, cgroup = parts
    value, reason = counted(match[1], where, groups=True)
    return reading(event, value, where, unit=unit, reason=reason, cgroup=cgroup)


def _names(head: str) -> tuple[str, str, str | None] | None:
    """Return (unit, event, control group) from `[unit] event [cgroup]`; None if the text has no event."""
    if _MSEC.search(head):
        return "msec", _MSEC.sub("", head), None
    words = re.findall(r"\S+ \[[\w.-]+\](?=\s|$)|\S+", head)
    starts = [match.start() for match in re.finditer(r"\S+ \[[\w.-]+\](?=\s|$)|\S+", head)]
    unit = ""
    if len(words) > 1 and (words[0] in _UNITS or _is_unit(words[0], words[1], starts[1])):
        unit = words.pop(0)
    if not words or len(words) > 2 or not re.fullmatch(rf"{EVENT}(?: \[[\w.-]+\])?", words[0]):
        return None
    return unit, words[0], words[1] if len(words) == 2 else None


def _is_unit(word: str, after: str, start: int) -> bool:
    """Return whether a word is a unit that a PMU defines.

    A PMU's unit has only letters, precedes an event of a PMU, and is not an event that was padded to its column.
    """
    return (
        start < _EVENT_WIDTH
        and len(word) <= 8
        and word.isalpha()
        and bool(re.search("[/._]", after))
        and word not in _EVENTS
    )


def _continued(row: Reading, line: str, where: str) -> Reading:
    """Return a row with the spread and the percentage that end the line, which is the row's own or continues its metrics."""
    spread, running = _SPREAD.search(line), _RUNNING.search(line)
    if spread:
        row = row._replace(spread_percent=optional(spread[1], where))
    if running:
        row = row._replace(running_percent=percentage(running[1] or running[2], where))
    return row
