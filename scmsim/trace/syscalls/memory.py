"""Handle calls on mappings and processes: mmap, munmap, msync, fork, exec.  See `conversion.py` for the rules."""

import re
from re import Match

from scmsim.core.records import (
    MAP_SYNC,
    MMAP,
    MSYNC,
    MUNMAP,
    POPULATE,
    PRIVATE,
    REMAPPED,
    ULOAD,
    USTORE,
    WRITABLE_SHARED,
)
from scmsim.trace.syscalls.importer import BOOKKEEPING, NOT_A_FILE, NOT_A_FILE_OPERATION, UNKNOWN_FD, Importer
from scmsim.trace.syscalls.state import Task
from scmsim.trace.syscalls.text import COMMA, DIR, FD, NUMBER, PATH, REST, RESULT, WORD, number, unescape

_KINDS = {"MAP_SYNC": MAP_SYNC, "MAP_POPULATE": POPULATE}
_PAGE = 4096  # munmap removes whole pages
_UNREADABLE = re.compile(r"clone[23]?\((?!\))(?!.*flags)").search
FORKS = ("clone", "clone2", "clone3", "fork", "vfork")


def mmap(imp: Importer, task: Task, m: Match[str]) -> str | None:
    text, protection, kind, fd, raw, offset_text, result = m.groups()
    start, length = number(result), number(text)
    ended = take_place(imp, task, start, start + length)
    if fd == "-1" or "MAP_ANONYMOUS" in kind:
        return ended
    found = imp.describe(task, fd, raw)
    if found is None or found.node is None:
        reason = UNKNOWN_FD if found is None else NOT_A_FILE
        return ended and reason
    node, offset = found.node, number(offset_text)
    task.maps.add(start, start + length, node, offset, "MAP_PRIVATE" in kind)
    flag = sum(flag for word, flag in _KINDS.items() if word in kind)
    if "PROT_WRITE" in protection:
        flag |= WRITABLE_SHARED if "MAP_SHARED" in kind else PRIVATE
    if flag & WRITABLE_SHARED and node.inside:
        imp.writable[node.path] = imp.writable.get(node.path, 0) + length
    return imp.also(task, ended, MMAP, node, offset, length, flag)


def take_place(imp: Importer, task: Task, start: int, end: int) -> str | None:
    """Remove the mappings in [start, end) that a new mapping replaces (MAP_FIXED); shared mappings make MUNMAP rows.

    Private mappings make no row: every loaded program has some, and stores to them never reach a file.
    """
    reason: str | None = NOT_A_FILE_OPERATION
    for low, high, node, offset in list(task.maps.within(start, end)):
        if not task.maps.private(low):
            reason = imp.also(task, reason, MUNMAP, node, offset, high - low, 0)
    task.maps.cut(start, end)
    return reason


def munmap(imp: Importer, task: Task, m: Match[str]) -> str | None:
    start, length = number(m[1]), number(m[2])
    reason: str | None = NOT_A_FILE_OPERATION
    for low, high, node, offset in task.maps.cut(start, start - -length // _PAGE * _PAGE):
        reason = imp.also(task, reason, MUNMAP, node, offset, high - low, 0)
    return reason


def msync(imp: Importer, task: Task, m: Match[str]) -> str | None:
    if "MS_SYNC" not in m[3]:  # MS_ASYNC starts nothing since Linux 2.6.19, see msync(2)
        return BOOKKEEPING
    start = number(m[1])
    reason: str | None = NOT_A_FILE_OPERATION
    for low, high, node, offset in task.maps.within(start, start + number(m[2])):
        reason = imp.also(task, reason, MSYNC, node, offset, high - low, 0)
    return reason


def mremap(imp: Importer, task: Task, m: Match[str]) -> str | None:
    """Resize or move a mapping: shrinking emits MUNMAP for the cut-off rest; growing or moving emits MMAP with REMAPPED."""
    old, old_length, new_length, new = (number(m[i]) for i in (1, 2, 3, 4))
    old_length, new_length = (-length // _PAGE * -_PAGE for length in (old_length, new_length))
    private = any(True for _ in task.maps.within(old, old + 1)) and task.maps.private(old)
    pieces = task.maps.cut(old, old + old_length)
    reason = take_place(imp, task, new, new + new_length)
    if not pieces:
        return reason
    _, _, node, offset = pieces[0]
    task.maps.add(new, new + new_length, node, offset, private)
    if new_length < old_length:
        reason = imp.also(task, reason, MUNMAP, node, offset + new_length, old_length - new_length, 0)
    if new != old or new_length > old_length:
        reason = imp.also(task, reason, MMAP, node, offset, new_length, REMAPPED)
    return BOOKKEEPING if new == old and new_length == old_length else reason


def page_fault(imp: Importer, task: Task, m: Match[str]) -> str | None:
    """Handle a page fault, which `scmsim capture --mmap` (not strace) writes as a call; its row has 1 byte, the minimum."""
    address = number(m[1])
    for _, _, node, offset in task.maps.within(address, address + 1):
        # a store to a private page only reads the file, because the kernel copies the page
        stores = m[2] == "FAULT_WRITE" and not task.maps.private(address)
        return imp.emit(task, USTORE if stores else ULOAD, node, offset, 1, 0)
    return NOT_A_FILE_OPERATION


def file_size(imp: Importer, task: Task, m: Match[str]) -> str | None:
    """Record a file's length that `scmsim capture` (not strace) looked up, because no call of the trace shows it."""
    node = imp.names.at(imp.path(task, "AT_FDCWD", None, m[1]))
    if node is not None:
        imp.measured(node, number(m[2]))
    return BOOKKEEPING


def fork(imp: Importer, task: Task, m: Match[str]) -> str | None:
    """Handle a fork's return in the parent; a child whose lines came earlier has already been given to a pending fork."""
    child, text = m["result"], m.string  # the joined line: a message may come between `clone(` and its flags
    if _UNREADABLE(text):
        raise ValueError(f"the flags of {text[-80:]!r} are unreadable, so what parent and child share is unknown")
    imp.forks.pop(task.pid, None)
    if child not in imp.adopted:
        if imp.tasks.get(None) is task:
            imp.started.add(child)
        born = imp.add_child(child, task, text)
        if task.pid is not None and int(child) < int(task.pid):
            imp.unseen[child] = born
    elif imp.adopted.pop(child) != task.pid:
        imp.mistaken += 1
    return BOOKKEEPING


def execve(imp: Importer, task: Task, m: Match[str]) -> str | None:
    task.execute()
    imp.program = imp.program or unescape(m[1])
    return BOOKKEEPING


def execveat(imp: Importer, task: Task, m: Match[str]) -> str | None:
    task.execute()
    return BOOKKEEPING


def unshare(imp: Importer, task: Task, m: Match[str]) -> str | None:
    if "CLONE_FILES" in m[1]:
        task.table = task.table.copy()
    return BOOKKEEPING


# name -> (pattern of the arguments and the result, handler)
_ADDRESS = r"(0x[0-9a-f]{1,16})"
_MMAP = r"(?:0x[0-9a-f]+|NULL)" + COMMA + NUMBER + COMMA + WORD + COMMA + WORD + COMMA + FD + COMMA + NUMBER + RESULT
CALLS = {
    "mmap": (_MMAP, mmap),
    "mmap2": (_MMAP, mmap),
    "old_mmap": (_MMAP, mmap),
    "munmap": (_ADDRESS + COMMA + NUMBER + RESULT, munmap),
    "msync": (_ADDRESS + COMMA + NUMBER + COMMA + WORD + RESULT, msync),
    "mremap": (_ADDRESS + COMMA + NUMBER + COMMA + NUMBER + COMMA + REST + RESULT, mremap),
    "file_size": (PATH + COMMA + NUMBER + RESULT, file_size),
    "page_fault": (_ADDRESS + COMMA + WORD + RESULT, page_fault),
    **{name: (REST + RESULT, fork) for name in FORKS},
    "execve": (PATH + COMMA + REST + RESULT, execve),
    "execveat": (DIR + COMMA + PATH + COMMA + REST + RESULT, execveat),
    "unshare": (WORD + RESULT, unshare),
}
