"""Rewrite the less usual forms of strace's text as the usual one: constants as numbers (-X), comments, inserted messages.

Numbers of flags are those of x86-64 (include/uapi/asm-generic/fcntl.h, mman.h, sched.h).  On arm64 the four flags O_DIRECTORY,
O_NOFOLLOW, O_DIRECT and O_LARGEFILE have other numbers.
"""

import re
from collections.abc import Iterator

from scmsim.trace.syscalls.text import BODY, FD, STRING

STACK = "stack trace of strace -k"
DUMP = "data dumped by strace -e read or -e write"
SUMMARY = "table of strace -c or -C"
JOINED = "first part of a line that strace's own message or the program's output splits"
INJECTED = "call whose result strace -e inject made up"

_NOTES = (
    (re.compile(r" > .*(?:\[0x[0-9a-f]+\]|error.*|\))$").match, STACK),
    (re.compile(r" \| [0-9a-f]{5,16} |  ?\* \d+ bytes in buffer \d").match, DUMP),
    (re.compile(r"(?:%? ?time|[ \d.]* +seconds|-{3,} -{3,}[ -]*$|System call usage summary).*").match, SUMMARY),
    (re.compile(r" *\d+\.\d\d +\d+\.\d+ +\d+ .*?[a-z]\w*$").match, SUMMARY),
)
# a message of strace at the end of a line that it splits
MESSAGE = re.compile(
    r"(?:/[\w./+-]*/)?strace: (?:Process|\[|Can't|Could|Exit|ptrace|Detach|attach|WARN|Unexpected|syscall|cleanup|unex).*$"
    r"|Process \d+ (?:attached|detached|resumed|suspended)\b[^\"]*$|\[ Process PID=\d+ .*$|ptrace\([A-Z_]+\): .*$"
).search
ATTACHED = re.compile(r"Process (\d+) attached").search
DETACHED = re.compile(r"Process (\d+) detached").search
SUPERSEDED = re.compile(r"\+\+\+ superseded by execve in pid (\d+) \+\+\+").match
_MIXED = re.compile(rf"(.*?\bwrite\({FD}, {STRING}, )\d.*?(\)\s+= (\d+))(?!.*\)\s+= )", re.DOTALL).match
_OPEN_WRITE = re.compile(rf"(?:\W|.*\W|)write\({FD}, {STRING}, \d", re.DOTALL).match

_COMMENT = re.compile(
    rf"({STRING}|<{BODY}>)|-?\w+ /\* (?:(\d+) in strace's PID NS|([A-Z][A-Z0-9_]*(?:\|[A-Z0-9_]+)*)) \*/"
)


def note(line: str) -> str | None:
    """Return what a line is that describes no call and no process; None if it is not known."""
    return next((reason for is_note, reason in _NOTES if is_note(line)), None)


def plain(text: str) -> str:
    """Replace a number by the comment that names it: a flag's name (-X verbose) or strace's own number of a process."""
    return _COMMENT.sub(lambda m: m[1] or m[2] or m[3], text)


def without_output(text: str) -> str | None:
    """Remove the program's own output from a write that it splits; None if `text` is not such a write."""
    m = _MIXED(text)
    return m and m[1] + m[5] + m[4] + text[m.end() :]


def is_open_write(text: str) -> bool:
    """Return whether a line without a result is a write, into which the program's output may be mixed."""
    return _OPEN_WRITE(text) is not None


_Bits = dict[int, str]
_O: _Bits = {
    0o4010000: "O_SYNC", 0o20200000: "O_TMPFILE", 1: "O_WRONLY", 2: "O_RDWR", 0o100: "O_CREAT", 0o200: "O_EXCL",
    0o1000: "O_TRUNC", 0o2000: "O_APPEND", 0o10000: "O_DSYNC", 0o40000: "O_DIRECT", 0o200000: "O_DIRECTORY",
    0o400000: "O_NOFOLLOW", 0o2000000: "O_CLOEXEC", 0o10000000: "O_PATH",
}  # fmt: skip
_PROT: _Bits = {1: "PROT_READ", 2: "PROT_WRITE", 4: "PROT_EXEC"}
_MAP: _Bits = {
    3: "MAP_SHARED_VALIDATE", 1: "MAP_SHARED", 2: "MAP_PRIVATE", 0x10: "MAP_FIXED", 0x20: "MAP_ANONYMOUS",
    0x8000: "MAP_POPULATE", 0x80000: "MAP_SYNC",
}  # fmt: skip
_MS: _Bits = {1: "MS_ASYNC", 2: "MS_INVALIDATE", 4: "MS_SYNC"}
_FALLOC: _Bits = {
    1: "FALLOC_FL_KEEP_SIZE", 2: "FALLOC_FL_PUNCH_HOLE", 8: "FALLOC_FL_COLLAPSE_RANGE", 0x10: "FALLOC_FL_ZERO_RANGE",
    0x20: "FALLOC_FL_INSERT_RANGE", 0x40: "FALLOC_FL_UNSHARE_RANGE",
}  # fmt: skip
_CLONE: _Bits = {
    0x100: "CLONE_VM", 0x200: "CLONE_FS", 0x400: "CLONE_FILES", 0x4000: "CLONE_VFORK", 0x10000: "CLONE_THREAD",
}  # fmt: skip
_AT: _Bits = {0x100: "AT_SYMLINK_NOFOLLOW", 0x400: "AT_SYMLINK_FOLLOW", 0x1000: "AT_EMPTY_PATH"}
_RENAME: _Bits = {1: "RENAME_NOREPLACE", 2: "RENAME_EXCHANGE", 4: "RENAME_WHITEOUT"}
_RWF: _Bits = {1: "RWF_HIPRI", 2: "RWF_DSYNC", 4: "RWF_SYNC", 8: "RWF_NOWAIT", 0x10: "RWF_APPEND"}
_WHENCE = ("SEEK_SET", "SEEK_CUR", "SEEK_END", "SEEK_DATA", "SEEK_HOLE")
_FCNTL = {0: "F_DUPFD", 1: "F_GETFD", 2: "F_SETFD", 3: "F_GETFL", 4: "F_SETFL", 0x406: "F_DUPFD_CLOEXEC"}
_S_IF = {
    "1": "S_IFIFO",
    "2": "S_IFCHR",
    "4": "S_IFDIR",
    "6": "S_IFBLK",
    "10": "S_IFREG",
    "12": "S_IFLNK",
    "14": "S_IFSOCK",
}
# call -> for each argument that is a set of flags, its place and the names of its bits
CODED: dict[str, dict[int, _Bits]] = {
    "open": {1: _O}, "openat": {2: _O}, "openat2": {}, "lseek": {}, "fcntl": {}, "dup3": {2: _O},
    "mmap": {2: _PROT, 3: _MAP}, "mmap2": {2: _PROT, 3: _MAP}, "msync": {2: _MS}, "fallocate": {1: _FALLOC},
    "unlinkat": {2: {0x200: "AT_REMOVEDIR"}}, "renameat": {}, "renameat2": {4: _RENAME}, "linkat": {4: _AT},
    "newfstatat": {3: _AT}, "fstatat64": {3: _AT}, "statx": {2: _AT}, "faccessat2": {3: _AT}, "faccessat": {}, "mkdirat": {},
    "symlinkat": {}, "execveat": {}, "stat": {}, "lstat": {}, "fstat": {}, "close_range": {2: {2: "CLOSE_RANGE_UNSHARE",
    4: "CLOSE_RANGE_CLOEXEC"}}, "unshare": {0: _CLONE}, "preadv2": {4: _RWF}, "pwritev2": {4: _RWF}, "clone": {},
    "clone3": {},
}  # fmt: skip
_TOKEN = re.compile(rf'{STRING}|<{BODY}>|[^"<,(){{}}\[\]]+|.', re.DOTALL)
_VALUE = re.compile(r"(\s*)(0x[0-9a-f]{1,16}|\d{1,18})").fullmatch
_FLAGS = re.compile(r"\bflags=(0x[0-9a-f]{1,16})")
_MODE = re.compile(r"\b(stx?_mode)=0(1[024]|[1246])([0-7]{4})\b")


def _arguments(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Yield the place of each argument of the call whose arguments begin at `start`."""
    depth, first = 0, start
    for m in _TOKEN.finditer(text, start):
        token = m[0]
        if depth == 0 and token in ",)":
            yield first, m.start()
            first = m.end()
            if token == ")":
                return
        depth += (token in "([{") - (token in ")]}")


def _words(value: int, bits: _Bits) -> str:
    out = []
    for bit, word in bits.items():
        if value & bit == bit:
            out.append(word)
            value &= ~bit
    return "|".join(out) or ("O_RDONLY" if bits is _O else "0")


def decode(name: str, text: str, start: int) -> str:
    """Replace the numbers that -X raw prints for flags, commands and AT_FDCWD by their names."""
    places = list(_arguments(text, start))
    bits = dict(CODED[name])
    values = [text[a:b].strip() for a, b in places]
    command = ""
    if name == "fcntl" and len(values) > 1 and (m := _VALUE(values[1])):
        command = values[1] = _FCNTL.get(int(m[2], 0), values[1])
        bits |= {2: _O} if command == "F_SETFL" else {2: {1: "FD_CLOEXEC"}} if command == "F_SETFD" else {}
    if name == "lseek" and len(values) > 2 and (m := _VALUE(values[2])) and int(m[2], 0) < len(_WHENCE):
        values[2] = _WHENCE[int(m[2], 0)]
    for i, value in enumerate(values):
        if value == "-100" or value.startswith("-100<"):
            values[i] = "AT_FDCWD" + value[4:]
        elif i in bits and (m := _VALUE(value)):
            values[i] = _words(int(m[2], 0), bits[i])
    if places:
        text = text[:start] + ", ".join(values) + text[places[-1][1] :]
    table = _O if name == "openat2" else _CLONE
    text = _FLAGS.sub(lambda m: "flags=" + _words(int(m[1], 16), table), text)
    return _MODE.sub(lambda m: f"{m[1]}={_S_IF[m[2]]}|0{m[3][-3:]}", text)
