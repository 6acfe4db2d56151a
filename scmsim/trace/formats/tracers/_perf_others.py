"""Handle other calls from their numbers alone: mappings, ioctls, and descriptors from calls other than opens."""

from scmsim.core.records import CLOSE, DIRECTORY, MAP_SYNC, MMAP, MSYNC, MUNMAP, POPULATE, PRIVATE, WRITABLE_SHARED
from scmsim.trace.formats.tracers._perf_arguments import WORD, Arguments, as_fd, as_offset, node_of
from scmsim.trace.syscalls.importer import BOOKKEEPING, NO_MODEL, NOT_A_FILE, NOT_A_FILE_OPERATION, Importer
from scmsim.trace.syscalls.memory import take_place
from scmsim.trace.syscalls.space import clone
from scmsim.trace.syscalls.state import Description, Task

# from Linux: asm-generic/mman.h, linux/close_range.h, linux/fs.h, linux/sched.h
_CLOSE_UNSHARE, _CLOSE_CLOEXEC = 2, 4  # linux/close_range.h
_FICLONE, _CLONE_RANGE = 0x40049409, 0x4020940D  # linux/fs.h
_PROT_WRITE, _MAP_SHARED, _MAP_ANONYMOUS = 2, 1, 0x20
_MAP_KINDS = ((0x80000, MAP_SYNC), (0x8000, POPULATE))
_PAGE, _MS_SYNC = 4096, 4
_CLONE_FILES = 0x400


def close_range(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    first, last = a[0] & WORD, a[1] & WORD
    if a[2] & _CLOSE_UNSHARE:
        task.table = task.table.copy()
    within = sorted(fd for fd in task.table.slots if first <= fd <= last)
    reason: str | None = BOOKKEEPING
    if a[2] & _CLOSE_CLOEXEC:
        task.table.at_exec.update(within)
        return reason
    for fd in within:
        node = task.table.slots.pop(fd).node
        if node is not None:
            reason = imp.also(task, reason, CLOSE, node, -1, 0, DIRECTORY if node.is_dir else 0)
    return reason


def ioctl(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    if a[1] & WORD not in (_FICLONE, _CLONE_RANGE):
        return NOT_A_FILE_OPERATION
    node = node_of(imp, task, a[0])
    if isinstance(node, str):
        return node
    if a[1] & WORD == _FICLONE:
        imp.report.blind["ioctl FICLONE"] += 1
        source = node_of(imp, task, a[2])
        return clone(imp, task, node, None if isinstance(source, str) else source)
    imp.report.blind["ioctl FICLONERANGE"] += 1
    node.exact = False  # the range is in memory, which perf does not read
    return NO_MODEL


def io_submit(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    imp.report.blind["io_submit"] += 1
    return NO_MODEL  # the requests are in memory, which perf does not read


def received(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    task.table.lose(as_fd(result))  # a file that another process has opened, or that a handle names
    return BOOKKEEPING


def unseen_fds(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    return BOOKKEEPING  # the descriptors are in memory, which perf does not read


def mmap(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    ended = take_place(imp, task, result, result + as_offset(a[1]))
    if a[3] & _MAP_ANONYMOUS or as_fd(a[4]) < 0:
        return ended
    node = node_of(imp, task, a[4])
    if isinstance(node, str):
        return ended and node
    task.maps.add(result, result + as_offset(a[1]), node, as_offset(a[5]), not a[3] & _MAP_SHARED)
    flag = sum(flag for bit, flag in _MAP_KINDS if a[3] & bit)
    if a[2] & _PROT_WRITE:
        flag |= WRITABLE_SHARED if a[3] & _MAP_SHARED else PRIVATE
    if flag & WRITABLE_SHARED:
        imp.writable[node.path] = imp.writable.get(node.path, 0) + as_offset(a[1])
    return imp.also(task, ended, MMAP, node, as_offset(a[5]), as_offset(a[1]), flag)


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
    task.table.put(as_fd(result), Description(None), False)
    return NOT_A_FILE


def unshare(imp: Importer, task: Task, a: Arguments, result: int) -> str | None:
    if a[0] & _CLONE_FILES:
        task.table = task.table.copy()
    return BOOKKEEPING
