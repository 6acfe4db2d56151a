r"""Convert system calls in Valgrind's text (--trace-syscalls=yes) to lines of strace.

`SYSCALL[PID,THREAD](NUMBER) sys_NAME ( ARGUMENTS )[sync] --> Success(0xRESULT)`; a call that may block is two lines,
`... --> [async] ...` and `SYSCALL[PID,THREAD](NUMBER) ... [async] --> Success(0xRESULT)`.  A path is `0xADDRESS(PATH)`, unescaped.
Other data in memory (struct stat, clone3's flags, offsets of sendfile) is not in the text.
Source: coregrind/m_syswrap of Valgrind 3.19, and its output.
"""

import re

from scmsim.trace.reading.lines import BadLine
from scmsim.trace.syscalls import as_strace
from scmsim.trace.syscalls.as_strace import NoCall
from scmsim.trace.syscalls.from_numbers import NEEDS_MEMORY, arguments, result

BEGUN = "first half of a call (its end makes the row)"
CHILD = "call of a forked child"
FORKED = "fork or execve: what it starts is not recorded"
SCHEDULER = "message of Valgrind"
LONE = "end of a call that began before the text"

_LINE = re.compile(r"SYSCALL\[(\d{1,10}),(\d{1,6})\]\( *\d{1,5}\) (.*)")
# no two parts of a pattern may share a run of blanks, or its time grows with the square of the run
_RESULT = re.compile(r" *(?:\[[\w-]+\] *)?(Success|Failure)\(0x([0-9a-f]{1,16})\) *")
_HOW = re.compile(r"\[\w+\]$")
_CALLED = re.compile(r"(?:sys_)?(\w+?)(?:\[\w+=='\w+'\])? *\((.*)\)")
_TURN = re.compile(r"--(\d{1,10})-- +SCHED\[(\d{1,6})\]: +acquired lock")
_NUMBER = r"(-?(?:0x[0-9a-f]{1,16}|\d{1,20}))"
_PATH = r"0x[0-9a-f]{1,16}\((.{0,4096})\)"  # PATH_MAX is 4096
_STARTS = frozenset(("clone", "clone3", "fork", "vfork", "execve", "execveat"))
_SAME = {"newstat": "stat", "newlstat": "lstat", "newfstat": "fstat", "mmap2": "mmap", "lseek64": "lseek"}

# call -> kinds of its arguments: P a path, P2 a second path, others by their names in `as_strace`
_PATHS = {
    "open": "P flags", "openat": "dirfd P flags", "creat": "P", "truncate": "P length", "unlink": "P", "unlinkat": "dirfd P",
    "rmdir": "P", "mkdir": "P", "mkdirat": "dirfd P", "rename": "P P2", "renameat": "dirfd P dirfd2 P2",
    "renameat2": "dirfd P dirfd2 P2", "link": "P P2", "stat": "P", "lstat": "P", "access": "P", "newfstatat": "dirfd P",
    "statx": "dirfd P", "faccessat": "dirfd P", "faccessat2": "dirfd P", "chdir": "P",
}  # fmt: skip


def _pattern(kinds: str) -> re.Pattern[str]:
    parts = (_PATH if kind in ("P", "P2") else _NUMBER for kind in kinds.split())
    return re.compile(", *".join(parts) + r"(?:, *.*)?")


_PATTERNS = {name: (kinds.split(), _pattern(kinds)) for name, kinds in _PATHS.items()}


_THREADS = 5_000_000  # above every pid (PID_MAX_LIMIT is 2^22), and of 7 digits, as strace's importer expects


class Calls:
    """Converter of the lines of one text that are not accesses.

    Attributes
    ----------
    process : str or None
        The first process of the text; all accesses are attributed to it.
    thread : str
        Its running thread, in Valgrind's numbers.
    started, children : int
        Number of forks and execs that succeeded; number of lines of other processes.
    """

    def __init__(self) -> None:
        self.process: str | None = None
        self.thread = "1"
        self.started = self.children = 0
        self._begun: dict[tuple[str, str], str] = {}

    def task(self) -> str:
        """Return the running thread's number for strace's importer; the first thread has its process's number."""
        process = self.process or "1"
        return process if self.thread == "1" else str(_THREADS + int(self.thread) % _THREADS)

    def take(self, line: str) -> str | NoCall:
        """Return Valgrind's line as a line of strace, or the reason why it makes none; raise BadLine if it is not understood."""
        if line.startswith("SYSCALL["):
            return self._call(line)
        if turn := _TURN.match(line):
            if turn[1] == self.process:
                self.thread = turn[2]
            return NoCall(SCHEDULER)
        if line.startswith(("--", "==", " -->")) or not line.strip():
            return NoCall(SCHEDULER)
        if line[0].isdigit():
            return line  # a line of strace that a capture added
        raise BadLine("this is neither an access nor a message of Valgrind")

    def _call(self, line: str) -> str | NoCall:
        found = _LINE.fullmatch(line)
        if found is None:
            raise BadLine("a call that is not complete")
        process, thread, text = found.groups()
        self.process = self.process or process
        if process != self.process:
            self.children += 1
            return NoCall(CHILD)
        self.thread = thread
        if text.startswith("..."):
            first = self._begun.pop((process, thread), None)
            if first is None:
                return NoCall(LONE)
            text = first + text[3:]
        before, _, after = text.rpartition("-->")
        ended = _RESULT.fullmatch(after)
        if ended is None:
            self._begun[process, thread] = text.partition("-->")[0].rpartition("[async]")[0] or text.partition("-->")[0]
            return NoCall(BEGUN)
        value = int(ended[2], 16)
        called = _HOW.sub("", before.rstrip(" ")).rstrip(" ")
        return self._told(called, -value if ended[1] == "Failure" else value - (value >> 63 << 64))

    def _told(self, text: str, value: int) -> str | NoCall:
        called = _CALLED.fullmatch(text)
        if called is None:
            return NoCall(as_strace.NOT_A_CALL)
        name = _SAME.get(called[1], called[1])
        if name in _STARTS:
            self.started += value >= 0
            return NoCall(FORKED)
        inside = called[2].strip(" ")
        made = _on_path(name, inside, value) if name in _PATHS else _on_numbers(name, inside, value)
        return made if isinstance(made, NoCall) else f"{self.task()} {made}"


def _on_path(name: str, text: str, value: int) -> str | NoCall:
    kinds, pattern = _PATTERNS[name]
    found = pattern.fullmatch(text)
    if found is None:
        raise BadLine(f"{name} with arguments of an unknown form")
    args: dict[str, str | int] = {"flags": 0}
    for kind, given in zip(kinds, found.groups(), strict=True):
        if kind in ("P", "P2"):
            args["path" if kind == "P" else "path2"] = as_strace.quoted_bytes(given.encode("latin-1"))
        else:
            args[kind] = _word(given)
    if name == "chdir":
        return f"chdir({args['path']}) = 0" if value == 0 else NoCall(as_strace.NOT_A_CALL)
    if args["path"] == '""':  # AT_EMPTY_PATH: the call is on the descriptor
        return _fstat(args["dirfd"], value) if "dirfd" in args else NoCall(as_strace.NOT_A_CALL)
    return as_strace.told(name, args, value)


def _on_numbers(name: str, text: str, value: int) -> str | NoCall:
    if name == "fstat" and (found := re.match(_NUMBER, text)):
        return _fstat(_word(found[1]), value)
    if name in NEEDS_MEMORY:
        return NoCall(as_strace.NOT_A_CALL)
    parts = [part.strip(" ") for part in text.split(",")] if text else []
    if not all(re.fullmatch(_NUMBER, part) for part in parts):
        return NoCall(as_strace.NOT_A_CALL)
    args = [_whole(part) & (1 << 64) - 1 for part in parts] + [0] * 6
    return f"{name}({arguments(name, args)}) = {result(name, value, args)}"


def _fstat(fd: str | int, value: int) -> str:
    return f"fstat({fd}, 0x0) = {result('fstat', value, ())}"


def _whole(text: str) -> int:
    return int(text, 16 if "x" in text else 10)


def _word(text: str) -> int:
    """Return a descriptor or flags as a signed number of 32 bits."""
    value = _whole(text) & 0xFFFFFFFF
    return value - (value >> 31 << 32)
