"""Interpret the arguments of system calls as perf records them: registers, and the descriptors and files that they name."""

from collections.abc import Callable

from scmsim.trace.kernels import file_rules
from scmsim.trace.syscalls.from_numbers import fd as as_fd
from scmsim.trace.syscalls.importer import NOT_A_FILE, UNKNOWN_FD, Importer
from scmsim.trace.syscalls.state import Description, Node, Task

MOST = 1 << 60
WORD = 0xFFFFFFFF

Arguments = tuple[int, int, int, int, int, int]
Handler = Callable[[Importer, Task, Arguments, int], str | None]


def as_signed(number: int) -> int:
    return number if -MOST < number < MOST else 0


def find(imp: Importer, task: Task, fd: int) -> Description | None:
    imp.doubt |= file_rules.FILE_LOST if task.table.is_unsure(as_fd(fd)) else 0
    return task.table.slots.get(as_fd(fd))


def node_of(imp: Importer, task: Task, fd: int) -> Node | str:
    found = find(imp, task, fd)
    return UNKNOWN_FD if found is None else found.node or NOT_A_FILE


def as_offset(number: int) -> int:
    if not 0 <= number < MOST:
        raise ValueError(f"offset or length {number} is not between 0 and 2^60 - 1")
    return number
