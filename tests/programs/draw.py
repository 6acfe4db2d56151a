"""Draws the next call of a program, from what its tasks have open at that moment.

A line of a program is [task, call, arguments]. Descriptors are numbers, paths begin with "@/" (the program's folder) or are
relative. A program stays valid if lines are taken out, so a failure can be made smaller.
"""

import random
from collections.abc import Callable
from typing import Any

from tests.programs import calls as c
from tests.programs.agent import CLONE_FILES, CLONE_FS, CLONE_SIGHAND, CLONE_THREAD, CLONE_VM

Line = list[Any]
NAMES = ("a", "b", "c", "d/a", "d/b", "e")
LENGTHS = (0, 1, 7, 100, 512, 4096, 5000, 65536)
OFFSETS = (0, 1, 100, 4096, 5000, 100000, 1 << 32)


class Draw:
    """Draws lines; `descriptors` and `tasks` are looked up when a line is drawn."""

    def __init__(self, seed: str, kinds: "tuple[str, ...]" = ()) -> None:
        self.random = random.Random(seed)
        among = kinds or sorted(KINDS)
        self.kinds = tuple(self.random.sample(among, self.random.randint(min(4, len(among)), len(among))))
        self.unknown = self.random.random() < 0.15  # whether files are used that no call has shown

    def start(self) -> list[Line]:
        """Return the first lines: where the program is, and what there is."""
        lines: list[Line] = [[0, "chdir", ["@"]]]
        if not self.unknown:
            lines += [[0, "newfstatat", [c.AT_FDCWD, name, ["buf"], 0]] for name in ("a", "b", "d", "d/a")]
        return lines + [
            [0, "openat", [c.AT_FDCWD, "a", c.O_RDWR]],
            [0, "openat", [c.AT_FDCWD, "c", c.O_RDWR | c.O_CREAT, 0o644]],
        ]

    def line(self, task: int, fds: list[int], alone: bool) -> Line:
        """Return a line for a task with open descriptors; `alone`: it is the only task of its process."""
        self.fds, self.alone = [fd for fd in fds if fd > 2], alone
        r = self.random
        kind = r.choice(("data", "data", "open", r.choice(self.kinds)))
        name, *arguments = KINDS[kind](self)
        return [task, name, arguments]

    def fd(self) -> int:
        """Return a descriptor, mostly an open one."""
        r = self.random
        return r.choice(self.fds) if self.fds and r.random() < 0.97 else r.choice((63, -1))

    def path(self) -> str:
        r = self.random
        return ("@/" if r.random() < 0.4 else "") + r.choice(NAMES)

    def length(self) -> int:
        return self.random.choice(LENGTHS)

    def offset(self) -> int:
        return self.random.choice(OFFSETS)

    def vector(self) -> list[Any]:
        return ["iov", *(self.length() for _ in range(self.random.randint(1, 3)))]

    def pointer(self) -> list[Any] | None:
        return None if self.random.random() < 0.5 else ["off", self.random.choice(OFFSETS[:5])]


def _data(d: Draw) -> list[Any]:
    r, fd = d.random, d.fd()
    kind = r.randrange(9)
    vector = d.vector()
    at = d.offset()
    either = -1 if r.random() < 0.5 else at
    buffer = ["buf"] if r.random() < 0.97 else 8  # EFAULT
    return [
        ["read", fd, buffer, d.length()], ["write", fd, buffer, d.length()], ["pread64", fd, buffer, d.length(), at],
        ["pwrite64", fd, buffer, d.length(), at], ["readv", fd, vector, len(vector) - 1], ["writev", fd, vector, len(vector) - 1],
        ["preadv2", fd, vector, len(vector) - 1, either, 0, 0], ["pwritev2", fd, vector, len(vector) - 1, either, 0, 0],
        [r.choice(("preadv", "pwritev")), fd, vector, len(vector) - 1, at, 0],
    ][kind]  # fmt: skip


def _open(d: Draw) -> list[Any]:
    r = d.random
    flags = r.choice((0, c.O_WRONLY, c.O_RDWR, c.O_RDWR))
    for flag, chance in ((c.O_CREAT, 0.6), (c.O_TRUNC, 0.2), (c.O_APPEND, 0.25), (c.O_EXCL, 0.1), (c.O_CLOEXEC, 0.3)):
        flags |= flag if r.random() < chance else 0
    kind = r.randrange(12)
    if kind == 0:
        return ["openat", c.AT_FDCWD, r.choice((".", "d", "@/d")), c.O_DIRECTORY]
    if kind == 1:
        return ["openat", c.AT_FDCWD, r.choice((".", "d")), c.O_TMPFILE | c.O_RDWR, 0o600]
    if kind == 2:
        return ["creat", d.path(), 0o644]
    if kind == 3:
        return ["openat", d.fd(), r.choice(("a", "b", "new")), flags, 0o644]
    return ["openat", c.AT_FDCWD, d.path(), flags, 0o644] if kind < 9 else ["open", d.path(), flags, 0o644]


def _seek(d: Draw) -> list[Any]:
    whence = d.random.randrange(5)
    return ["lseek", d.fd(), d.random.choice((0, 0, 100, 4096)), whence]


def _duplicate(d: Draw) -> list[Any]:
    r, to = d.random, d.random.randint(3, 12)
    return r.choice((
        ["dup", d.fd()], ["dup2", d.fd(), to], ["dup3", d.fd(), to, r.choice((0, c.O_CLOEXEC))],
        ["fcntl", d.fd(), r.choice((c.F_DUPFD, c.F_DUPFD_CLOEXEC)), to], ["fcntl", d.fd(), c.F_SETFD, r.randint(0, 1)],
        ["fcntl", d.fd(), c.F_SETFL, c.O_NONBLOCK | r.choice((0, c.O_APPEND))],
    ))  # fmt: skip


def _close(d: Draw) -> list[Any]:
    r = d.random
    if r.random() < 0.2:
        first = r.randint(3, 9)
        return ["close_range", first, first + r.randint(0, 2), r.choice((0, 0, 4))]
    return ["close", d.fd()]


def _name(d: Draw) -> list[Any]:
    r, one, two = d.random, d.path(), d.path()
    return r.choice((
        ["rename", one, two], ["renameat2", c.AT_FDCWD, one, c.AT_FDCWD, two, r.choice((0, 1, 2))], ["unlink", one],
        ["unlinkat", c.AT_FDCWD, one, 0], ["link", one, two], ["linkat", c.AT_FDCWD, one, c.AT_FDCWD, two, 0],
    ))  # fmt: skip


def _directory(d: Draw) -> list[Any]:
    r, name, place = d.random, d.random.choice(("d", "f", "d/f", "@/f")), d.random.choice(("d", "@", "@/d"))
    return r.choice((
        ["mkdir", name, 0o755], ["rmdir", name], ["unlinkat", c.AT_FDCWD, name, c.AT_REMOVEDIR], ["chdir", place],
        ["fchdir", d.fd()], ["mkdirat", c.AT_FDCWD, name, 0o755], ["rename", r.choice(("d", "f")), r.choice(("g", "d/f"))],
    ))  # fmt: skip


def _copy(d: Draw) -> list[Any]:
    r, length = d.random, d.random.choice((1, 100, 4096, 5000))
    return r.choice((
        ["sendfile", d.fd(), d.fd(), d.pointer(), length], ["copy_file_range", d.fd(), d.pointer(), d.fd(), d.pointer(), length, 0],
        ["splice", d.fd(), d.pointer(), d.fd(), d.pointer(), length, 2],
        ["tee", d.fd(), d.fd(), length, 2], ["pipe2", ["buf"], 0o4000], ["socketpair", 1, 1 | 0o4000, 0, ["buf"]],
    ))  # fmt: skip


def _size(d: Draw) -> list[Any]:
    r, fd, length = d.random, d.fd(), d.random.choice((4096, 8192))
    mode = r.choice(
        (
            0,
            c.KEEP_SIZE,
            c.KEEP_SIZE | c.PUNCH_HOLE,
            c.ZERO_RANGE,
            c.ZERO_RANGE | c.KEEP_SIZE,
            c.COLLAPSE_RANGE,
            c.INSERT_RANGE,
        )
    )
    return r.choice((
        ["ftruncate", d.fd(), d.offset()], ["truncate", d.path(), d.offset()], ["fallocate", fd, mode, r.choice((0, 4096)), length],
    ))  # fmt: skip


def _sync(d: Draw) -> list[Any]:
    return d.random.choice(
        (["fsync", d.fd()], ["fdatasync", d.fd()], ["sync_file_range", d.fd(), d.offset(), d.length(), 7])
    )


def _map(d: Draw) -> list[Any]:
    r = d.random
    return ["mmap", 0, r.choice((4096, 10000)), r.choice((1, 3)), r.choice((1, 2)), d.fd(), r.choice((0, 4096))]


def _task(d: Draw) -> list[Any]:
    r = d.random
    kind = r.randrange(9)
    if kind < 2:
        return ["fork"]
    if kind == 2:
        return ["vfork"]
    if kind == 3:
        return ["clone", r.choice((17, 17 | CLONE_FILES, 17 | CLONE_FS, 17 | CLONE_FILES | CLONE_FS)), 0, 0, 0, 0]
    if kind == 4:
        return ["thread", CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD]
    if kind == 5:
        return ["thread", CLONE_VM | 17 | r.choice((0, CLONE_FILES, CLONE_FS))]
    if kind == 6 and d.alone:
        return ["execve", "@agent", None, 0]
    return [r.choice(("exit", "exit_group")), 0] if r.random() < 0.4 else ["dup", d.fd()]


def _look(d: Draw) -> list[Any]:
    return d.random.choice(
        (["fstat", d.fd(), ["buf"]], ["newfstatat", c.AT_FDCWD, d.path(), ["buf"], 0], ["stat", d.path(), ["buf"]])
    )


def _requests(d: Draw) -> list[Any]:
    r = d.random
    if r.random() < 0.5:
        return ["io_uring", r.choice((22, 23)), d.fd(), r.choice(OFFSETS[:6]), ["buf"], d.length()]
    blocks = [[r.randrange(2), d.fd(), r.choice(OFFSETS[:6]), d.length()] for _ in range(r.randint(1, 3))]
    return ["io_submit", ["context"], len(blocks), ["iocbs", *sum(blocks, [])]]


def _limit(d: Draw) -> list[Any]:
    size = d.random.choice((3000, 5000, 1 << 40))
    return [
        "prlimit64",
        0,
        1,
        ["bytes", size.to_bytes(8, "little").hex() + (1 << 40).to_bytes(8, "little").hex()],
        None,
    ]


def _clone_range(d: Draw) -> list[Any]:
    return ["ioctl", d.fd(), c.FICLONE, d.fd()]


KINDS: dict[str, Callable[[Draw], list[Any]]] = {
    "data": _data, "open": _open, "seek": _seek, "duplicate": _duplicate, "close": _close, "name": _name, "directory": _directory,
    "copy": _copy, "size": _size, "sync": _sync, "map": _map, "task": _task, "look": _look, "requests": _requests, "limit": _limit,
    "reflink": _clone_range,
}  # fmt: skip
# calls that are known to be read right: the short test and CI draw from them
SURE_KINDS = tuple(sorted(KINDS))
