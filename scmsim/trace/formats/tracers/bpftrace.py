"""Import the text of the bpftrace program `scmsim/trace/capture/calls.bt`: calls, io_uring's transfers, page faults.

That file describes the columns.  Each processor has its own buffer, so a line can be late by as many lines as the
buffers hold.  The importer sorts the lines in a window.  Every event becomes a line of strace.  bpftrace cuts paths at
199 characters; a call with a cut path is not understood.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator

from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.input import Input
from scmsim.trace.reading.lines import BadLine, Progress, blocks
from scmsim.trace.reading.report import Report
from scmsim.trace.syscalls import as_strace
from scmsim.trace.syscalls.as_strace import NoCall
from scmsim.trace.syscalls.conversion import Conversion
from scmsim.trace.syscalls.from_numbers import NEEDS_MEMORY, arguments, fd, flags, open_flags, result, signed
from scmsim.trace.syscalls.importer import Importer
from scmsim.trace.syscalls.names import Names
from scmsim.trace.syscalls.numbers import names

SUMMARY = (
    "text of the bpftrace program calls.bt: calls with their paths, io_uring with its offsets, page faults (x86-64)"
)

TITLE = "scmsim-calls 1"
_TOOL = "text of bpftrace with calls.bt"
_WINDOW = 1 << 18  # lines sorted at once: more than the buffers of two processors can hold
_CUT = 199  # characters of a path that bpftrace prints at most
_LINE = re.compile(r"([cpnuemr]) (\d{1,10}) (\d{1,10}) (\d{1,19})(?: (.*))?", re.DOTALL)
_LOST = re.compile(r"Lost (\d{1,15}) events")
_NUMBERS = {"c": 10, "n": 2, "u": 7, "m": 2, "e": 0, "r": 3}
_MOST = 1 << 64

# opcodes of io_uring (linux/io_uring.h) that move bytes at an offset, or sync
_READS, _WRITES, _FSYNC = (1, 4, 22), (2, 5, 23), 3
_FIXED_FILE = 1  # REQ_F_FIXED_FILE: the descriptor is an index of registered files
# a file registered with io_uring becomes a duplicate of its descriptor: first number of these, and maximum per ring
_REGISTERED = 10**9
_SLOTS = 10**4
_AT = ((0x100, "AT_SYMLINK_NOFOLLOW"), (0x1000, "AT_EMPTY_PATH"))
_CLONE = ((0x100, "CLONE_VM"), (0x200, "CLONE_FS"), (0x400, "CLONE_FILES"))
_NAMESPACES = (
    (0x80, "CLONE_NEWTIME"), (0x20000, "CLONE_NEWNS"), (0x2000000, "CLONE_NEWCGROUP"), (0x4000000, "CLONE_NEWUTS"),
    (0x8000000, "CLONE_NEWIPC"), (0x10000000, "CLONE_NEWUSER"), (0x20000000, "CLONE_NEWPID"), (0x40000000, "CLONE_NEWNET"),
)  # fmt: skip
_FORMATS = (
    (0o040000, "S_IFDIR"),
    (0o100000, "S_IFREG"),
    (0o120000, "S_IFLNK"),
    (0o020000, "S_IFCHR"),
    (0o010000, "S_IFIFO"),
)
_WROTE, _FETCHED = 2, 16  # bits of a page fault's error code on x86
_NAMES = names("x86_64")
_PATH = "path (its call makes the row)"
_RING = "other request of io_uring"


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether one of the first lines is the title of the program."""
    return TITLE.encode() in head[:4096].split(b"\n")


@importer
def convert(job: Import, cwd: str = "") -> Report:
    """Convert the text and close the writer (see `scmsim.trace.formats`)."""
    work = Conversion(job.given.path, job.strict, Importer(Names(job.under), cwd), "bpftrace", _TOOL)
    text = _Text()
    for line in _sorted(job.given, job.progress, text):
        as_strace.take_line(work, text.take, line)
        work.imp.drain(job.writer)
    work.report.lost_events = text.lost
    if text.faults:
        work.imp.writable.clear()
    return work.finish(job.writer, text.blind_spots())


def _sorted(given: Input, progress: Progress | None, text: "_Text") -> Iterator[str]:
    """Yield the lines in order of time, sorted in a window; a line without a time stays after the line before it."""
    held: list[tuple[int, int, str]] = []
    number = now = 0
    for lines in blocks(given, _TOOL, progress):
        for line in lines:
            m = _LINE.fullmatch(line)
            now = int(m[4]) if m else now
            held.append((now, number, line))
            number += 1
        if len(held) > 2 * _WINDOW:
            held.sort()
            yield from (line for _, _, line in held[:_WINDOW])
            del held[:_WINDOW]
    held.sort()
    yield from (line for _, _, line in held)


class _Text:
    """Converter of the program's lines, with the state that later lines need."""

    def __init__(self) -> None:
        self.lost = self.faults = 0
        self._read = ""  # name and result of the current call, as far as they could be read
        self._paths: dict[str, list[str]] = {}
        self._missed: Counter[str] = Counter()
        self._rings: dict[str, int] = {}  # rings that have registered files
        self._registered: set[int] = set()

    def blind_spots(self) -> list[str]:
        """Return texts about lost events and requests without a row, for the header."""
        out = [f"io_uring: {count} {what} make no row" for what, count in self._missed.items()]
        lost = f"{self.lost} events lost: rows are missing, positions after them may be wrong"
        return [*out, lost] if self.lost else out

    def take(self, line: str) -> str | NoCall:
        """Convert a line that bpftrace printed to a line of strace; return the reason if it is not a call."""
        m = _LINE.fullmatch(line)
        if m is None:
            return line if line[:1].isdigit() else self._other(line)  # a line of strace that the capture has added
        kind, pid, tid, now, rest = m.groups()
        stamp = f"{tid} {int(now) // 10**9 + as_strace.ORIGIN}.{int(now) % 10**9:09}"
        if kind == "p":
            self._paths.setdefault(tid, []).append(rest or "")
            return NoCall(_PATH)
        parts = (rest or "").split(" ") if rest else []
        if len(parts) != _NUMBERS[kind]:
            raise BadLine(f"a line of kind {kind!r} with {len(parts)} columns after the time, not {_NUMBERS[kind]}")
        take = {
            "c": self._call,
            "n": self._clone,
            "u": self._request,
            "m": self._fault,
            "e": self._end,
            "r": self._register,
        }
        self._read = ""
        try:
            made = take[kind](tid, parts)
        except BadLine as error:
            error.call = f"{stamp} {self._read}" if self._read else ""
            raise
        return made if isinstance(made, NoCall) else f"{stamp} {made}"

    def _other(self, line: str) -> NoCall:
        if lost := _LOST.fullmatch(line):
            self.lost += int(lost[1])
            return NoCall("lost events")
        if not line.strip() or line == TITLE or line.startswith("Attaching "):
            return NoCall("title")
        raise BadLine("this is not a line of calls.bt")

    def _end(self, tid: str, parts: list[str]) -> str:
        self._paths.pop(tid, None)
        return "+++ exited with 0 +++"

    def _clone(self, tid: str, parts: list[str]) -> str:
        return f"clone(flags={flags(_whole(parts[1], 16), _CLONE)}) = {_whole(parts[0])}"

    def _fault(self, tid: str, parts: list[str]) -> str:
        self.faults += 1
        address, code = (_whole(part, 16) for part in parts)
        kind = "FAULT_WRITE" if code & _WROTE else "FAULT_EXEC" if code & _FETCHED else "FAULT_READ"
        return f"page_fault({address:#x}, {kind}) = 0"

    def _register(self, tid: str, parts: list[str]) -> str:
        slot, number = _whole(parts[1]), _integer(parts[2])
        if slot >= _SLOTS:
            raise BadLine(f"registered file {slot}; there are at most {_SLOTS}")
        duplicate = _REGISTERED + self._rings.setdefault(parts[0], len(self._rings)) * _SLOTS + slot
        self._registered.add(duplicate)
        return f"dup3({number}, {duplicate}, 0) = {duplicate}" if number >= 0 else f"close({duplicate}) = 0"

    def _request(self, tid: str, parts: list[str]) -> str | NoCall:
        opcode, number, how = _whole(parts[0]), _integer(parts[1]), _whole(parts[2], 16)
        value, offset, length = _integer(parts[3]), _integer(parts[4]), _whole(parts[5])
        name = "read" if opcode in _READS else "write" if opcode in _WRITES else "fsync" if opcode == _FSYNC else None
        if how & _FIXED_FILE and parts[6] in self._rings:
            number += _REGISTERED + self._rings[parts[6]] * _SLOTS
        if name is None or (how & _FIXED_FILE and number not in self._registered):
            self._missed["requests on unknown registered files" if name else f"requests of opcode {opcode}"] += 1
            return NoCall(_RING)
        place = name if name == "fsync" or offset < 0 else {"read": "pread64", "write": "pwrite64"}[name]
        args = [number & _MOST - 1, 0, length, max(offset, 0), 0, 0]
        return f"{place}({arguments(place, args)}) = {result(place, value, args)}"

    def _call(self, tid: str, parts: list[str]) -> str | NoCall:
        paths = self._paths.pop(tid, [])
        name = _NAMES.get(_whole(parts[0]), "")
        value = _integer(parts[1])
        self._read = f"{name}() = {value}" if value >= 0 else ""
        args = [_whole(part, 16) for part in parts[2:8]]
        left = [_whole(part, 16) for part in parts[8:10]]
        if any(len(path) >= _CUT for path in paths):
            raise BadLine(f"{name} with a path of {_CUT} characters or more, which bpftrace cuts")
        if name not in NEEDS_MEMORY:
            return f"{name}({arguments(name, args)}) = {result(name, value, args)}" if name else NoCall("unknown call")
        made = _in_memory(name, args, value, left, [as_strace.quoted_bytes(path.encode("latin-1")) for path in paths])
        if made is None:
            return as_strace.told(name, _named(name, args, paths, left), value)
        return made if isinstance(made, NoCall) else f"{name}({made}) = {result(name, value, args)}"


def _in_memory(name: str, a: list[int], value: int, left: list[int], paths: list[str]) -> str | NoCall | None:
    """Return a call's arguments as strace writes them; None if `as_strace` writes the call, NoCall if no line can be written."""
    path = paths[-1] if paths else ""
    about = f"{{st_mode={_mode(left[1])}, st_size={left[0]}}}" if value == 0 else "0x0"
    where = _directory(a[0])
    if name in ("clone", "clone3", "fork", "vfork"):
        return NoCall("fork (a line of its own says what it made)")
    if name in ("execve", "execveat"):
        return f"{path}, []" if path and name == "execve" else '"", []'
    if name in ("stat", "lstat", "fstat"):
        return f"{path or fd(a[0])}, {about}"
    if name == "newfstatat":
        return f"{where}, {path}, {about}, {flags(a[3], _AT)}"
    if name == "statx":
        return f"{where}, {path}, {flags(a[2], _AT)}, STATX_ALL, {about.replace('st_', 'stx_')}"
    if name == "openat2":
        return f"{where}, {path}, {{flags={open_flags(left[0])}}}, 24"
    if name == "linkat":
        return (
            f"{where}, {paths[0]}, {_directory(a[2])}, {path}, {flags(a[4], _AT)}" if len(paths) == 2 else NoCall(_PATH)
        )
    if name in ("symlink", "symlinkat"):
        middle = "" if name == "symlink" else f" {_directory(a[1])},"
        return f"{paths[0]},{middle} {path}" if len(paths) == 2 else NoCall(_PATH)
    if name == "chdir":
        return path
    if name == "fchdir":
        return str(fd(a[0]))
    if name == "getcwd":
        return f"{path}, {a[1]}"
    if name == "mount":
        return f"NULL, {path}, NULL, 0, NULL" if path else NoCall(_PATH)
    if name in ("umount2", "pivot_root"):
        return f"{path}, {path if name == 'pivot_root' else 0}" if path else NoCall(_PATH)
    if name == "chroot":
        return path
    if name == "setns":
        return f"{fd(a[0])}, {flags(a[1], _NAMESPACES)}"
    if name == "io_submit":  # the requests are not recorded: a blind spot
        return "0x0, 0, []"
    if name == "unshare":
        return "CLONE_FILES" if a[0] & 0x400 else "0"
    if name == "sendfile":
        return f"{fd(a[0])}, {fd(a[1])}, {_behind(a[2], left[0], value)}, {a[3]}"
    if name in ("copy_file_range", "splice"):
        source, target = _behind(a[1], left[0], value), _behind(a[3], left[1], value)
        return f"{fd(a[0])}, {source}, {fd(a[2])}, {target}, {a[4]}, 0"
    return None


def _directory(register: int) -> str:
    return "AT_FDCWD" if fd(register) == -100 else str(fd(register))


def _behind(pointer: int, after: int, moved: int) -> str:
    """Return the value that an offset in memory had before a call that advanced it by `moved` to `after`."""
    return f"[{max(signed(after) - max(moved, 0), 0)}]" if pointer else "NULL"


def _named(name: str, a: list[int], paths: list[str], left: list[int]) -> dict[str, int | str]:
    """Return the arguments of a call on paths, by the names that `as_strace` uses."""
    at = name.endswith("at") or name in ("faccessat2", "renameat2")
    out: dict[str, int | str] = {"dirfd": fd(a[0]), "length": a[1], "flags": a[2 if at else 1] & 0xFFFFFFFF}
    if name.startswith("rename"):
        out["dirfd2"] = fd(a[2])
    for key, path in zip(("path", "path2"), paths, strict=False):
        out[key] = as_strace.quoted_bytes(path.encode("latin-1"))
    return out


def _mode(mode: int) -> str:
    return f"{next((word for bits, word in _FORMATS if mode & 0o170000 == bits), 'S_IFSOCK')}|0{mode & 0o7777:o}"


def _whole(text: str, base: int = 10) -> int:
    try:
        value = int(text, base)
    except ValueError:
        value = -1
    if not 0 <= value < _MOST or not text.isalnum():
        raise BadLine(f"{text[:40]!r} is not a number")
    return value


def _integer(text: str) -> int:
    return -_whole(text[1:]) if text.startswith("-") else _whole(text)
