r"""How strace writes a line: the patterns that take it apart.

Strings come first, then `<...>`: inside quotes `<`, `>` and `)` stand for themselves, inside `<...>` (the paths that -y
prints) `<` and `>` are written `\74` and `\76`, so neither can be mistaken for the end of an argument.
A loop over a group that must not give anything back is an atomic group, `(?>(?:...)*)`: the possessive form, `*+` behind it, can
fail to match in Python before 3.11.5 (gh-106052).  Possessive loops over single characters are sound everywhere.
Seen in the output of strace 6.1; the syntax is described in strace(1).
"""

import re

STRING = r'"[^"\\]*+(?>(?:\\.[^"\\]*+)*)"(?:\.\.\.)?'
# a socket, in which -> is not an end; else a path, perhaps with one level of nesting: -yy writes </dev/null<char 1:3>>
BODY = rf'(?:[A-Za-z][\w-]*+:\[(?>(?:[^"<>]++|{STRING}|(?<=-)>)*)|[^<>]*+(?>(?:<[^<>]*+>[^<>]*+)*))'
_POINTER = r"0x[0-9a-f]+|NULL"
COMMA = r", *+"
PATHOF = rf"(<{BODY}>(?:\(deleted\))?)?"  # group: what -y says about a descriptor
FD = rf"(-?\d+){PATHOF}"  # groups: descriptor, path
DIR = rf"(AT_FDCWD|-?\d+){PATHOF}"  # groups: descriptor, path
PATH = r'"([^"\\]*+(?>(?:\\.[^"\\]*+)*))"'  # group: still escaped
DATA = rf"(?:{STRING}|{_POINTER})"
VECTOR = rf'(?:\[(?>(?:[^"\]]++|{STRING})*)\]|{_POINTER})'
STRUCT = rf"(\{{[^{{}}]*+(?>(?:\{{[^{{}}]*+\}}[^{{}}]*+)*)\}}|{_POINTER})"  # group
NUMBER = r"(0x[0-9a-f]{1,15}|\d{1,18})"  # group; below 2^60, so that sums stay in 64 bits
SIGNED = r"(-?\d{1,18})"  # group
WORD = r"([^,()]+)"  # group: names of flags, possibly with a comment
OFFSET_AT = (
    r"(?:NULL|\[(\d{1,18})\](?: *=> *\[\d+\])?)"  # group: pointer to an offset (sendfile, copy_file_range, splice)
)
# everything up to the end of the arguments, whatever it is
REST = rf'(?>(?:[^"<)]++|{STRING}|<{BODY}>|\)(?!\s+=\s))*)'
RESULT = r"\)\s+= (?P<result>0x[0-9a-f]{1,16}|-?\d{1,18}(?!\d)|\?)"  # group
RESULT_FD = RESULT + PATHOF  # groups: descriptor, path

# a number of a process has at most 7 digits (PID_MAX_LIMIT is 2^22), seconds since 1970 have 10
_PID = r"(?>(?:(\d++)(?:(?<!\d{8})|(?= ++\d{1,12}\.)) ++)?)"
_SECONDS = r"(?>(?:(\d{1,12}+)\.(\d{1,9}+) )?)"
# the usual line: process (with -f), time (with -ttt), name of the call
CALL = re.compile(_PID + _SECONDS + r"([a-z_]\w*+)\(").match
# the second half of a split call, in the usual form
SECOND_HALF = re.compile(_PID + _SECONDS + r"<\.\.\. (\w+) resumed> ?")
# any line: process, time, the rest; [pid N] is the form without -o, 12:34:56 that of -t and -tt, a field of 6 columns that of
# -r in whole seconds, (+ 0.1) that of -r with -t; the brackets are those of -n, -i and --secontext
LINE = re.compile(
    r"(?>(?:(?! {1,5}\d++(?<=^.{6}) ) *+(\d{1,7}+)(?!\d)(?:<[^<>]*+>)? ++|(\d++)(?= ++\d{1,12}\.) ++"
    r"| *+\[pid ++(\d++)(?:<[^<>]*+>)?\] ++)?)"
    r"(?> *+(?:(?:(\d{1,12}+)(?>(?:\.(\d{1,9}+))?)|(\d\d:\d\d:\d\d)(?>(?:\.(\d{1,9}+))?)) ++(?!\d+\.\d))?)"
    r"(?>(?:\(\+ *+[\d.]++\) ++)?)(?>(?:\[(?: *+\d++|[0-9a-f]{8,16}|\?{8,16}|[\w.:,-]+)\] ++)*)(.*)",
    re.DOTALL,
).match
NAME = re.compile(r"([a-z_]\w*+)\(").match
RESUMED = re.compile(r"<\.\.\. (\w+) resumed> ?").match
ASIDE = re.compile(
    r" > .*(?:\]|\))$| \| [0-9a-f]{5,16} | ?<unfinished \.\.\.>$|[,)].* = "
).match  # a note, or a line's end
UNFINISHED = " <unfinished ...>"
EVENT = re.compile(
    r"--- (?:SIG|stopped by|\d|\{)|\+\+\+ |<\.\.\. resuming|(?:/\S*/)?strace: |\[ Process |ptrace\([A-Z_]+\): "
    r"|Process \d+ (?:attached|detached|resumed|suspended)"
).match
EXITED = re.compile(r"\+\+\+ (?:exited|killed)").match
FAILED = re.compile(r"\)\s+= -1 E[A-Z0-9]+").search
NEVER = re.compile(
    r"\)\s+= \?|<unfinished \.\.\.>\)?\s+= \?| <detached \.\.\.>$| <ptrace\(|<unavailable>\)?\s+= \?"
).search

MODE = re.compile(r"\bstx?_mode=(S_IF[A-Z]+)").search
LENGTH = re.compile(r"\bstx?_size=(\d{1,18})(?!\d)").search
SELF_FD = re.compile(r"/proc/(?:self|thread-self|\d+)/fd/(\d+)").fullmatch

_ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9a-f]{2}|.)")
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f"}


def unescape(text: str) -> str:
    """The path that strace wrote with C escapes; bytes that are not UTF-8 become `\\xNN`."""
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
    """A number as strace writes it: decimal or hexadecimal."""
    return int(text, 16) if text.startswith("0x") else int(text)


def looks_like(head: bytes) -> bool:
    """Whether the first bytes of a file look like strace output: most lines have its form, one has a result."""
    if b"\0" in head:
        return False
    lines = [line for line in head.decode("latin-1").split("\n")[:-1][:50] if line.strip()]
    lines = lines or [head.decode("latin-1")]
    bodies = [match[8] for line in lines if not ASIDE(line) and (match := LINE(line))]
    good = sum(bool(NAME(body) or RESUMED(body) or EVENT(body)) for body in bodies)
    calls = sum(bool(re.search(r"\)\s+= (?:-?\d|0x|\?)|<unfinished \.\.\.>$", body)) for body in bodies)
    return calls > 0 and good >= 0.8 * len(bodies)
