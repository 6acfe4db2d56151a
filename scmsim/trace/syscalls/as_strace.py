"""Rewrite the calls that other tracers recorded as strace lines, so that one importer serves all tracers.

A call is text, not an object, because the strace importer parses text; paths are escaped as in strace.
All threads of a process are merged into the process, because they share descriptors; the thread that made a call is lost.
"""

import errno
from collections.abc import Callable, Mapping
from typing import Any

from scmsim.trace.reading.importing import Import
from scmsim.trace.reading.lines import BadLine, blocks, clip
from scmsim.trace.reading.report import Report
from scmsim.trace.syscalls.conversion import Conversion
from scmsim.trace.syscalls.importer import Importer
from scmsim.trace.syscalls.names import Names

_MOST = 10**18
_FAR_TIME = 1 << 61  # limit of a time stamp, ns
ORIGIN = 10**8  # seconds, added to each time: the strace importer reads smaller times as time since the previous line
_NO_DATA = '""...'
_AT_FDCWD = -100
NO_SECOND_NAME = "rename or link whose second name was not recorded"
NO_RESULT = "call without its result: whether it failed is not known"
NOT_A_CALL = "not a file operation of this importer"

# flags of open(2) on x86-64 (include/uapi/asm-generic/fcntl.h); a flag that contains another's bits comes first
_OPEN_FLAGS = (
    ("O_SYNC", 0o4010000), ("O_TMPFILE", 0o20200000), ("O_CREAT", 0o100), ("O_EXCL", 0o200), ("O_TRUNC", 0o1000),
    ("O_APPEND", 0o2000), ("O_DSYNC", 0o10000), ("O_DIRECTORY", 0o200000), ("O_NOFOLLOW", 0o400000),
    ("O_CLOEXEC", 0o2000000), ("O_PATH", 0o10000000),
)  # fmt: skip
_WAYS = {0: "O_RDONLY", 1: "O_WRONLY", 2: "O_RDWR"}
_FALLOCATE = (("FALLOC_FL_KEEP_SIZE", 1), ("FALLOC_FL_PUNCH_HOLE", 2))
_WHENCE = {0: "SEEK_SET", 1: "SEEK_CUR", 2: "SEEK_END", 3: "SEEK_DATA", 4: "SEEK_HOLE"}

# call -> its name in strace and the kinds of its arguments; most kinds are keys of the caller's `args`
_CALLS: dict[str, tuple[str, str]] = {
    "read": ("read", "fd data count"), "pread64": ("pread64", "fd data count offset"),
    "write": ("write", "fd data count"), "pwrite64": ("pwrite64", "fd data count offset"),
    "lseek": ("lseek", "fd offset whence"), "fsync": ("fsync", "fd"), "fdatasync": ("fdatasync", "fd"),
    "ftruncate": ("ftruncate", "fd length"), "truncate": ("truncate", "path length"), "close": ("close", "fd"),
    "open": ("open", "path flags"), "openat": ("openat", "dirfd path flags"), "creat": ("creat", "path mode"),
    "mkdir": ("mkdir", "path mode"), "mkdirat": ("mkdirat", "dirfd path mode"), "rmdir": ("rmdir", "path"),
    "unlink": ("unlink", "path"), "unlinkat": ("unlinkat", "dirfd path remove"),
    "rename": ("rename", "path path2"), "renameat": ("renameat", "dirfd path dirfd2 path2"),
    "renameat2": ("renameat", "dirfd path dirfd2 path2"), "link": ("link", "path path2"),
    "__fxstat": ("fstat", "fd nothing"),
    "fallocate": ("fallocate", "fd fallocate offset length"), "dup": ("dup", "fd"), "sync": ("sync", ""),
    **dict.fromkeys(("stat", "lstat", "access"), ("access", "path mode")),
    **dict.fromkeys(("newfstatat", "statx", "faccessat"), ("faccessat", "dirfd path mode zero")),
}  # fmt: skip
_SAME = {
    "open64": "open", "creat64": "creat", "lseek64": "lseek", "ftruncate64": "ftruncate", "truncate64": "truncate",
    "pread": "pread64", "pwrite": "pwrite64", "newstat": "stat", "newlstat": "lstat", "stat64": "stat", "lstat64": "lstat",
    "faccessat2": "faccessat", "dup1": "dup",
    "__xstat": "stat", "__lxstat": "lstat", "__xstat64": "stat", "__lxstat64": "lstat", "__fxstat64": "__fxstat",
}  # fmt: skip


class NoCall(str):
    """The reason why a line is not a call; `doubts` is the text of a call whose result is unknown, else an empty string."""

    doubts = ""


def without_result(line: str | NoCall) -> NoCall:
    """Return the NoCall of a call with unknown result; its `doubts` make the call's possible effects uncertain."""
    if isinstance(line, NoCall):
        return line
    out = NoCall(NO_RESULT)
    out.doubts = line.rpartition(" = ")[0]
    return out


def call(process: int, ns: int, name: str, args: Mapping[str, Any], result: int) -> str | NoCall:
    """Return a call as a line of strace.

    Parameters
    ----------
    process : int
        Number of the process whose descriptors the call uses.
    ns : int
        Time at which the call returned, ns.
    args : mapping
        Arguments by name: fd, count, offset, length, whence, flags and mode are numbers (flags and whence may also be
        symbolic names); path and path2 are results of `quoted`; fd_path, the path that -y prints after fd, is a result of
        `shown`; dirfd and dirfd2 are numbers (default: AT_FDCWD).
    result : int
        Return value of the call; a negative errno if the call failed.

    Raises BadLine if an argument is missing or of a wrong kind.
    """
    if not 0 <= ns < _FAR_TIME:
        raise BadLine(f"time {clip(str(ns))} is out of range")
    made = told(name, args, result)
    return made if isinstance(made, NoCall) else f"{process} {ns // 10**9 + ORIGIN}.{ns % 10**9:09} {made}"


def told(name: str, args: Mapping[str, Any], result: int) -> str | NoCall:
    """Return a call as strace prints it, without process and time; NoCall if the importer cannot use the call."""
    spec = _CALLS.get(_SAME.get(name, name))
    if spec is None:
        return NoCall(NOT_A_CALL)
    known, kinds = spec
    if "path2" in kinds and not args.get("path2"):
        return NoCall(NO_SECOND_NAME)
    texts = ", ".join(_argument(name, kind, args) for kind in kinds.split())
    if not -_MOST < result < _MOST:
        raise BadLine(f"result {clip(str(result))} is out of range")
    ends = (
        str(result)
        if result >= 0
        else f"-1 {errno.errorcode.get(-result, 'EUNKNOWN') if result < -1 else 'EUNKNOWN'} (failed)"
    )
    return f"{known}({texts}) = {ends}"


def quoted(path: str) -> str:
    """Return a path in quotes, escaped as strace escapes it."""
    return quoted_bytes(path.encode("utf-8", "backslashreplace"))


def quoted_bytes(raw: bytes) -> str:
    """Return the bytes of a path in quotes, escaped as strace escapes them."""
    return (
        '"' + "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}" for byte in raw) + '"'
    )


def shown(path: str) -> str:
    """Return a path as -y prints it after a descriptor, or an empty string for a relative path."""
    return "<" + quoted(path)[1:-1].replace("<", "\\74").replace(">", "\\76") + ">" if path[:1] == "/" else ""


def _argument(name: str, kind: str, args: Mapping[str, Any]) -> str:
    if kind == "data":
        return _NO_DATA
    if kind in ("zero", "nothing"):
        return "0" if kind == "zero" else "NULL"
    if kind in ("path", "path2"):
        path = args.get(kind)
        if not path:
            raise BadLine(f"{name} without a path")
        return str(path)
    if kind in ("dirfd", "dirfd2"):
        number = _whole(name, kind, args.get(kind, _AT_FDCWD), low=_AT_FDCWD)
        return "AT_FDCWD" if number == _AT_FDCWD else str(number)
    if kind == "mode":
        return "0"
    if kind == "remove":
        value = args.get("flags", 0)
        is_dir = "REMOVEDIR" in value if isinstance(value, str) else bool(_whole(name, "flags", value) & 0x200)
        return "AT_REMOVEDIR" if is_dir else "0"
    if kind in ("flags", "whence") and isinstance(args.get(kind), str):
        return _words(name, args[kind])
    if kind == "flags":
        return _flags(_whole(name, kind, args.get(kind)))
    if kind == "whence":
        number = _whole(name, kind, args.get(kind))
        return _WHENCE.get(number, str(number))
    if kind == "fallocate":
        mode = _whole(name, "mode", args.get("mode", 0))
        return "|".join(word for word, bit in _FALLOCATE if mode & bit) or "0"
    value = _whole(name, kind, args.get(kind), low=-_MOST if name.startswith("lseek") else 0)
    return f"{value}{args.get('fd_path', '')}" if kind == "fd" else str(value)


def _flags(value: int) -> str:
    words = [_WAYS.get(value & 3, "O_RDWR")]
    for word, bits in _OPEN_FLAGS:
        if value & bits == bits:
            words.append(word)
            value &= ~bits
    return "|".join(words)


def _words(name: str, text: str) -> str:
    words = [word.strip() for word in text.replace(",", "|").split("|")]
    if not all(word.isidentifier() and word.isascii() for word in words):
        raise BadLine(f"{name} with flags {clip(text)!r}")
    return "|".join(words)


def _whole(name: str, kind: str, value: Any, low: int = 0) -> int:
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and value.isascii() and len(value) < 20:
        value = int(value)
    if type(value) is not int or not low <= value < _MOST:
        raise BadLine(f"{name} with {kind} {clip(str(value))!r}")
    return value


def take_line(work: Conversion, rewrite: Callable[[str], str | NoCall], line: str) -> None:
    """Convert a line that `rewrite` turns into a line of strace; count a line that `rewrite` rejects."""
    try:
        made = rewrite(line)
    except BadLine as error:
        work.bad(str(error), error.call)
        return
    if isinstance(made, NoCall):
        work.leave_out(made, made.doubts)
    else:
        work.line(made)


def convert(job: Import, form: str, tool: str, rewrite: Callable[[str], str | NoCall]) -> Report:
    """Convert the lines of a file with `rewrite`, which returns a line of strace, returns a NoCall or raises BadLine."""
    work = Conversion(job.given.path, job.strict, Importer(Names(job.under), ""), form, tool)
    for lines in blocks(job.given, tool, job.progress):
        for line in lines:
            take_line(work, rewrite, line)
        work.imp.drain(job.writer)
    return work.finish(job.writer)
