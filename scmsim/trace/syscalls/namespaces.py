"""Handle descriptors from elsewhere (another process, a handle), and calls that change what names mean (mounts, roots).

Rules
-----
- A descriptor that a message or pidfd_getfd brings, or that open_by_handle_at opens, has the path that -y prints and an unknown
  position.  Without -y nothing is known about the descriptor: its calls are left out, and counted as lost.
- A mount or unmount at a path hides or reveals other files at and below the path.
- After chroot, pivot_root or setns to a mount namespace a path may mean another file, unless -y prints what an open led to.
"""

import re
from re import Match

from scmsim.trace.kernels.file_rules import FILE_LOST
from scmsim.trace.syscalls.importer import BOOKKEEPING, NOT_A_FILE_OPERATION, Importer
from scmsim.trace.syscalls.state import Task
from scmsim.trace.syscalls.text import COMMA, DATA, DIR, FD, PATH, PATHOF, REST, RESULT, RESULT_FD

_RIGHTS = re.compile(r"SCM_RIGHTS, *(?:cmsg_data=)?[\[{]([^\]}]*)[\]}]").findall
_DESCRIPTOR = re.compile(rf"(\d+){PATHOF}").finditer


def _arrived(imp: Importer, task: Task, fd: str, raw: str | None, at_exec: bool) -> None:
    if raw is None:
        task.table.lose(fd)
    else:
        task.table.put(fd, imp.adopt(raw), at_exec)


def received(imp: Importer, task: Task, m: Match[str]) -> str | None:
    """Handle a received message, which may bring descriptors (SCM_RIGHTS)."""
    found = _RIGHTS(m[1]) if "SCM_RIGHTS" in m[1] else ()
    for data in found:
        for descriptor in _DESCRIPTOR(data):
            _arrived(imp, task, descriptor[1], descriptor[2], "MSG_CMSG_CLOEXEC" in m[1])
    return BOOKKEEPING if found else NOT_A_FILE_OPERATION


def arrived(imp: Importer, task: Task, m: Match[str]) -> str | None:
    """Handle a call that returns a descriptor of a file that another process has opened or a handle names."""
    _arrived(imp, task, m[2], m[3], "CLOEXEC" in m[1] or m.string.startswith("pidfd_getfd(", m.start(1) - 12))
    return BOOKKEEPING


def _mounted(imp: Importer, task: Task, fd: str, raw: str | None, quoted: str) -> str:
    imp.names.mounted(imp.path(task, fd, raw, quoted))
    return BOOKKEEPING


def mount(imp: Importer, task: Task, m: Match[str]) -> str | None:
    return _mounted(imp, task, "AT_FDCWD", None, m[1])


def move_mount(imp: Importer, task: Task, m: Match[str]) -> str | None:
    _mounted(imp, task, m[1], m[2], m[3])
    return _mounted(imp, task, m[4], m[5], m[6]) if m[6] or m[4] == "AT_FDCWD" else BOOKKEEPING


def new_root(imp: Importer, task: Task, m: Match[str]) -> str | None:
    task.place.root_doubt = task.place.doubt = FILE_LOST
    return BOOKKEEPING


def setns(imp: Importer, task: Task, m: Match[str]) -> str | None:
    about = (m[2] or "") + m[3]
    return (
        new_root(imp, task, m)
        if not re.search(r"CLONE_NEW(?!NS)|(?:net|ipc|uts|pid|user|time|cgroup):", about)
        else BOOKKEEPING
    )


_AT = DIR + COMMA + PATH
_MESSAGE = (f"({REST})" + RESULT, received)
CALLS = {
    "recvmsg": _MESSAGE,
    "recvmmsg": _MESSAGE,
    "recvmmsg_time64": _MESSAGE,
    "pidfd_getfd": (f"({REST})" + RESULT_FD, arrived),
    "open_by_handle_at": (f"({REST})" + RESULT_FD, arrived),
    "mount": (DATA + COMMA + PATH + COMMA + REST + RESULT, mount),
    "umount": (PATH + RESULT, mount),
    "oldumount": (PATH + RESULT, mount),
    "umount2": (PATH + COMMA + REST + RESULT, mount),
    "move_mount": (_AT + COMMA + _AT + COMMA + REST + RESULT, move_mount),
    "chroot": (PATH + RESULT, new_root),
    "pivot_root": (PATH + COMMA + PATH + RESULT, new_root),
    "setns": (FD + COMMA + f"({REST})" + RESULT, setns),
}
