"""What system calls do to descriptors when only their numbers are known: arguments and result, but no names.

Positions, sizes and duplicates follow the rules of `conversion.py`.  Each open makes an object of its own, because the name
that it opened is a pointer.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any

from scmsim.core.records import (
    APPENDS,
    CLOSE,
    CONTINUES,
    CREATE,
    DATA_ONLY,
    DIRECTORY,
    FALLOCATE,
    FSYNC,
    KEEP_SIZE,
    MAP_SYNC,
    MMAP,
    MSYNC,
    MUNMAP,
    OFFSET_UNKNOWN,
    OPEN,
    POPULATE,
    PRIVATE,
    PUNCH_HOLE,
    READ,
    READDIR,
    SYNC,
    SYNCHRONOUS,
    TRUNCATE,
    WRITABLE_SHARED,
)
from scmsim.trace.kernels import file_rules
from scmsim.trace.kernels.file_rules import HERE
from scmsim.trace.syscalls.data import check_moved, do_read, do_write
from scmsim.trace.syscalls.importer import (
    BOOKKEEPING,
    CREATES,
    NO_MODEL,
    NOT_A_FILE,
    NOT_A_FILE_OPERATION,
    UNKNOWN_FD,
    Importer,
)
from scmsim.trace.syscalls.memory import take_place
from scmsim.trace.syscalls.state import Description, Node, Task

NAMELESS = "call on a path, whose name perf does not record"

# asm-generic/fcntl.h, linux/falloc.h, asm-generic/mman.h of Linux
_O_WRONLY, _O_RDWR, _O_CREAT, _O_EXCL, _O_TRUNC, _O_APPEND = 0o1, 0o2, 0o100, 0o200, 0o1000, 0o2000
_O_DSYNC, _O_CLOEXEC, _O_PATH, _O_TMPFILE = 0o10000, 0o2000000, 0o10000000, 0o20000000
CREAT_FLAGS = _O_WRONLY | _O_CREAT | _O_TRUNC  # what creat() means
_OPEN_FLAGS = (
    (_O_CREAT, file_rules.CREAT), (_O_EXCL, file_rules.EXCL), (_O_TRUNC, file_rules.TRUNC), (_O_APPEND, file_rules.APPEND),
    (_O_DSYNC, file_rules.SYNC), (_O_CLOEXEC, file_rules.CLOEXEC), (_O_TMPFILE, file_rules.CREAT | file_rules.EXCL),
)  # fmt: skip
_F_DUPFD, _F_GETFL, _F_SETFD, _F_SETFL, _F_DUPFD_CLOEXEC = 0, 3, 2, 4, 1030
_FALLOC_KEEP, _FALLOC_PUNCH, _FALLOC_OTHER = 1, 2, 0x08 | 0x20 | 0x40  # collapse, insert, unshare
_PROT_WRITE, _MAP_SHARED, _MAP_ANONYMOUS = 2, 1, 0x20
_MAP_KINDS = ((0x80000, MAP_SYNC), (0x8000, POPULATE))
_PAGE, _MS_SYNC = 4096, 4
_SEEK_END, _RWF_SYNC, _RWF_APPEND = 2, 2 | 4, 16
_MOST = 1 << 60
_WORD = 0xFFFFFFFF

Arguments = tuple[int, int, int, int, int, int]
Handler = Callable[[Importer, Task, Arguments, int], str | None]


def _fd(number: int) -> int:
    """A descriptor argument as an int of C."""
    number &= _WORD
    return number - (1 << 32) if number >> 31 else number


def _signed(number: int) -> int:
    return number if -_MOST < number < _MOST else 0


def _find(imp: Importer, task: Task, fd: int) -> Description | None:
    return task.table.slots.get(_fd(fd))


def _node(imp: Importer, task: Task, fd: int) -> Node | str:
    found = _find(imp, task, fd)
    return UNKNOWN_FD if found is None else found.node or NOT_A_FILE


def read(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return do_read(imp, task, _find(imp, task, a[0]), HERE, 0, result)


def pread(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return do_read(imp, task, _find(imp, task, a[0]), _offset(a[3]), 0, result)


def preadv2(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return do_read(imp, task, _find(imp, task, a[0]), HERE if a[3] == -1 else _offset(a[3]), 0, result)


def write(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return do_write(imp, task, _find(imp, task, a[0]), HERE, result, 0)


def pwrite(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return do_write(imp, task, _find(imp, task, a[0]), _offset(a[3]), result, 0)


def pwritev2(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    flag = (SYNCHRONOUS if a[5] & _RWF_SYNC else 0) | (APPENDS if a[5] & _RWF_APPEND else 0)
    return do_write(imp, task, _find(imp, task, a[0]), HERE if a[3] == -1 else _offset(a[3]), result, flag)


def _offset(number: int) -> int:
    if not 0 <= number < _MOST:
        raise ValueError("the offset is not below 2^60")
    return number


def lseek(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    found = _find(imp, task, a[0])
    if found is None:
        return UNKNOWN_FD
    if found.node is None:
        return NOT_A_FILE
    found.position, found.doubt = _offset(result), 0
    back = _signed(a[1])
    if a[2] == _SEEK_END and result >= back and result - back < _MOST:
        imp.measured(found.node, result - back)
    return BOOKKEEPING


def open_flags(flags: Any) -> Any:
    """The flags of opens (a number, or an array) that `file_rules` knows."""
    return functools.reduce(operator.or_, ((flags & bits != 0) * known for bits, known in _OPEN_FLAGS))


def is_path_only(flags: Any) -> Any:
    """Whether an open with these flags (a number, or an array) opens nothing."""
    return flags & _O_PATH != 0


def _open(imp: Importer, task: Task, flags: int, result: int) -> str | None:
    fd = _fd(result)
    if is_path_only(flags):
        task.table.slots.pop(fd, None)
        return BOOKKEEPING
    path = imp.nameless_path(task, fd)
    how = file_rules.opened(int(open_flags(flags)), file_rules.UNSEEN, False)
    created = how != file_rules.OPENED
    node = Node(path, True, created=created)
    if how == file_rules.ASSUMED:
        imp.report.creates[CREATES[how]] += 1
        node.row, node.exact = imp.next_row(), False
    found = Description(node)
    found.append, found.synchronous = bool(flags & _O_APPEND), bool(flags & _O_DSYNC)
    task.table.put(fd, found, bool(flags & _O_CLOEXEC))
    reason = imp.emit(task, CREATE if created else OPEN, node, -1, 0, 0)
    if flags & _O_TRUNC and not created:
        file_rules.set_length(node, 0)
        reason = imp.also(task, reason, TRUNCATE, node, 0, 0, 0)
    return reason


def open_(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return _open(imp, task, a[1], result)


def openat(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return _open(imp, task, a[2], result)


def openat2(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return _open(imp, task, 0, result)  # the flags are behind a pointer


def creat(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return _open(imp, task, CREAT_FLAGS, result)


def close(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    found = task.table.slots.pop(_fd(a[0]), None)
    if found is None:
        return UNKNOWN_FD
    if found.node is None:
        return NOT_A_FILE
    return imp.emit(task, CLOSE, found.node, -1, 0, DIRECTORY if found.node.is_dir else 0)


def _sync(imp: Importer, task: Task, fd: int, flag: int, offset: int = -1, length: int = 0) -> str | None:
    node = _node(imp, task, fd)
    return node if isinstance(node, str) else imp.emit(task, FSYNC, node, offset, length, flag)


def fsync(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return _sync(imp, task, a[0], 0)


def fdatasync(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return _sync(imp, task, a[0], DATA_ONLY)


def sync_file_range(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return _sync(imp, task, a[0], DATA_ONLY, _offset(a[1]), _offset(a[2]))


def sync(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    imp.emit_sync(task, SYNC)
    return None


def syncfs(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    node = _node(imp, task, a[0])
    return node if isinstance(node, str) else imp.emit(task, SYNC, node, -1, 0, 0)


def ftruncate(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    node = _node(imp, task, a[0])
    if isinstance(node, str):
        return node
    file_rules.set_length(node, _offset(a[1]))
    return imp.emit(task, TRUNCATE, node, a[1], 0, 0)


def fallocate(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    node = _node(imp, task, a[0])
    if isinstance(node, str):
        return node
    if a[1] & _FALLOC_OTHER:
        return NO_MODEL
    flag = (KEEP_SIZE if a[1] & _FALLOC_KEEP else 0) | (PUNCH_HOLE if a[1] & _FALLOC_PUNCH else 0)
    end = _offset(a[2]) + _offset(a[3])
    if not flag & KEEP_SIZE and end > node.length:
        node.length, node.open_question, node.row = end, False, -1
    return imp.emit(task, FALLOCATE, node, a[2], a[3], flag)


def getdents(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    node = _node(imp, task, a[0])
    if isinstance(node, str):
        return node
    check_moved(result)
    node.is_dir = True
    return imp.emit(task, READDIR, node, -1, result, DIRECTORY)


def dup(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return _duplicate(imp, task, a[0], result, False)


def dup3(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return _duplicate(imp, task, a[0], result, bool(a[2] & _O_CLOEXEC))


def _duplicate(imp: Importer, task: Task, old: int, new: int, at_exec: bool) -> str:
    found = _find(imp, task, old)
    if found is None:
        task.table.slots.pop(_fd(new), None)
    else:
        task.table.put(_fd(new), found, at_exec)
    return BOOKKEEPING


def fcntl(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    if a[1] in (_F_DUPFD, _F_DUPFD_CLOEXEC):
        return _duplicate(imp, task, a[0], result, a[1] == _F_DUPFD_CLOEXEC)
    found = _find(imp, task, a[0])
    if a[1] == _F_SETFD:
        (task.table.at_exec.add if a[2] & 1 else task.table.at_exec.discard)(_fd(a[0]))
    elif a[1] in (_F_GETFL, _F_SETFL):
        if found is not None:
            found.append = bool((a[2] if a[1] == _F_SETFL else result) & _O_APPEND)
    else:
        return NOT_A_FILE_OPERATION
    return BOOKKEEPING


def _copy(imp: Importer, task: Task, source: tuple[int, int], target: tuple[int, int], result: int) -> str | None:
    """Copy bytes between descriptors, each with the pointer to its offset (0: at the position, which moves)."""
    (from_fd, from_pointer), (to_fd, to_pointer) = source, target
    read_from = _read_somewhere if from_pointer else do_read
    first = read_from(imp, task, _find(imp, task, from_fd), HERE, 0, result)
    found, flag = _find(imp, task, to_fd), CONTINUES if first is None else 0
    if to_pointer and found is not None and found.node is not None:
        second = do_write(imp, task, found, found.position, result, flag | OFFSET_UNKNOWN)
        found.node.exact = False
    else:
        second = do_write(imp, task, found, HERE, result, flag)
    if first is None and second is None:
        imp.report.extra_rows += 1
    return first if second is not None else None


def sendfile(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return _copy(imp, task, (a[1], a[2]), (a[0], 0), result)


def copy_range(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return _copy(imp, task, (a[0], a[1]), (a[2], a[3]), result)


def _read_somewhere(
    imp: Importer, task: Task, found: Description | None, at: int, asked: int, count: int
) -> str | None:
    """Read at an offset that is behind a pointer: the row has the position, marked as unknown, and the position stays."""
    if found is None:
        return UNKNOWN_FD
    if found.node is None:
        return NOT_A_FILE
    check_moved(count)
    return imp.emit(task, READ, found.node, found.position, count, OFFSET_UNKNOWN)


def mmap(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    ended = take_place(imp, task, result, result + _offset(a[1]))
    if a[3] & _MAP_ANONYMOUS or _fd(a[4]) < 0:
        return ended
    node = _node(imp, task, a[4])
    if isinstance(node, str):
        return ended and node
    task.maps.add(result, result + _offset(a[1]), node, _offset(a[5]), not a[3] & _MAP_SHARED)
    flag = sum(flag for bit, flag in _MAP_KINDS if a[3] & bit)
    if a[2] & _PROT_WRITE:
        flag |= WRITABLE_SHARED if a[3] & _MAP_SHARED else PRIVATE
    if flag & WRITABLE_SHARED:
        imp.writable[node.path] = imp.writable.get(node.path, 0) + _offset(a[1])
    return imp.also(task, ended, MMAP, node, _offset(a[5]), _offset(a[1]), flag)


def munmap(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    reason: str | None = NOT_A_FILE_OPERATION
    for low, high, node, offset in task.maps.cut(a[0], a[0] - -a[1] // _PAGE * _PAGE):
        reason = imp.also(task, reason, MUNMAP, node, offset, high - low, 0)
    return reason


def msync(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    reason: str | None = NOT_A_FILE_OPERATION
    for low, high, node, offset in task.maps.within(a[0], a[0] + a[1]) if a[2] & _MS_SYNC else ():
        reason = imp.also(task, reason, MSYNC, node, offset, high - low, 0)
    return reason


def other_fd(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    task.table.slots[_fd(result)] = Description(None)
    return NOT_A_FILE


def execve(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    task.execute()
    return BOOKKEEPING


def on_path(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return NAMELESS


def ignored(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return BOOKKEEPING


# name -> (number on x86-64 or -1, number in asm-generic (arm64, riscv64) or -1, handler); asm/unistd_64.h, asm-generic/unistd.h
CALLS: dict[str, tuple[int, int, Handler]] = {
    "read": (0, 63, read), "write": (1, 64, write), "open": (2, -1, open_), "close": (3, 57, close),
    "lseek": (8, 62, lseek), "mmap": (9, 222, mmap), "munmap": (11, 215, munmap),
    "msync": (26, 227, msync), "pread64": (17, 67, pread), "pwrite64": (18, 68, pwrite),
    "readv": (19, 65, read), "writev": (20, 66, write), "pipe": (22, -1, ignored), "dup": (32, 23, dup),
    "dup2": (33, -1, dup), "dup3": (292, 24, dup3), "sendfile": (40, 71, sendfile), "sendfile64": (40, 71, sendfile),
    "socket": (41, 198, other_fd), "accept": (43, 202, other_fd), "accept4": (288, 242, other_fd),
    "clone": (56, 220, ignored), "fork": (57, -1, ignored), "vfork": (58, -1, ignored), "clone3": (435, 435, ignored),
    "execve": (59, 221, execve), "execveat": (322, 281, execve), "fcntl": (72, 25, fcntl), "fsync": (74, 82, fsync),
    "fdatasync": (75, 83, fdatasync), "truncate": (76, 45, on_path), "ftruncate": (77, 46, ftruncate),
    "getdents": (78, -1, getdents), "getdents64": (217, 61, getdents), "creat": (85, -1, creat),
    "fallocate": (285, 47, fallocate), "openat": (257, 56, openat), "openat2": (437, 437, openat2),
    "preadv": (295, 69, pread), "pwritev": (296, 70, pwrite), "preadv2": (327, 286, preadv2),
    "pwritev2": (328, 287, pwritev2), "copy_file_range": (326, 285, copy_range), "splice": (275, 76, copy_range),
    "sync": (162, 81, sync), "syncfs": (306, 267, syncfs), "sync_file_range": (277, 84, sync_file_range),
    "eventfd2": (290, 19, other_fd), "epoll_create1": (291, 20, other_fd), "memfd_create": (319, 279, other_fd),
    "unlink": (87, -1, on_path), "unlinkat": (263, 35, on_path), "rename": (82, -1, on_path),
    "renameat": (264, 38, on_path), "renameat2": (316, 276, on_path), "link": (86, -1, on_path),
    "linkat": (265, 37, on_path), "symlink": (88, -1, on_path), "symlinkat": (266, 36, on_path),
    "mkdir": (83, -1, on_path), "mkdirat": (258, 34, on_path), "rmdir": (84, -1, on_path), "stat": (4, -1, on_path),
    "lstat": (6, -1, on_path), "newfstatat": (262, 79, on_path), "statx": (332, 291, on_path),
    "access": (21, -1, on_path), "faccessat": (269, 48, on_path), "faccessat2": (439, 439, on_path),
}  # fmt: skip
FORKS = ("clone", "fork", "vfork", "clone3")
RINGS = ("io_uring_setup", "io_uring_enter", "io_uring_register")
RING_NUMBERS = (425, 426, 427)  # on every architecture
