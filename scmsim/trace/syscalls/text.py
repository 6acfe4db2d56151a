r"""Take lines of strace apart: the patterns of its syntax.

Strings are matched first, then `<...>`: inside quotes `<`, `>` and `)` are literal, inside `<...>` (the paths that -y
prints) `<` and `>` are written `\74` and `\76`, so no such character can be mistaken for the end of an argument.
A repeated group that must not give anything back is an atomic group, `(?>(?:...)*)`: a possessive quantifier (`*+`) can
fail to match in Python before 3.11.5 (gh-106052).  Possessive quantifiers on single characters are correct everywhere.
Seen in the output of strace 6.1; the syntax is described in strace(1).
"""

import re
from typing import Any

# the comments of the patterns name their groups

# one level of nesting: -yy writes </dev/null<char 1:3>>; and the addresses of a socket: <TCP:[127.0.0.1:80->127.0.0.1:5]>, of
# limited length, so that a damaged line takes time in proportion to its length
_BODY = r"(?>/[^<>]*+(?>(?:<[^<>]*+>[^<>]*+)*)|[A-Z][\w+-]*+:\[.{0,1024}?\](?=>)|[^<>]*+(?>(?:<[^<>]*+>[^<>]*+)*))"
_STRING = r'"[^"\\]*+(?>(?:\\.[^"\\]*+)*)"(?:\.\.\.)?'
_POINTER = r"0x[0-9a-f]+|NULL"
COMMA = r", *+"
PATHOF = rf"(<{_BODY}>(?:\(deleted\))?)?"  # group: the text of -y about a descriptor
FD = rf"(-?\d+){PATHOF}"  # groups: descriptor, path
DIR = rf"(AT_FDCWD|(?!-100\b)-?\d++){PATHOF}"  # groups: descriptor, path
PATH = r'"([^"\\]*+(?>(?:\\.[^"\\]*+)*))"'  # group: the path, still escaped
DATA = rf"(?:{_STRING}|{_POINTER})"
VECTOR = rf'(?:\[(?>(?:[^"\]]++|{_STRING})*)\]|{_POINTER})'
STRUCT = rf"(\{{[^{{}}]*+(?>(?:\{{[^{{}}]*+\}}[^{{}}]*+)*)\}}|{_POINTER})"  # group: the structure
NUMBER = r"(0x[0-9a-f]{1,15}|\d{1,18})"  # group: the number, below 2^60 so that sums stay in 64 bits
SIGNED = r"(-?\d{1,18})"  # group: the number
WORD = r"(0(?![^,)])|[^,()\d\s][^,()]*)"  # group: names of flags, possibly with a comment; no numbers, see `raw.py`
VALUE = r"-?0x[0-9a-f]{1,16}|-?\d{1,18}"
OFFSET_AT = (
    r"(?:NULL|\[(\d{1,18})\](?: *=> *\[\d+\])?)"  # group: pointer to an offset (sendfile, copy_file_range, splice)
)
# everything up to the end of the arguments
REST = rf'(?>(?:[^"<)]++|{_STRING}|<{_BODY}>|\)(?!\s+=\s))*)'
RESULT = r"\)\s+= (?P<result>0x[0-9a-f]{1,16}|-?\d{1,18}(?!\d)|\?)"  # group: the result
RESULT_FD = RESULT + PATHOF  # groups: descriptor, path

_PID = r"\d{1,7}+(?= )|\d++(?= ++\d{1,12}\.)"  # more than 7 digits only if a time follows; else the number is the time
_TIME = r"(?>(?:(\d{1,12}+)\.(\d{1,9}+) )?)"
# the usual line: process (with -f), time (with -ttt), name of the call
CALL = re.compile(rf"(?>(?:({_PID}) ++)?){_TIME}([a-z_]\w*+)\(").match
# the second half of a split call, in the usual form
SECOND_HALF = re.compile(rf"(?>(?:({_PID}) ++)?){_TIME}<\.\.\. (\w+) resumed> ?")
_COMM = r"(?:<[^<>]*+>)?"  # name of the process's command, which -Y prints
# any line: process, time, the rest.  strace prints [pid N] without -o, 12:34:56 with -t and -tt, a whole number that ends at the
# sixth column with --relative-timestamps=s, (+ 0.000123) with -r and another time stamp; then the fields of --secontext, -n, -i
LINE = re.compile(
    rf" *+(?>(?:(\d{{1,7}}+(?=[ <])|\d++(?= ++\d{{1,12}}\.)){_COMM} ++|\[pid ++(\d++){_COMM}\] ++)?)"
    rf"(?>(?:(?:(\d{{1,12}}+)(?:\.(\d{{1,9}}+))?|(\d\d:\d\d:\d\d)(?>(?:\.(\d{{1,9}}+))?)) ++)?)"
    r"(?:\(\+ *+\d++(?:\.\d++)?\) ++)?(?:\[[\w-]++:[^\] ]*+\] ++)?(?:\[ *+\d{1,4}\] ++)?(?:\[(?:[0-9a-f]{8,16}|\?++)\] ++)?(.*)",
    re.DOTALL,
).match
_RELATIVE = re.compile(r" {2,}+(\d{1,4}) (?<=.{7})(?=\S)").match
NAME = re.compile(r"([a-z_]\w*+)\(").match
RESUMED = re.compile(r"<\.\.\. (\w+) resumed> ?").match
UNFINISHED = " <unfinished ...>"
_SELF = r"(?:(?:/[\w.+-]+)*/)?strace: "  # the path by which strace was called
MESSAGE = rf"(?:{_SELF})?\[? ?Process (?:PID=)?\d+ (?:attached|detached|suspended|resumed|runs in)\b.*|{_SELF}.*"
EVENT = re.compile(rf"--- (?:SIG|stopped by|\d|\{{)|\+\+\+ |<\.\.\. resuming|{MESSAGE}").match
ATTACHED = re.compile(rf"(?:{_SELF})?Process (\d+) (attached|detached)").match
SUPERSEDED = re.compile(r"\+\+\+ superseded by execve in pid (\d+)").match
EXITED = re.compile(r"\+\+\+ (?:exited|killed)").match
FAILED = re.compile(r"\)\s+= -1 E[A-Z0-9]+").search
SHOWS_RESULT = re.compile(r"\)\s+= (?:-?\d|0x|\?)").search
NEVER = re.compile(r"<detached \.\.\.>$|\)\s+= \?|<unfinished \.\.\.>\)?\s+= \?").search

MODE = re.compile(r"\bstx?_mode=(S_IF[A-Z]+)").search
LENGTH = re.compile(r"\bstx?_size=(\d{1,18})(?!\d)").search
SELF_FD = re.compile(r"/proc/(?:self|thread-self|\d+)/fd/(\d+)").fullmatch

_ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9a-f]{2}|.)")
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f"}


def unescape(text: str) -> str:
    """Return the path that strace wrote with C escapes; bytes that are not UTF-8 become `\\xNN`."""
    if "\\" in text:
        text = _ESCAPE.sub(_character, text)
    elif text.isascii():
        return text
    return text.encode("latin-1").decode("utf-8", "backslashreplace")


def _character(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "01234567":
        return chr(int(code, 8) & 255)
    if code[0] == "x" and len(code) == 3:
        return chr(int(code[1:], 16))
    return _NAMED.get(code, code)


def number(text: str) -> int:
    """Return a number that strace wrote in decimal or hexadecimal."""
    return int(text, 16) if text.startswith("0x") else int(text)


def parts(line: str) -> tuple[Any, ...]:
    """Return the parts of a line: process, [pid N], seconds, fraction, time of day, its fraction, and the rest."""
    if m := _RELATIVE(line):
        return None, None, m[1], "0", None, None, parts(line[m.end() :])[6]
    match = LINE(line)
    assert match is not None  # LINE matches any text
    out = match.groups()
    return (*out[:3], out[3] or (out[2] and "0"), *out[4:])


STACK, DUMP, SUMMARY = "stack of a call (-k)", "data of a call (-e read, -e write)", "summary of calls (-c, -C)"
OUTPUT = "output of the program inside the line of a call"
OUTPUT_LINE = "\0output"  # replaces a line of output
_BELONGS = (
    (re.compile(OUTPUT_LINE).fullmatch, OUTPUT),
    (re.compile(r" > \S").match, STACK),
    (re.compile(r" \| [0-9a-f]{5,}  | \* \d+ bytes in ").match, DUMP),
    (
        re.compile(
            r"% time +|-{6} -{5}|System call usage summary| *\d{1,3}\.\d\d +\d+\.\d{6} +\d| *\d{1,3}\.\d\d +\d.* total$"
        ).match,
        SUMMARY,
    ),
)


def belongs(line: str) -> str | None:
    """Return the kind of a line that only adds to other lines (stack, data, summary, output); None for any other line."""
    return next((what for match, what in _BELONGS if match(line)), None)


_ARGUMENT = re.compile(
    rf'(?>(?:[^"<>(){{}}\[\],]++|{_STRING}|<{_BODY}>|(?P<open>[({{\[])|(?P<close>[)}}\]])|(?P<comma>,)|[<>]))'
)


def arguments_end(text: str, start: int) -> tuple[list[str], int] | None:
    """Return the arguments that begin at `start`, and the index of the bracket that ends them; None without a bracket."""
    out, depth, first, at = [], 0, start, start
    while at < len(text) and (m := _ARGUMENT.match(text, at)):
        if depth == 0 and (m["comma"] or m["close"]):
            out.append(text[first:at])
            first = m.end()
            if m["close"]:
                return out, at
        depth += (m["open"] is not None) - (m["close"] is not None)
        at = m.end()
    return None


def looks_like(head: bytes) -> bool:
    """Return whether the first bytes of a file look like strace output: most lines have its form, one has a result."""
    if b"\0" in head:
        return False
    lines = [line for line in head.decode("latin-1").split("\n")[:-1][:50] if line.strip()]
    lines = lines or [head.decode("latin-1")]
    lines = [line for line in lines if belongs(line) is None] or lines
    bodies = [parts(line)[6] for line in lines]
    good = sum(bool(NAME(body) or RESUMED(body) or EVENT(body)) for body in bodies)
    calls = sum(bool(re.search(r"\)\s+= (?:-?\d|0x|\?)|<unfinished \.\.\.>$", body)) for body in bodies)
    if belongs(lines[0]) == SUMMARY:
        return True  # the summary of -c, which the importer refuses by name
    return calls > 0 and good >= 0.8 * len(lines)
