r"""Remove the program's output from inside a call's line, and join the parts of the call.

Without -o strace writes to the terminal that the program writes to.  It prints the arguments before the call and the result
after it, so the text that the call writes (`write`), a child writes (`wait4`) or a user types (`read`) comes between the two:

    write(2, "1+0 records in\n", 151+0 records in
    )        = 15

The line that ends a split call is recognisable, because no other line begins with `)`, a wait status or a string.
"""

import re

from scmsim.trace.syscalls import table
from scmsim.trace.syscalls.text import DATA, FD, OUTPUT_LINE, PATH, SHOWS_RESULT, UNFINISHED, VECTOR, parts, unescape

HINTS = (b"\n) ", b"\n)\t", b"\n[{WIF", b"\n[WIF", b'\n"')
_MOST_LINES = 1 << 12  # limit of the output lines within one call
_END = re.compile(r"\)\s+= (-?\d+|\?)").match
_STATUS = re.compile(r"\[\{?WIF[^\"]*\)\s+= \d").match
_TYPED = re.compile(rf"{DATA}, \d+\)\s+= \d").match
_NAME = re.compile(r"[a-z_]\w*(?=\()").match
_WRITES = re.compile(rf"(?P<head>{FD}, (?P<data>{DATA}|{VECTOR}), )(?P<count>\d+)(?P<rest>.*)", re.DOTALL).match
_TEXT = re.compile(PATH).search
# calls whose last argument is a number: all text after the number is output
_WRITE = re.compile(r"\bwritev?\($").search
_WAITS = re.compile(r"wait(?:4|pid)\(-?\d+, ").match
_READS = re.compile(rf"read\({FD}, ").match
_AT_ONCE = re.compile(r"(.*)(\)\s+= (\d+)(?: <[\d.]+>)?)$", re.DOTALL).match


def joined(lines: list[str]) -> list[str]:
    """Put each call that output has split back on its first line; its other lines become OUTPUT_LINE, so the count stays equal."""
    ends = [i for i, line in enumerate(lines) if line[:1] in (")", "[", '"') and i and _ends(line)]
    if not ends:
        return lines
    out = list(lines)
    for end in ends:
        start = _beginning(lines, end)
        if start is None:
            continue
        line = lines[start]
        at = len(line) - len(parts(line)[6])
        call = _call(line[at:], lines[end])
        if call is not None:
            out[start : end + 1] = [line[:at] + call, *[OUTPUT_LINE] * (end - start)]
    return out


def _ends(line: str) -> bool:
    return bool(_END(line) or _STATUS(line) or _TYPED(line))


def _beginning(lines: list[str], end: int) -> int | None:
    """Return the index of the line before `end` where the unfinished call begins, or None if there is no such call."""
    for i in range(end - 1, max(end - _MOST_LINES, -1), -1):
        line = lines[i]
        if line == OUTPUT_LINE or SHOWS_RESULT(line) or line.endswith(UNFINISHED):
            return None
        name = _NAME(parts(line)[6])
        if name and table.does(name[0]) is not None:
            return i
    return None


def _call(start: str, end: str) -> str | None:
    """Return the call that begins with the text `start` and ends with `end`, without output; None if the two do not match."""
    name = _NAME(start)
    assert name is not None
    m = _END(end)
    if m is None:
        head = _WAITS(start) if _STATUS(end) else _READS(start)
        return head[0] + end if head else None
    if table.does(name[0]) == frozenset(("none",)):
        return f"{name[0]}({end}"
    first = _written(start, name.end() + 1, m[1])
    return f"{start[: name.end() + 1]}{first}{end}" if first is not None else None


def _written(text: str, at: int, result: str) -> str | None:
    """Return the arguments of a write of `result` bytes whose output follows them in `text`; None if they do not match."""
    m = _WRITES(text, at) if _WRITE(text[:at]) else None
    if m is None:
        return None
    digits, rest, strings = m["count"], m["rest"], _TEXT(m["data"])
    shown = unescape(strings[1]).partition("\n")[0].rstrip("\r") if strings else ""
    for end in range(1, len(digits) + 1):
        if (digits[:end] == result or m["data"][0] == "[") and _decoded(digits[end:] + rest).startswith(shown):
            return m["head"] + digits[:end]
    return None


def _decoded(text: str) -> str:
    return text.encode("latin-1").decode("utf-8", "backslashreplace")


def without_output(text: str, at: int) -> str:
    """Return the text of a write whose arguments begin at `at`, without the output of one line before its end."""
    m = _AT_ONCE(text) if _WRITE(text[:at]) else None
    first = _written(m[1], at, m[3]) if m is not None else None
    return text if m is None or first is None else f"{text[:at]}{first}{m[2]}"
