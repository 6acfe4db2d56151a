"""Handle calls on descriptors from their numbers alone: arguments and result, but no names.

Positions, sizes and duplicates follow the rules of `conversion.py`.  Each open makes an object of its own, because perf records
only the pointer to the name.
"""

import functools
import operator
from typing import Any

from scmsim.core.records import (
    APPENDS,
    CLOSE,
    CONTINUES,
    CREATE,
    DATA_ONLY,
    DIRECTORY,
    FSYNC,
    OFFSET_UNKNOWN,
    OPEN,
    READ,
    READDIR,
    SYNC,
    SYNCHRONOUS,
    TRUNCATE,
)
from scmsim.trace.formats.tracers._perf_arguments import (
    MOST,
    Arguments,
    Handler,
    as_fd,
    as_offset,
    as_signed,
    find,
    node_of,
)
from scmsim.trace.formats.tracers._perf_others import (
    close_range,
    io_submit,
    ioctl,
    mmap,
    msync,
    munmap,
    other_fd,
    received,
    unseen_fds,
    unshare,
)
from scmsim.trace.kernels import file_rules
from scmsim.trace.kernels.file_rules import HERE
from scmsim.trace.syscalls import table
from scmsim.trace.syscalls.data import check_moved, do_read, do_write, share_position
from scmsim.trace.syscalls.importer import BOOKKEEPING, CREATES, NOT_A_FILE, NOT_A_FILE_OPERATION, UNKNOWN_FD, Importer
from scmsim.trace.syscalls.space import allocate
from scmsim.trace.syscalls.state import Description, Node, Task

NAMELESS = "call on a path, whose name perf does not record"

# asm-generic/fcntl.h, linux/falloc.h, asm-generic/mman.h of Linux
_O_WRONLY, _O_RDWR, _O_CREAT, _O_EXCL, _O_TRUNC, _O_APPEND = 0o1, 0o2, 0o100, 0o200, 0o1000, 0o2000
_O_DSYNC, _O_CLOEXEC, _O_PATH, _O_TMPFILE = 0o10000, 0o2000000, 0o10000000, 0o20000000
CREAT_FLAGS = _O_WRONLY | _O_CREAT | _O_TRUNC  # flags that creat() implies
_OPEN_FLAGS = (
    (_O_CREAT, file_rules.CREAT), (_O_EXCL, file_rules.EXCL), (_O_TRUNC, file_rules.TRUNC), (_O_APPEND, file_rules.APPEND),
    (_O_DSYNC, file_rules.SYNC), (_O_CLOEXEC, file_rules.CLOEXEC), (_O_TMPFILE, file_rules.CREAT | file_rules.EXCL),
)  # fmt: skip
_F_DUPFD, _F_GETFL, _F_SETFD, _F_SETFL, _F_DUPFD_CLOEXEC = 0, 3, 2, 4, 1030
_FALLOCATE = ((1, "KEEP_SIZE"), (2, "PUNCH_HOLE"), (8, "COLLAPSE_RANGE"), (32, "INSERT_RANGE"))
_SEEK_END, _RWF_SYNC, _RWF_APPEND = 2, 2 | 4, 16


def read(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return do_read(imp, task, find(imp, task, a[0]), HERE, 0, result)


def pread(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return do_read(imp, task, find(imp, task, a[0]), as_offset(a[3]), 0, result)


def preadv2(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return do_read(imp, task, find(imp, task, a[0]), HERE if a[3] == -1 else as_offset(a[3]), 0, result)


def write(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return do_write(imp, task, find(imp, task, a[0]), HERE, result, 0)


def pwrite(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return do_write(imp, task, find(imp, task, a[0]), as_offset(a[3]), result, 0)


def pwritev2(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    flag = (SYNCHRONOUS if a[5] & _RWF_SYNC else 0) | (APPENDS if a[5] & _RWF_APPEND else 0)
    return do_write(imp, task, find(imp, task, a[0]), HERE if a[3] == -1 else as_offset(a[3]), result, flag)


def lseek(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    found = find(imp, task, a[0])
    if found is None:
        return UNKNOWN_FD
    if found.node is None:
        return NOT_A_FILE
    found.position, found.doubt = as_offset(result), 0
    back = as_signed(a[1])
    if a[2] == _SEEK_END and result >= back and result - back < MOST:
        imp.measured(found.node, result - back)
    return BOOKKEEPING


def open_flags(flags: Any) -> Any:
    """Return the flags of opens (a number, or an array) as flags of `file_rules`."""
    return functools.reduce(operator.or_, ((flags & bits != 0) * known for bits, known in _OPEN_FLAGS))


def is_path_only(flags: Any) -> Any:
    """Return whether the flags of an open (a number, or an array) have O_PATH, which opens no file."""
    return flags & _O_PATH != 0


def _open(imp: Importer, task: Task, flags: int, result: int) -> str | None:
    fd = as_fd(result)
    if is_path_only(flags):
        task.table.put(fd, Description(None), False)
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
    return _open(imp, task, 0, result)  # the flags are in memory, which perf does not read


def creat(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return _open(imp, task, CREAT_FLAGS, result)


def close(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    found = find(imp, task, a[0])
    task.table.slots.pop(as_fd(a[0]), None)
    task.table.unsure.discard(as_fd(a[0]))
    if found is None:
        return UNKNOWN_FD
    if found.node is None:
        return NOT_A_FILE
    return imp.emit(task, CLOSE, found.node, -1, 0, DIRECTORY if found.node.is_dir else 0)


def _sync(imp: Importer, task: Task, fd: int, flag: int, offset: int = -1, length: int = 0) -> str | None:
    node = node_of(imp, task, fd)
    return node if isinstance(node, str) else imp.emit(task, FSYNC, node, offset, length, flag)


def fsync(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return _sync(imp, task, a[0], 0)


def fdatasync(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return _sync(imp, task, a[0], DATA_ONLY)


def sync_file_range(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return _sync(imp, task, a[0], DATA_ONLY, as_offset(a[1]), as_offset(a[2]))


def sync(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    imp.emit_sync(task, SYNC)
    return None


def syncfs(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    node = node_of(imp, task, a[0])
    return node if isinstance(node, str) else imp.emit(task, SYNC, node, -1, 0, 0)


def ftruncate(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    node = node_of(imp, task, a[0])
    if isinstance(node, str):
        return node
    file_rules.set_length(node, as_offset(a[1]))
    return imp.emit(task, TRUNCATE, node, a[1], 0, 0)


def fallocate(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    node = node_of(imp, task, a[0])
    if isinstance(node, str):
        return node
    return allocate(
        imp, task, node, tuple(word for bit, word in _FALLOCATE if a[1] & bit), as_offset(a[2]), as_offset(a[3])
    )


def getdents(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    node = node_of(imp, task, a[0])
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
    found = find(imp, task, old)
    if found is None:
        task.table.slots.pop(as_fd(new), None)
        if imp.doubt:
            task.table.lose(as_fd(new))
    else:
        task.table.put(as_fd(new), found, at_exec)
    return BOOKKEEPING


def fcntl(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    if a[1] in (_F_DUPFD, _F_DUPFD_CLOEXEC):
        return _duplicate(imp, task, a[0], result, a[1] == _F_DUPFD_CLOEXEC)
    found = find(imp, task, a[0])
    if a[1] == _F_SETFD:
        (task.table.at_exec.add if a[2] & 1 else task.table.at_exec.discard)(as_fd(a[0]))
    elif a[1] in (_F_GETFL, _F_SETFL):
        if found is not None:
            found.append = bool((a[2] if a[1] == _F_SETFL else result) & _O_APPEND)
    else:
        return NOT_A_FILE_OPERATION
    return BOOKKEEPING


def _copy(imp: Importer, task: Task, source: tuple[int, int], target: tuple[int, int], result: int) -> str | None:
    """Handle a copy; source and target are (descriptor, pointer to the offset).

    A pointer of 0 means that the copy starts at the descriptor's position, and moves it.
    """
    (from_fd, from_pointer), (to_fd, to_pointer) = source, target
    read_from = _read_somewhere if from_pointer else do_read
    source_found = find(imp, task, from_fd)
    first = read_from(imp, task, source_found, HERE, 0, result)
    found, flag = find(imp, task, to_fd), CONTINUES if first is None else 0
    if not from_pointer and not to_pointer:
        share_position(source_found, found, result)
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
    """Handle a read at an offset in memory, which perf did not record: the row has the position, marked OFFSET_UNKNOWN."""
    if found is None:
        return UNKNOWN_FD
    if found.node is None:
        return NOT_A_FILE
    check_moved(count)
    return imp.emit(task, READ, found.node, found.position, count, OFFSET_UNKNOWN)


def execve(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    task.execute()
    return BOOKKEEPING


def on_path(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return NAMELESS


def ignored(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return BOOKKEEPING


# (handler, its calls); the calls' numbers are in the table of system calls
_TAKES: tuple[tuple[Handler, str], ...] = (
    (read, "read readv"),
    (write, "write writev"),
    (open_, "open"),
    (close, "close"),
    (lseek, "lseek"),
    (mmap, "mmap"),
    (munmap, "munmap"),
    (msync, "msync"),
    (pread, "pread64 preadv"),
    (pwrite, "pwrite64 pwritev"),
    (ignored, "clone fork vfork clone3"),
    (unshare, "unshare"),
    (dup, "dup dup2"),
    (dup3, "dup3"),
    (sendfile, "sendfile sendfile64"),
    (other_fd,
        "socket accept accept4 eventfd eventfd2 epoll_create epoll_create1 memfd_create memfd_secret signalfd "
        "signalfd4 timerfd_create inotify_init inotify_init1 fanotify_init pidfd_open userfaultfd "
        "perf_event_open fsopen fsmount fspick open_tree open_tree_attr mq_open landlock_create_ruleset"),
    (execve, "execve execveat"),
    (fcntl, "fcntl"),
    (fsync, "fsync"),
    (fdatasync, "fdatasync"),
    (on_path,
        "truncate unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat mkdir mkdirat rmdir "
        "stat lstat newfstatat statx access faccessat faccessat2 mount umount2 chroot pivot_root setns"),
    (ftruncate, "ftruncate"),
    (getdents, "getdents getdents64"),
    (creat, "creat"),
    (fallocate, "fallocate"),
    (openat, "openat"),
    (openat2, "openat2"),
    (preadv2, "preadv2"),
    (pwritev2, "pwritev2"),
    (copy_range, "copy_file_range splice"),
    (sync, "sync"),
    (syncfs, "syncfs"),
    (sync_file_range, "sync_file_range"),
    (received, "pidfd_getfd open_by_handle_at"),
    (unseen_fds, "pipe pipe2 socketpair recvmsg recvmmsg"),
    (close_range, "close_range"),
    (io_submit, "io_submit"),
    (ioctl, "ioctl"),
)  # fmt: skip
# name -> (number on x86-64 or -1, number on arm64 and riscv64 or -1, handler)
CALLS: dict[str, tuple[int, int, Handler]] = {
    name: (*(table.calls()[name].numbers[arch] for arch in ("x86_64", "arm64")), handler)  # type: ignore[misc]
    for handler, names in _TAKES
    for name in names.split()
}
FORKS = ("clone", "fork", "vfork", "clone3")
RINGS = ("io_uring_setup", "io_uring_enter", "io_uring_register")
RING_NUMBERS = (425, 426, 427)  # numbers of io_uring's calls, equal on every architecture
