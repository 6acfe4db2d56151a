"""Handle calls on descriptors: data, positions, durability, length, duplication.  See `conversion.py` for the rules."""

from re import Match

from scmsim.core.records import (
    APPENDS,
    CLOSE,
    CONTINUES,
    DATA_ONLY,
    DIRECTORY,
    FSYNC,
    READ,
    READDIR,
    SYNC,
    SYNCHRONOUS,
    TRUNCATE,
    WRITE,
)
from scmsim.trace.kernels import file_rules
from scmsim.trace.kernels.file_calls import MOST
from scmsim.trace.kernels.file_rules import HERE
from scmsim.trace.syscalls.importer import BOOKKEEPING, NOT_A_FILE, NOT_A_FILE_OPERATION, UNKNOWN_FD, Importer
from scmsim.trace.syscalls.state import Description, Node, Task
from scmsim.trace.syscalls.text import (
    COMMA,
    DATA,
    FD,
    NUMBER,
    OFFSET_AT,
    PATHOF,
    REST,
    RESULT,
    RESULT_FD,
    SIGNED,
    VECTOR,
    WORD,
    number,
)


def check_moved(count: int) -> None:
    """Raise ValueError for a negative count, or for more bytes than Linux moves in one call."""
    if not 0 <= count <= MOST:
        raise ValueError("a call cannot move that many bytes")


def do_read(
    imp: Importer, task: Task, found: Description | None, at: int, asked: int, count: int, flag: int = 0
) -> str | None:
    """Read `count` of `asked` bytes at an offset (HERE: at the position, which moves)."""
    if found is None:
        return UNKNOWN_FD
    node = found.node
    if node is None:
        return NOT_A_FILE
    check_moved(count)
    start, doubt, row = file_rules.read(node, found, at, asked, count, imp.drained)
    imp.existed(row)
    return imp.emit(task, READ, node, start, count, doubt | flag)


def do_write(imp: Importer, task: Task, found: Description | None, at: int, count: int, flag: int) -> str | None:
    """Write `count` bytes at an offset (HERE: at the position, which moves); with O_APPEND always at the end."""
    if found is None:
        return UNKNOWN_FD
    node = found.node
    if node is None:
        return NOT_A_FILE
    check_moved(count)
    start, flag = file_rules.write(node, found, at, count, flag)
    return imp.emit(task, WRITE, node, start, count, flag)


def read(imp: Importer, task: Task, m: Match[str]) -> str | None:
    fd, raw, asked, count = m.groups()
    return do_read(imp, task, imp.describe(task, fd, raw), HERE, int(asked), int(count))


def readv(imp: Importer, task: Task, m: Match[str]) -> str | None:
    fd, raw, count = m.groups()
    return do_read(imp, task, imp.describe(task, fd, raw), HERE, 0, int(count))


def pread(imp: Importer, task: Task, m: Match[str]) -> str | None:
    fd, raw, asked, at, count = m.groups()
    return do_read(imp, task, imp.describe(task, fd, raw), int(at), int(asked), int(count))


def preadv(imp: Importer, task: Task, m: Match[str]) -> str | None:
    fd, raw, at, _, count = m.groups()
    return do_read(imp, task, imp.describe(task, fd, raw), int(at), 0, int(count))


def write(imp: Importer, task: Task, m: Match[str]) -> str | None:
    fd, raw, count = m.groups()
    return do_write(imp, task, imp.describe(task, fd, raw), HERE, int(count), 0)


def pwrite(imp: Importer, task: Task, m: Match[str]) -> str | None:
    fd, raw, at, count = m.groups()
    return do_write(imp, task, imp.describe(task, fd, raw), int(at), int(count), 0)


def pwritev(imp: Importer, task: Task, m: Match[str]) -> str | None:
    fd, raw, at, flags, count = m.groups()
    flag = (SYNCHRONOUS if "SYNC" in flags else 0) | (APPENDS if "RWF_APPEND" in flags else 0)
    found = imp.describe(task, fd, raw)
    if found is None or not found.append or "RWF_NOAPPEND" not in flags:
        return do_write(imp, task, found, int(at), int(count), flag)
    found.append = False
    try:
        return do_write(imp, task, found, int(at), int(count), flag)
    finally:
        found.append = True


def _copy(imp: Importer, task: Task, source: tuple, target: tuple, count: int) -> str | None:
    """Copy bytes from one descriptor to another inside the kernel: a READ, then a WRITE."""
    (from_fd, from_raw, from_at), (to_fd, to_raw, to_at) = source, target
    found = imp.describe(task, from_fd, from_raw)
    first = do_read(imp, task, found, _at(from_at), 0, count)
    flag, to = CONTINUES if first is None else 0, imp.describe(task, to_fd, to_raw)
    if from_at is None and to_at is None:
        share_position(found, to, count)
    second = do_write(imp, task, to, _at(to_at), count, flag)
    if first is None and second is None:
        imp.report.extra_rows += 1
    return first if second is not None else None


def share_position(source: Description | None, target: Description | None, count: int) -> None:
    """Undo a read's move if the write shares its position: do_sendfile reads both positions before it moves either."""
    if source is not None and source is target and source.node is not None:
        source.position -= count


def _at(text: str | None) -> int:
    return HERE if text is None else int(text)


def copy_range(imp: Importer, task: Task, m: Match[str]) -> str | None:
    from_fd, from_raw, from_at, to_fd, to_raw, to_at, count = m.groups()
    return _copy(imp, task, (from_fd, from_raw, from_at), (to_fd, to_raw, to_at), int(count))


def sendfile(imp: Importer, task: Task, m: Match[str]) -> str | None:
    to_fd, to_raw, from_fd, from_raw, from_at, count = m.groups()
    return _copy(imp, task, (from_fd, from_raw, from_at), (to_fd, to_raw, None), int(count))


def lseek(imp: Importer, task: Task, m: Match[str]) -> str | None:
    fd, raw, offset, whence, result = m.groups()
    return _seek(imp, imp.describe(task, fd, raw), int(offset), whence, int(result))


def _seek(imp: Importer, found: Description | None, offset: int, whence: str, result: int) -> str:
    if found is None:
        return UNKNOWN_FD
    if found.node is None:
        return NOT_A_FILE
    if whence == "SEEK_END" and not found.node.is_dir and result >= offset:
        imp.measured(found.node, result - offset)
    file_rules.seek(found, result)
    return BOOKKEEPING


def llseek(imp: Importer, task: Task, m: Match[str]) -> str | None:
    fd, raw, offset, result, whence, _ = m.groups()
    return _seek(imp, imp.describe(task, fd, raw), int(offset), whence, int(result))


def _node(imp: Importer, task: Task, fd: str, raw: str | None) -> Node | str:
    """Return the inode of a descriptor, or the reason why the call makes no row."""
    found = imp.describe(task, fd, raw)
    return UNKNOWN_FD if found is None else found.node or NOT_A_FILE


def _fsync(imp: Importer, task: Task, m: Match[str], flag: int, offset: int = -1, length: int = 0) -> str | None:
    node = _node(imp, task, m[1], m[2])
    if isinstance(node, str):
        return node
    flag |= DIRECTORY if node.is_dir else 0
    return imp.emit(task, FSYNC, node, offset, length, flag)


def fsync(imp: Importer, task: Task, m: Match[str]) -> str | None:
    return _fsync(imp, task, m, 0)


def fdatasync(imp: Importer, task: Task, m: Match[str]) -> str | None:
    return _fsync(imp, task, m, DATA_ONLY)


def sync_file_range(imp: Importer, task: Task, m: Match[str]) -> str | None:
    return _fsync(imp, task, m, DATA_ONLY, int(m[3]), int(m[4]))


def sync(imp: Importer, task: Task, m: Match[str]) -> str | None:
    imp.emit_sync(task, SYNC)
    return None


def syncfs(imp: Importer, task: Task, m: Match[str]) -> str | None:
    node = _node(imp, task, m[1], m[2])
    if isinstance(node, str):
        return node
    return imp.emit(task, SYNC, node, -1, 0, 0)


def ftruncate(imp: Importer, task: Task, m: Match[str]) -> str | None:
    node = _node(imp, task, m[1], m[2])
    if isinstance(node, str):
        return node
    length = number(m[3])
    file_rules.set_length(node, length)
    return imp.emit(task, TRUNCATE, node, length, 0, 0)


def getdents(imp: Importer, task: Task, m: Match[str]) -> str | None:
    node = _node(imp, task, m[1], m[2])
    if isinstance(node, str):
        return node
    node.is_dir = True
    return imp.emit(task, READDIR, node, -1, int(m[3]), DIRECTORY)


def close(imp: Importer, task: Task, m: Match[str]) -> str | None:
    fd, raw, _ = m.groups()
    found = task.closing
    if found is None:
        found = imp.describe(task, fd, raw)
        task.table.slots.pop(fd, None)
        task.table.unsure.discard(fd)
    task.closing = None
    if found is None:
        return UNKNOWN_FD
    if found.node is None:
        return NOT_A_FILE
    if found.path_only:
        return BOOKKEEPING
    return imp.emit(task, CLOSE, found.node, -1, 0, DIRECTORY if found.node.is_dir else 0)


def close_range(imp: Importer, task: Task, m: Match[str]) -> str | None:
    first, last = number(m[1]), number(m[2])
    reason: str | None = BOOKKEEPING
    if "UNSHARE" in m[3]:
        task.table = task.table.copy()
    if "CLOEXEC" in m[3]:
        task.table.at_exec.update(fd for fd in task.table.slots if first <= int(fd) <= last)
        return reason
    for fd in sorted((fd for fd in task.table.slots if first <= int(fd) <= last), key=int):
        found = task.table.slots.pop(fd)
        node = found.node
        if node is not None and not found.path_only:
            reason = imp.also(task, reason, CLOSE, node, -1, 0, DIRECTORY if node.is_dir else 0)
    return reason


def dup(imp: Importer, task: Task, m: Match[str]) -> str | None:
    fd, raw, rest, new, new_raw = m.groups()
    _duplicate(imp, task, (fd, raw), (new, new_raw), "CLOEXEC" in rest)
    return BOOKKEEPING


def fcntl(imp: Importer, task: Task, m: Match[str]) -> str | None:
    fd, raw, command, rest, result, result_raw, flags = m.groups()
    if command.startswith("F_DUPFD"):
        _duplicate(imp, task, (fd, raw), (result, result_raw), "CLOEXEC" in command)
    elif command == "F_SETFD":
        (task.table.at_exec.add if "CLOEXEC" in rest else task.table.at_exec.discard)(fd)
    elif command in ("F_SETFL", "F_GETFL"):
        found = imp.describe(task, fd, raw)
        if found is not None:
            found.append = "O_APPEND" in (rest if command == "F_SETFL" else flags or "")
    else:
        return NOT_A_FILE_OPERATION  # other commands of fcntl: locks, owners, leases
    return BOOKKEEPING


def _duplicate(imp: Importer, task: Task, old: tuple, new: tuple, at_exec: bool) -> None:
    found = imp.describe(task, *old)
    if found is None and new[1] is not None:
        found = imp.adopt(new[1])
    if found is None:
        task.table.slots.pop(new[0], None)
        if imp.doubt:
            task.table.lose(new[0])
    else:
        task.table.put(new[0], found, at_exec)


def other_fd(imp: Importer, task: Task, m: Match[str]) -> str | None:
    """Handle a call that returns the descriptor of something other than a file."""
    task.table.put(m[2], Description(None, m[3]), "CLOEXEC" in m[1])
    return NOT_A_FILE


def fd_pair(imp: Importer, task: Task, m: Match[str]) -> str | None:
    """Handle pipe and socketpair; with strace -s 0 the descriptors stay unknown until a line shows a path (-y)."""
    one, one_raw, two, two_raw, rest, _ = m.groups()
    if one is not None:
        task.table.put(one, Description(None, one_raw), "CLOEXEC" in rest)
        task.table.put(two, Description(None, two_raw), "CLOEXEC" in rest)
    return NOT_A_FILE


_PAIR = rf"(?:[^\[)]*+\[(\d+){PATHOF}, (\d+){PATHOF}\])?"
_RANGE = FD + COMMA + OFFSET_AT

# name -> (pattern of the arguments and the result, handler)
CALLS = {
    "read": (FD + COMMA + DATA + COMMA + NUMBER + RESULT, read),
    "readv": (FD + COMMA + VECTOR + COMMA + r"\d+" + RESULT, readv),
    "pread64": (FD + COMMA + DATA + COMMA + NUMBER + COMMA + NUMBER + RESULT, pread),
    "preadv": (FD + COMMA + VECTOR + COMMA + r"\d+" + COMMA + SIGNED + "()" + RESULT, preadv),
    "preadv2": (FD + COMMA + VECTOR + COMMA + r"\d+" + COMMA + SIGNED + COMMA + WORD + RESULT, preadv),
    "write": (FD + COMMA + DATA + COMMA + r"\d+" + RESULT, write),
    "writev": (FD + COMMA + VECTOR + COMMA + r"\d+" + RESULT, write),
    "pwrite64": (FD + COMMA + DATA + COMMA + r"\d+" + COMMA + NUMBER + RESULT, pwrite),
    "pwritev": (FD + COMMA + VECTOR + COMMA + r"\d+" + COMMA + SIGNED + "()" + RESULT, pwritev),
    "pwritev2": (FD + COMMA + VECTOR + COMMA + r"\d+" + COMMA + SIGNED + COMMA + WORD + RESULT, pwritev),
    "copy_file_range": (_RANGE + COMMA + _RANGE + COMMA + REST + RESULT, copy_range),
    "splice": (_RANGE + COMMA + _RANGE + COMMA + REST + RESULT, copy_range),
    "sendfile": (FD + COMMA + FD + COMMA + OFFSET_AT + COMMA + r"\d+" + RESULT, sendfile),
    "_llseek": (FD + COMMA + SIGNED + COMMA + r"\[" + NUMBER + r"\]" + COMMA + WORD + RESULT, llseek),
    "lseek": (FD + COMMA + SIGNED + COMMA + WORD + RESULT, lseek),
    "fsync": (FD + RESULT, fsync),
    "fdatasync": (FD + RESULT, fdatasync),
    "sync_file_range": (FD + COMMA + NUMBER + COMMA + NUMBER + COMMA + REST + RESULT, sync_file_range),
    "sync_file_range2": (FD + COMMA + r"[^,]+" + COMMA + NUMBER + COMMA + NUMBER + RESULT, sync_file_range),
    "sync": (RESULT, sync),
    "syncfs": (FD + RESULT, syncfs),
    "ftruncate": (FD + COMMA + NUMBER + RESULT, ftruncate),
    "getdents64": (FD + COMMA + REST + RESULT, getdents),
    "close": (FD + RESULT, close),
    "close_range": (NUMBER + COMMA + NUMBER + COMMA + WORD + RESULT, close_range),
    "dup": (FD + "()" + RESULT_FD, dup),
    "dup2": (FD + COMMA + f"({REST})" + RESULT_FD, dup),
    "fcntl": (FD + COMMA + rf"([A-Z]\w*+)({REST})" + RESULT_FD + r"(?: \(flags ([^)]*)\))?", fcntl),
    "pipe": (_PAIR + f"({REST})" + RESULT, fd_pair),
}
_SAME = {
    "pread64": "pread",
    "pwrite64": "pwrite", "_llseek": "llseek", "sendfile": "sendfile64", "ftruncate": "ftruncate64", "dup2": "dup3",
    "fcntl": "fcntl64", "sync_file_range2": "arm_sync_file_range", "getdents64": "getdents", "pipe": "pipe2 socketpair",
}  # fmt: skip
_OTHER_FDS = (
    "socket accept accept4 epoll_create epoll_create1 eventfd eventfd2 signalfd signalfd4 timerfd timerfd_create inotify_init "
    "inotify_init1 fanotify_init memfd_create memfd_secret pidfd_open userfaultfd perf_event_open "
    "fsopen fsmount fspick open_tree open_tree_attr mq_open landlock_create_ruleset"
)
CALLS |= {alias: CALLS[name] for name, aliases in _SAME.items() for alias in aliases.split()}
CALLS |= {name: (f"({REST})" + RESULT_FD, other_fd) for name in _OTHER_FDS.split()}
