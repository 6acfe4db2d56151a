"""What a program truly did, as an observer outside of the trace sees it: /proc and stat before and after each call.

Events have the form of a trace's rows: (operation, file, offset, length), where a file is the number of an inode in the order of
discovery.
"""

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.programs import calls as c

Event = tuple[str, int, int, int]


@dataclass
class File:
    """An inode of the program's folder."""

    path: str  # the first name
    first: int  # bytes before the program; -1: the program made it
    is_dir: bool = False
    known: bool = False  # whether a call showed its first length before the program changed it
    odd: bool = False  # whether a failed call changed its length
    final: int = -1  # bytes at the end; -1: the inode was freed
    changed: bool = False  # whether its length may have changed


class Seen(NamedTuple):
    """What stands behind a descriptor or a path."""

    key: tuple[int, int]
    mode: int
    size: int
    position: int = 0
    flags: int = 0


@dataclass
class Truth:
    """The events so far, and the inodes that they are about."""

    folder: str
    events: list[Event] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    numbers: dict[tuple[int, int], int] = field(default_factory=dict)
    by_call: list[int] = field(default_factory=list)  # for each event: the script's line

    def adopt(self, path: str) -> None:
        """Note a file that was there before the program."""
        status = os.lstat(path)
        self._number(status, path, 0 if stat.S_ISDIR(status.st_mode) else status.st_size)

    def _number(self, status: Any, path: str, first: int) -> int:
        key = status.st_dev, status.st_ino
        self.numbers[key] = len(self.files)
        self.files.append(File(path, first, stat.S_ISDIR(status.st_mode)))
        return self.numbers[key]

    def finish(self, keys_open: Sequence[tuple[tuple[int, int], int]] = ()) -> None:
        """Note the final sizes: of every name in the folder, and of the inodes that are still open."""
        for above, folders, names in os.walk(self.folder):
            for name in (*folders, *names):
                status = os.lstat(os.path.join(above, name))
                number = self.numbers.get((status.st_dev, status.st_ino))
                if number is not None:
                    self.files[number].final = status.st_size
        for key, size in keys_open:
            if key in self.numbers:
                self.files[self.numbers[key]].final = size

    # --- looking

    @staticmethod
    def at(tid: int, path: str, base: int = c.AT_FDCWD) -> str:
        """Return a path of a task as one that this process can use."""
        if path.startswith("/"):
            return path
        start = f"/proc/{tid}/cwd" if base == c.AT_FDCWD else f"/proc/{tid}/fd/{base}"
        try:
            return os.path.join(os.readlink(start).removesuffix(" (deleted)"), path)
        except OSError:
            return f"/nowhere/{path}"

    @staticmethod
    def named(path: str) -> Seen | None:
        """Return what has a path."""
        try:
            status = os.stat(path)
        except OSError:
            return None
        return Seen((status.st_dev, status.st_ino), status.st_mode, status.st_size)

    @staticmethod
    def open_as(tid: int, fd: Any) -> Seen | None:
        """Return what stands behind a descriptor of a task."""
        try:
            status = os.stat(f"/proc/{tid}/fd/{fd}")
            with open(f"/proc/{tid}/fdinfo/{fd}") as file:
                words = file.read().split()
        except OSError:
            return None
        return Seen((status.st_dev, status.st_ino), status.st_mode, status.st_size, int(words[1]), int(words[3], 8))

    @staticmethod
    def descriptors(tid: int) -> list[int]:
        """Return the open descriptors of a task."""
        try:
            return sorted(map(int, os.listdir(f"/proc/{tid}/fd")))
        except OSError:
            return []

    # --- noting

    def emit(self, op: str, seen: Seen | None, offset: int = 0, length: int = 0, data: bool = False) -> None:
        """Add an event, if it is about a file or directory of the folder."""
        if seen is None or seen.key not in self.numbers or (data and not stat.S_ISREG(seen.mode)):
            return
        self.events.append((op, self.numbers[seen.key], offset, length))
        self.files[self.numbers[seen.key]].changed |= op in ("write", "truncate", "fallocate")

    def make(self, seen: Seen, path: str) -> None:
        """Note a new inode; one outside of the folder is forgotten."""
        if not os.path.normpath(path).startswith(self.folder + "/"):
            self.numbers.pop(seen.key, None)
            return
        self.numbers[seen.key] = len(self.files)
        self.files.append(File(path, -1, stat.S_ISDIR(seen.mode)))

    def shown(self, seen: Seen | None) -> None:
        """Note that a call showed a file's length."""
        if seen is not None and seen.key in self.numbers:
            self.files[self.numbers[seen.key]].known |= not self.files[self.numbers[seen.key]].changed


class Watch:
    """Looks before and after one call."""

    def __init__(self, truth: Truth, tid: int, name: str, arguments: list[Any]) -> None:
        self.truth, self.tid, self.name, self.a = truth, tid, name, arguments
        self.fds = {i: truth.open_as(tid, arguments[i]) for i in _FDS.get(name, ()) if isinstance(arguments[i], int)}
        self.paths: dict[int, str] = {}
        self.before: dict[int, Seen | None] = {}
        for i, base in _PATHS.get(name, {}).items():
            if isinstance(arguments[i], str):
                self.paths[i] = truth.at(tid, arguments[i], c.AT_FDCWD if base is None else arguments[base])
                self.before[i] = truth.named(self.paths[i])
        self.sizes = [truth.open_as(tid, fd) for fd in self._submitted()]
        self.range: list[Seen | None] = []
        if name == "close_range":
            self.range = [truth.open_as(tid, fd) for fd in truth.descriptors(tid) if arguments[0] <= fd <= arguments[1]]

    def _submitted(self) -> list[int]:
        if self.name == "io_submit":
            return list(self.a[2][2::4])
        return [self.a[1]] if self.name == "io_uring" else []

    def after(self, result: int | None) -> None:
        """Note what the call did, which returned `result`."""
        if result is None or result < 0:
            self._failed()
            return
        handler = _HANDLERS.get(self.name)
        if handler is not None:
            handler(self, result)

    def _failed(self) -> None:
        """Forget the length of a file that a failed call changed, as ext4 does at EFAULT: no trace shows it."""
        for i, was in self.fds.items():
            seen = self.truth.open_as(self.tid, self.a[i])
            if was is not None and seen is not None and seen.key in self.truth.numbers and seen.size != was.size:
                self.truth.files[self.truth.numbers[seen.key]].odd = True

    def moved(self, op: str, i: int, length: int, at: int | None = None) -> None:
        """Note a transfer by the descriptor in argument `i`, at its position or at a given one."""
        was = self.fds.get(i)
        if was is None:
            return
        offset = was.position if at is None else at
        if op == "write" and was.flags & c.O_APPEND:
            offset = was.size
        self.truth.emit(op, was, offset, length, data=True)


def _read(w: Watch, result: int) -> None:
    w.moved("read", 0, result)


def _write(w: Watch, result: int) -> None:
    w.moved("write", 0, result)


def _positional(op: str, where: int) -> Callable[[Watch, int], None]:
    def handler(w: Watch, result: int) -> None:
        w.moved(op, 0, result, None if w.a[where] == -1 else w.a[where])

    return handler


def _copy(source: int, source_at: int | None, sink: int, sink_at: int | None) -> Callable[[Watch, int], None]:
    def where(w: Watch, i: int | None) -> int | None:
        return w.a[i][1] if i is not None and w.a[i] is not None else None

    def handler(w: Watch, result: int) -> None:
        w.moved("read", source, result, where(w, source_at))
        w.moved("write", sink, result, where(w, sink_at))

    return handler


def _open(w: Watch, result: int) -> None:
    i = next(iter(w.paths))
    flags = c.O_CREAT | c.O_TRUNC | c.O_WRONLY if w.name == "creat" else w.a[i + 1]
    seen, before, t = w.truth.open_as(w.tid, result), w.before[i], w.truth
    if seen is None or flags & c.O_PATH:
        return
    if before is None or flags & c.O_TMPFILE == c.O_TMPFILE:
        t.make(seen, w.paths[i] if before is None else f"{w.paths[i]}/#")
        t.emit("create", seen)
        return
    t.emit("open", seen)
    if flags & c.O_TRUNC:
        t.emit("truncate", seen)


def _mkdir(w: Watch, result: int) -> None:
    path = next(iter(w.paths.values()))
    if (seen := w.truth.named(path)) is not None:
        w.truth.make(seen, path)
        w.truth.emit("mkdir", seen)


def _by_path(op: str) -> Callable[[Watch, int], None]:
    def handler(w: Watch, result: int) -> None:
        seen = next(iter(w.before.values()))
        removes = w.name == "unlinkat" and w.a[2] & c.AT_REMOVEDIR
        w.truth.emit("rmdir" if removes else op, seen, w.a[1] if op == "truncate" else 0)

    return handler


def _by_fd(op: str) -> Callable[[Watch, int], None]:
    return lambda w, result: w.truth.emit(op, w.fds[0])


def _ftruncate(w: Watch, result: int) -> None:
    w.truth.emit("truncate", w.fds[0], w.a[1])


def _ranged(op: str, at: int) -> Callable[[Watch, int], None]:
    return lambda w, result: w.truth.emit(op, w.fds[0], w.a[at], w.a[at + 1])


def _fallocate(w: Watch, result: int) -> None:
    if not w.a[1] & (c.COLLAPSE_RANGE | c.INSERT_RANGE):
        w.truth.emit("fallocate", w.fds[0], w.a[2], w.a[3])
    elif (seen := w.truth.open_as(w.tid, w.a[0])) is not None:  # blocks move: a row of the new length
        w.truth.emit("truncate", seen, seen.size)


def _mmap(w: Watch, result: int) -> None:
    w.truth.emit("mmap", w.fds.get(4), w.a[5], w.a[1])


def _close(w: Watch, result: int) -> None:
    if w.fds[0] is not None and not w.fds[0].flags & c.O_PATH:
        w.truth.emit("close", w.fds[0])


def _close_range(w: Watch, result: int) -> None:
    if not w.a[2] & 4:
        for seen in w.range:
            if seen is not None and not seen.flags & c.O_PATH:
                w.truth.emit("close", seen)


def _lseek(w: Watch, result: int) -> None:
    if w.a[2] == c.SEEK_END:
        w.truth.shown(w.fds[0])


def _stat(w: Watch, result: int) -> None:
    w.truth.shown(w.fds[0] if w.fds else next(iter(w.before.values())))


def _request(w: Watch, seen: Seen | None, write: bool, offset: int, length: int) -> None:
    if seen is None:
        return
    if write:
        w.truth.emit("write", seen, seen.size if seen.flags & c.O_APPEND else offset, length, data=True)
    else:
        w.truth.emit("read", seen, offset, max(min(length, seen.size - offset), 0), data=True)


def _io_submit(w: Watch, result: int) -> None:
    requests = w.a[2][1:]
    for i in range(result):
        opcode, _, offset, length = requests[4 * i : 4 * i + 4]
        _request(w, w.sizes[i], opcode == 1, offset, length)


def _io_uring(w: Watch, result: int) -> None:
    _request(w, w.sizes[0], w.a[0] == 23, w.a[2], result)


_FDS: dict[str, tuple[int, ...]] = {
    name: (0,)
    for name in "read write lseek pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 fsync fdatasync ftruncate close "
    "sync_file_range fallocate fstat".split()
} | {"sendfile": (0, 1), "copy_file_range": (0, 2), "splice": (0, 2), "mmap": (4,)}
# argument with a path -> argument with its directory
_PATHS: dict[str, dict[int, int | None]] = {
    name: {0: None} for name in "open creat truncate unlink rmdir mkdir rename link stat".split()
} | {name: {1: 0} for name in "openat mkdirat unlinkat linkat renameat2 newfstatat".split()}
_HANDLERS: dict[str, Callable[[Watch, int], None]] = {
    "read": _read, "readv": _read, "write": _write, "writev": _write,
    "pread64": _positional("read", 3), "preadv": _positional("read", 3), "preadv2": _positional("read", 3),
    "pwrite64": _positional("write", 3), "pwritev": _positional("write", 3), "pwritev2": _positional("write", 3),
    "sendfile": _copy(1, 2, 0, None), "copy_file_range": _copy(0, 1, 2, 3), "splice": _copy(0, 1, 2, 3),
    "open": _open, "openat": _open, "creat": _open, "mkdir": _mkdir, "mkdirat": _mkdir,
    "unlink": _by_path("unlink"), "unlinkat": _by_path("unlink"), "rmdir": _by_path("rmdir"), "rename": _by_path("rename"),
    "renameat2": _by_path("rename"), "link": _by_path("link"), "linkat": _by_path("link"), "truncate": _by_path("truncate"),
    "ftruncate": _ftruncate, "fsync": _by_fd("fsync"), "fdatasync": _by_fd("fsync"), "sync_file_range": _ranged("fsync", 1),
    "fallocate": _fallocate, "mmap": _mmap, "close": _close, "close_range": _close_range, "lseek": _lseek, "stat": _stat,
    "fstat": _stat, "newfstatat": _stat, "io_submit": _io_submit, "io_uring": _io_uring,
}  # fmt: skip
