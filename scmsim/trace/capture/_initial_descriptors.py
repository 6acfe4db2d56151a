"""Describe a process's open descriptors at the start of a capture as strace lines, which the strace importer reads.

`fcntl(F_GETFL)` names a descriptor and its flags; two `lseek` lines give the file's length and the position.  None of
these lines makes a row.  Source of the data: /proc/PID/fd, fdinfo, task and cwd, see proc(5).
"""

import contextlib
import ctypes
import os
import pathlib
import platform
import re
import signal
import stat
import time
from collections.abc import Iterator

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.trace.syscalls.from_numbers import open_flags

_STOP_S = 5.0
_CLOEXEC = 0o2000000
_PLAIN = re.compile(rb"[^ !#-;=?-\[\]-~]")  # bytes to escape: non-printable or non-ASCII ones, and " < > and backslash
_KCMP = {"x86_64": 312, "aarch64": 272}  # number of the system call kcmp(2)
_KCMP_FILE = 0
_SHARED = "CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD"


@contextlib.contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Stop a process (SIGSTOP), so that its file positions stay the same while they are read and a tracer attaches."""
    was_stopped = "T" in _states(pid)
    try:
        os.kill(pid, signal.SIGSTOP)
    except PermissionError:
        raise EnvironmentProblem(f"process {pid} belongs to another user; run as root to attach to it") from None
    except ProcessLookupError:
        raise UsageError(f"process {pid} has ended; see 'ps -e' for the running processes") from None
    try:
        end = time.monotonic() + _STOP_S
        while time.monotonic() < end and not _states(pid) <= {"T", "t", "Z", "X"}:
            time.sleep(0.002)
        yield
    finally:
        if not was_stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _status(task: pathlib.Path, name: str) -> str:
    try:
        text = (task / "status").read_text(errors="replace")
    except OSError:
        return ""
    found = re.search(rf"^{name}:\s*(\S+)", text, re.MULTILINE)
    return found[1] if found else ""


def _tasks(pid: int) -> list[pathlib.Path]:
    try:
        return sorted(pathlib.Path(f"/proc/{pid}/task").iterdir(), key=lambda task: int(task.name))
    except OSError:
        return []


def _states(pid: int) -> set[str]:
    return {_status(task, "State") for task in _tasks(pid)} - {""}


def thread_ids(pid: int) -> list[int]:
    """Return the thread numbers of a process."""
    return [int(task.name) for task in _tasks(pid)]


def alive(pid: int) -> bool:
    """Return whether a process runs; an ended process that its parent has not waited for (a zombie) does not."""
    return bool(_states(pid) - {"Z", "X"})


def traced(pid: int) -> bool:
    """Return whether every thread of a process has a tracer."""
    tracers = [_status(task, "TracerPid") for task in _tasks(pid)]
    return bool(tracers) and "0" not in tracers


def write(pid: int, path: pathlib.Path) -> str:
    """Write the strace lines that describe a running process's open descriptors; return its working directory."""
    cwd, found = running(pid)
    path.write_bytes(lines(pid, found))
    return cwd


def running(pid: int) -> tuple[str, list[bytes]]:
    """Return the working directory of a running process, and the calls that describe its open descriptors."""
    try:
        return os.readlink(f"/proc/{pid}/cwd"), [*threads(pid), *descriptors(pid)]
    except PermissionError:
        raise EnvironmentProblem(f"/proc/{pid}/fd is not readable; run as root to attach to process {pid}") from None
    except FileNotFoundError:
        raise UsageError(f"process {pid} has ended; see 'ps -e' for the running processes") from None


def lines(pid: int, calls: list[bytes], stamp: str = "") -> bytes:
    """Return calls as strace lines of a process, all with the time `stamp` (default: now)."""
    now = f"{pid} {stamp or f'{time.time():.6f}'} ".encode()
    return b"".join(now + call + b"\n" for call in calls)


def threads(pid: int) -> list[bytes]:
    """Return calls that set a process's working directory and make its other threads share it and the descriptors."""
    others = [tid for tid in thread_ids(pid) if tid != pid]
    cwd = b'chdir("%s") = 0' % quoted(os.fsencode(os.readlink(f"/proc/{pid}/cwd")))
    return [cwd] + [f"clone(flags={_SHARED}) = {tid}".encode() for tid in others]


def descriptors(pid: int, *, inherited_only: bool = False) -> list[bytes]:
    """Return calls that describe a process's open descriptors; with `inherited_only`, those without close-on-exec."""
    out: list[bytes] = []
    seen: dict[tuple[int, int, int], list[str]] = {}
    for name in sorted(os.listdir(f"/proc/{pid}/fd"), key=int):
        with contextlib.suppress(FileNotFoundError):  # the descriptor of the listing itself is closed by now
            out += _descriptor(pid, name, inherited_only, seen)
    return out


def _descriptor(pid: int, name: str, inherited_only: bool, seen: dict[tuple[int, int, int], list[str]]) -> list[bytes]:
    target = os.fsencode(os.readlink(f"/proc/{pid}/fd/{name}"))
    info = pathlib.Path(f"/proc/{pid}/fdinfo/{name}").read_text().splitlines()[:2]
    position, flags = (int(line.split(":")[1], base) for line, base in zip(info, (10, 8), strict=True))
    if inherited_only and flags & _CLOEXEC:
        return []
    about = os.stat(f"/proc/{pid}/fd/{name}")
    what = b"%s<%s>" % (name.encode(), quoted(target.removesuffix(b" (deleted)")))
    if stat.S_ISREG(about.st_mode) and not about.st_nlink:
        what += b"(deleted)"
    closed = [b"fcntl(%s, F_SETFD, FD_CLOEXEC) = 0" % what] if flags & _CLOEXEC else []
    same = seen.setdefault((about.st_dev, about.st_ino, position), [])
    twin = next((other for other in same if _one_description(pid, int(other), int(name))), None)
    same.append(name)
    if twin is not None:
        return [b"dup2(%s, %s) = %s" % (what.replace(name.encode(), twin.encode(), 1), name.encode(), what), *closed]
    flags &= ~_CLOEXEC
    out = [b"fcntl(%s, F_GETFL) = 0x%x (flags %s)" % (what, flags, open_flags(flags).encode())]
    if stat.S_ISREG(about.st_mode):
        out.append(b"lseek(%s, 0, SEEK_END) = %d" % (what, about.st_size))
        out.append(b"lseek(%s, 0, SEEK_SET) = %d" % (what, position))
    return out + closed


def _one_description(pid: int, one: int, two: int) -> bool:
    """Return whether two descriptors share one open file description, and so their position; False if kcmp is missing."""
    call = _KCMP.get(platform.machine())
    return call is not None and ctypes.CDLL(None).syscall(call, pid, pid, _KCMP_FILE, one, two) == 0


def quoted(path: bytes) -> bytes:
    """Return a path as strace writes it inside quotes and angle brackets."""
    return _PLAIN.sub(lambda match: b"\\%03o" % match[0][0], path)
