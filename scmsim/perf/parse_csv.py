"""Parser of `perf stat -x SEP`, with any separator.

A line is `[interval,|summary,][place,[CPUs,]]value,unit,event,[cgroup,][spread%,]run time,percentage[,metric,unit]`.  A line
without a value continues the metrics of the line before.  The locale's decimal sign may be the separator.
Source: print_metric_csv(), abs_printout() and aggr_printout() of util/stat-display.c.
"""

import functools
import re
from typing import NamedTuple

from scmsim.core.errors import UsageError
from scmsim.perf.numbers import PLAIN
from scmsim.perf.reading import Reading, Stat, counted, optional, percentage, quoted, reading

# In these patterns § is the separator.
_SHARE = r"\d{1,3}(?:[.,\u066b]\d+)?"
_PLACES = r"(?P<cpu>CPU\d+)§|(?P<place>[SN]\d+(?:-[A-Z]+\d+)*)§\d+§|(?P<thread>[^\n]*?\S-\d+)§"
_INTERVAL = r"(?P<interval>\d+[.,]\d{9})§"
_START = (
    rf"^\s*(?:{_INTERVAL}|(?P<summary>summary)§)?\s*(?:{_PLACES})?(?P<value>{PLAIN}|<not supported>|<not counted>)§"
)
# perf does not quote the commas of cpu/event=0x08,umask=0x10/
_EVENT = r"(?P<event>[A-Za-z_](?:(?!§)[^\s/;\"'#])*(?:/[^/\n]*/(?:(?!§)[\w:])*)?(?: \[[\w.-]+\])?)"
_CGROUP = r"(?P<cgroup>(?!\d+§)(?:(?!§)[^\n])*?)"
_UNIT = r"(?P<unit>(?!\d)(?:(?!§)[^\n])*?)"
_ROW = rf"{_START}{_UNIT}§{_EVENT}(?:§{_CGROUP})??(?:§(?P<spread>{PLAIN})%)?§\d+§(?P<percent>{_SHARE})(?:§[^\n]*)?\s*$"
_METRIC = rf"(?:-?{PLAIN}%?)?"
_METRICS = rf"^\s*(?:{_INTERVAL})?\s*(?:{_PLACES})?(?:§§[^\n]*|{_METRIC}(?:§\s*{_METRIC})+\s*)$"
# The separator is the text between a value, its unit, its event, its run time and its percentage.
_SEPARATOR = re.compile(
    r"(?:\d|<not supported>|<not counted>)(?P<sep>[^\w<>.\n]{1,4}?)[A-Za-z%]*(?P=sep)[A-Za-z_][^\n]*?"
    rf"(?P=sep)\d+(?P=sep){_SHARE}(?:(?P=sep)|\s*$)"
)
_ALWAYS_IN_NAMES = ("-", "/")  # characters that names of events contain: dTLB-loads, cpu/event=0x08/


class _Patterns(NamedTuple):
    row: re.Pattern[str]
    start: re.Pattern[str]
    metrics: re.Pattern[str]


def separator(lines: list[tuple[int, str]]) -> str | None:
    """Return the separator of the first row of counts; None if no row has counts."""
    for _, line in lines:
        match = None if line.lstrip().startswith(("#", "{")) else _SEPARATOR.search(line)
        if match and _patterns(match["sep"]).row.match(line):
            return match["sep"]
    return None


@functools.lru_cache(8)
def _patterns(sep: str) -> _Patterns:
    return _Patterns(*(re.compile(text.replace("§", f"(?:{re.escape(sep)})")) for text in (_ROW, _START, _METRICS)))


def parse(lines: list[tuple[int, str]], sep: str) -> Stat:
    """Parse numbered lines; raise UsageError for a row that is cut off or wrong."""
    if sep in _ALWAYS_IN_NAMES:
        raise UsageError(_ambiguous(sep))
    patterns, found = _patterns(sep), Stat()
    for number, line in lines:
        match, where = patterns.row.match(line), f"line {number}"
        if sep == ":" and (match["cgroup"] if match else patterns.start.match(line)):
            raise UsageError(f"{where}: {_ambiguous(sep)}")  # the cgroup may be a modifier: page-faults:u
        if match:
            found.add(_reading(match, where), total=bool(match["summary"]))
        elif patterns.metrics.match(line):
            found.metrics += 1
        elif patterns.start.match(line):
            raise UsageError(f"{where} of perf stat's CSV is cut off or wrong: {quoted(line)}")
        elif not line.startswith("#"):
            found.name(number, line)
    return found


def _ambiguous(sep: str) -> str:
    return f"the separator {sep!r} is also in names of events or control groups; run perf stat with -x ';'"


def _reading(match: re.Match[str], where: str) -> Reading:
    value, reason = counted(match["value"], where, groups=False)
    return reading(
        match["event"],
        value,
        where,
        unit=match["unit"],
        reason=reason,
        running_percent=percentage(match["percent"], where),
        cpu=(match["cpu"] or match["place"] or match["thread"] or "").strip(),
        interval=optional(match["interval"], where),
        spread_percent=optional(match["spread"], where),
        cgroup=match["cgroup"],
    )
