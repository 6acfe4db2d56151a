"""Mark the state that a line which was not understood may have changed: descriptors, positions, lengths, names.

Rules
-----
- The readable parts of the line limit the doubt: its task, descriptor, result and paths, and the effects that the table of system
  calls lists for the call.  A call that does nothing to files causes no doubt.
- Rows that depend on doubtful state are still made, and counted (`uncertain_rows`).  A call on a descriptor that such a line may
  have opened is left out, and counted (`lost_rows`).
- A doubt ends where a later line shows the truth: an open or the text of -y shows the file, an lseek the position, a stat, a
  truncate or an lseek to the end the length.
"""

import re

from scmsim.core.records import OFFSET_UNKNOWN
from scmsim.trace.kernels.file_rules import FILE_LOST, LENGTH_LOST, POSITION_LOST
from scmsim.trace.syscalls import table
from scmsim.trace.syscalls.importer import Importer
from scmsim.trace.syscalls.state import Description, Node, Task
from scmsim.trace.syscalls.text import DIR, FD, PATH, PATHOF

_HEAD = re.compile(rf"\w+\({FD}").match
# A line that lost its end may be very long.  The patterns are possessive, and a number is tried only from its first digit, so that
# the time is proportional to the length.
_NOTE = r"\([^()]*+(?>(?:\([^()]*+\)[^()]*+)*)\)"
_RESULT = re.compile(rf"\)\s++= (-?\d{{1,18}}+){PATHOF}(?: <[\d.]++>)?(?: {_NOTE})?$").search
_PATHS = re.compile(rf"(?:(?<!\d){DIR}, *+)?{PATH}").finditer
_SHARES = re.compile(r"\bCLONE_[A-Z]+|^v?fork\(").search
# calls whose result is the number of bytes moved; then the calls that change names and need two paths
MOVERS = table.with_any("position", "length") & frozenset(
    "read readv write writev pread64 preadv preadv2 pwrite64 pwritev pwritev2 sendfile sendfile64 copy_file_range splice".split()
)
_TWO_PATHS = frozenset("rename renameat renameat2 link linkat symlink symlinkat".split())
_CLOSES = frozenset(("close", "close_range"))
_REPLACES = frozenset(("dup2", "dup3"))
# calls that may open descriptors whose numbers are not the result
_OPENS_OTHERWISE = frozenset(
    "pipe pipe2 socketpair recvmsg recvmmsg recvmmsg_time64 socketcall fcntl fcntl64 close_range seccomp bpf".split()
)


def lost_line(imp: Importer, pid: str | None) -> None:
    """Mark the state that an unreadable line may have changed as doubtful: its task's, or all tasks' if it shows no task.

    A line before the first call adds no doubt: files that it may have opened count as opened before the trace.
    """
    imp.report.lost_rows += 1
    if not imp.tasks:
        return
    if pid is None:
        imp.orphans = True
    for task in [imp.tasks.get(pid) or imp.task(pid)] if pid is not None else list(imp.tasks.values()):
        _lose_task(task)


def _lose_task(task: Task) -> None:
    task.table.lose_all()
    task.place.doubt = FILE_LOST
    for found in task.table.slots.values():
        _lose_position(found)


def lost_call(imp: Importer, task: Task, name: str, text: str) -> None:
    """Mark the state that the call `name` may have changed as doubtful, unless `text` (from the name on) rules it out."""
    what = table.does(name)
    if what is None:
        what = table.UNKNOWN
    elif what <= {"none", "attribute"}:
        return
    imp.report.lost_rows += 1
    head, ended = _HEAD(text), _RESULT(text)
    fd = head[1] if head else None
    result = int(ended[1]) if ended else None
    if result is not None and result > 0 and name in MOVERS:
        imp.report.lost_bytes += result
    found = imp.describe(task, head[1], head[2]) if head else None
    _lose_data(imp, task, what, found, name, text)
    if "descriptor" in what:
        _lose_descriptor(task, name, text, fd, result)
    if "name" in what:
        _lose_names(imp, task, name, text)
    if "place" in what:
        task.place.doubt = FILE_LOST
        task.place.root_doubt |= FILE_LOST if name not in ("chdir", "fchdir", "getcwd") else 0
    if "process" in what:
        _lose_process(imp, task, name, text, result)
    if "blind" in what:
        imp.report.blind[name] += 1


def _lose_data(
    imp: Importer, task: Task, what: frozenset[str], found: Description | None, name: str, text: str
) -> None:
    """Mark position and length of the descriptor that the line names as doubtful, or of all descriptors."""
    known = [found] if found is not None else list(task.table.slots.values())
    if "position" in what:
        for each in known:
            _lose_position(each)
    if "length" not in what:
        return
    nodes = [each.node for each in known if each.node is not None] if "descriptor" not in what else []
    for node in [*nodes, *_named(imp, task, text)]:
        node.exact = False
        node.doubt |= LENGTH_LOST


def _lose_position(found: Description) -> None:
    if found.node is not None:
        found.doubt |= OFFSET_UNKNOWN | POSITION_LOST


def _named(imp: Importer, task: Task, text: str) -> list[Node]:
    """Return the known files that the quoted texts of a line name."""
    names = imp.names
    nodes = [names.at(names.follow(imp.path(task, m[1] or "AT_FDCWD", m[2], m[3]))) for m in _PATHS(text)]
    return [node for node in nodes if node is not None]


def _lose_descriptor(task: Task, name: str, text: str, fd: str | None, result: int | None) -> None:
    descriptors = task.table
    if result is not None and result < 0:
        return
    if name in ("fcntl", "fcntl64") and " F_" in text and "F_DUPFD" not in text:
        return
    if name == "close" and fd is not None:
        descriptors.lose(fd)
    elif name in _CLOSES or (name in _REPLACES and result is None) or table.does(name) is None:
        descriptors.lose_all()
    elif result is None or (name in _OPENS_OTHERWISE and "F_DUPFD" not in text):
        # The new descriptor's number is unknown, but was free: known descriptors stay valid, and an unknown number may now be
        # this file.
        descriptors.doubt = True
    else:
        descriptors.lose(str(result))


def _lose_names(imp: Importer, task: Task, name: str, text: str) -> None:
    paths = [imp.path(task, m[1] or "AT_FDCWD", m[2], m[3]) for m in _PATHS(text)]
    if len(paths) < 1 + (name in _TWO_PATHS):
        imp.names.doubt = FILE_LOST
    for path in paths:
        imp.names.lose(path)


def _lose_process(imp: Importer, task: Task, name: str, text: str, result: int | None) -> None:
    if name.startswith("exec"):
        if result in (0, None):
            task.execute()
        return
    if name == "unshare" or table.does(name) is None:
        task.table.lose_all()
        return
    child = str(result) if result is not None and result > 0 else None
    if child is None:
        imp.orphans = True
    elif child not in imp.tasks:
        imp.add_child(child, task, text)
    if child is not None and not _SHARES(text):  # the text does not show whether both share descriptors
        imp.tasks[child].table.lose_all()
        task.table.lose_all()
    imp.forks.pop(task.pid, None)
