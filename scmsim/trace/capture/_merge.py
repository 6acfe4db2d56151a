"""Merge two recordings of the same calls: take paths from strace, and numbers, order and times from perf.

The kernel reaches perf's tracepoints right before and after the call itself, and both tools see every call of a thread
in the same order, so the n-th openat of a thread in one recording is the n-th in the other.  A call that only perf
recorded (data, positions, mappings) is written as strace would have written it, see `from_numbers`.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from scmsim.core.errors import EnvironmentProblem
from scmsim.trace.syscalls.from_numbers import NEEDS_MEMORY, arguments, flags, result
from scmsim.trace.syscalls.text import UNFINISHED, number

_LINE = re.compile(r"(\d{1,10}) +\d+\.\d+ +(?:(\w+)\(|<\.\.\. (\w+) resumed> ?)?(.*)", re.DOTALL).match
_RESULT = re.compile(r"\)\s+= (0x[0-9a-f]{1,16}|-?\d{1,20}|\?)(?!.*\)\s+= )").search
_FORKS = frozenset(("clone", "clone3", "fork", "vfork"))
_EXECS = frozenset(("execve", "execveat"))
_SEARCHED = 64  # strace calls of a thread to search, at most, for the call that perf recorded
_EVENT = re.compile(
    r" *(\d{1,10})/(\d{1,10}) +(\d{1,12})\.(\d{6})\d*: +"
    r"(?:raw_syscalls:sys_(?:enter: NR (-?\d{1,10}) \(((?:[0-9a-f]{1,16}, ){5}[0-9a-f]{1,16})\)|"
    r"exit: NR (-?\d{1,10}) = (-?\d{1,20}))|(.*))"
).match
_FORK = re.compile(r"sched:sched_process_fork: .*\bchild_pid=(\d+)").match
_FAULT = re.compile(
    r"exceptions:page_fault_user: address=(?:0x)?([0-9a-f]{1,16}) .*error_code=0x([0-9a-f]{1,16})"
).match
_DAX = re.compile(r"fs_dax:dax_(pmd|pte)_fault_done: .* (\S+)$").match
_CLONE = ((0x100, "CLONE_VM"), (0x200, "CLONE_FS"), (0x400, "CLONE_FILES"))
_THREAD = "CLONE_VM|CLONE_FS|CLONE_FILES"
_WROTE, _FETCHED = 2, 16  # bits of a page fault's error code on x86


@dataclass
class Merged:
    """Counts of one merge: calls seen by both tools (`paired`), calls that perf alone describes (`plain`), and others.

    `unpaired` calls lack the text that only strace has; `dax` counts DAX faults by kind.
    """

    paired: int = 0
    plain: int = 0
    unpaired: int = 0
    faults: int = 0
    dax: dict[str, int] = field(default_factory=dict)


class Texts(Protocol):
    """Source of the text of calls that perf alone cannot describe, because their arguments are in memory."""

    knows_forks: bool

    def take(self, tid: int, name: str, value: int | None, args: Sequence[int]) -> str | None: ...


class StraceCalls:
    """The calls of each thread in strace's output, which is read only as far as needed.

    Parameters
    ----------
    lines : iterable of str
        Output of `strace -f -ttt -o`, with the halves of split calls not yet joined.
    """

    knows_forks = True

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._calls: dict[int, deque[tuple[str, str]]] = {}
        self._halves: dict[int, tuple[str, str]] = {}
        self.root = -1
        while self.root < 0 and self._read():
            pass

    def take(self, tid: int, name: str, value: int | None, args: Sequence[int]) -> str | None:
        """Remove and return the thread's next call with this name and result (any result if None); None if no call matches."""
        looked = 0
        while True:
            calls = self._calls.setdefault(tid, deque())
            for index in range(looked, min(len(calls), _SEARCHED)):
                if calls[index][0] == name and (value is None or _agrees(calls[index][1], value)):
                    return self._drop(calls, index)
            looked = len(calls)
            if looked >= _SEARCHED or not self._read():
                return None

    def left(self) -> int:
        """Return how many calls were not taken."""
        while self._read():
            pass
        return sum(len(calls) for calls in self._calls.values())

    @staticmethod
    def _drop(calls: deque[tuple[str, str]], index: int) -> str:
        calls.rotate(-index)
        text = calls.popleft()[1]
        calls.rotate(index)
        return text

    def _read(self) -> bool:
        line = next(self._lines, None)
        if line is None:
            return False
        found = _LINE(line.rstrip("\n"))
        if found is None:
            return True
        tid, name, resumed, rest = int(found[1]), found[2], found[3], found[4]
        if rest.startswith("[ Process") and "32 bit" in rest:
            raise EnvironmentProblem(
                "the command runs a 32-bit program, whose calls have other numbers; use --backend strace"
            )
        self.root = tid if self.root < 0 else self.root
        if name is not None and rest.endswith(UNFINISHED):
            self._halves[tid] = name, f"{name}({rest.removesuffix(UNFINISHED)}"
        elif name is not None:
            self._add(tid, name, f"{name}({rest}")
        elif resumed is not None:
            first = self._halves.pop(tid, None) or self._moved(resumed)
            if first is not None and first[0] == resumed:
                self._add(tid, resumed, first[1] + rest)
        return True

    def _moved(self, name: str) -> tuple[str, str] | None:
        """Remove and return the first half of an exec that another thread began: on return, it has the process's number."""
        found = next((tid for tid, half in self._halves.items() if half[0] == name and name in _EXECS), None)
        return None if found is None else self._halves.pop(found)

    def _add(self, tid: int, name: str, text: str) -> None:
        if name in NEEDS_MEMORY:
            self._calls.setdefault(tid, deque()).append((name, text))


def _agrees(text: str, value: int) -> bool:
    """Return whether strace's result matches perf's: a failure is -1 in strace's text, a negative errno in perf's."""
    found = _RESULT(text)
    if found is None or found[1] == "?":
        return value < 0
    return number(found[1]) == value if value >= 0 else found[1] == "-1"


class Merge:
    """A converter of perf's events to strace lines.

    Parameters
    ----------
    names : dict
        System call number -> name, for this machine.
    texts : Texts
        Source of the texts of the calls in `NEEDS_MEMORY`.
    start_s : int
        Seconds to add to perf's times to get wall-clock times.
    roots : iterable of int
        The first threads; only events of these threads and their descendants are converted.
    """

    def __init__(self, names: dict[int, str], texts: Texts, start_s: int, roots: Iterable[int]) -> None:
        self.report = Merged()
        self._names = names
        self._texts = texts
        self._start = start_s
        self._members = set(roots)
        self._pending: dict[int, tuple[str, list[int]]] = {}  # thread -> its unfinished call
        self._newborn: dict[int, tuple[int, str | None]] = {}  # unseen child -> parent, clone flags if known
        self._closing: tuple[int, str, str] | None = None  # thread, time and text of a close that has just begun
        self._split: set[int] = set()  # threads whose close has been written as a first half

    def lines(self, events: Iterable[str]) -> Iterator[str]:
        """Yield the merged strace lines, each with a newline."""
        members = self._members
        for line in events:
            event = _EVENT(line)
            if event is None:
                continue
            tid = int(event[2])
            if tid not in members:
                continue
            stamp = f"{int(event[3]) + self._start}.{event[4]}"
            if self._closing is not None:
                yield from self._close_begun(tid, event)
            if tid in self._newborn:
                yield self._born(tid, int(event[1]), stamp)
            if event[5] is not None:
                yield from self._enter(tid, stamp, int(event[5]), event[6])
            elif event[7] is not None:
                yield from self._exit(tid, stamp, int(event[7]), int(event[8]))
            else:
                yield from self._other(tid, stamp, event[9].rstrip())

    def _enter(self, tid: int, stamp: str, call: int, registers: str) -> Iterator[str]:
        name = self._names.get(call)
        if name is None:
            self._pending.pop(tid, None)
            return
        args = [int(value, 16) for value in registers.split(", ")]
        self._pending[tid] = name, args
        if name == "close":
            self._closing = tid, stamp, f"close({arguments(name, args)}"
        elif name in _FORKS and self._texts.knows_forks:
            # the child's first call may precede the parent's return: write the whole line now, before both
            self._pending.pop(tid)
            yield from self._named(tid, stamp, name, None, args)

    def _close_begun(self, tid: int, event: re.Match[str]) -> Iterator[str]:
        """Yield the first half of a close unless the next event is its return: close frees the descriptor at once."""
        assert self._closing is not None
        thread, stamp, text = self._closing
        self._closing = None
        if tid != thread or event[7] is None:
            self._split.add(thread)
            yield f"{thread} {stamp} {text}{UNFINISHED}\n"

    def _exit(self, tid: int, stamp: str, call: int, value: int) -> Iterator[str]:
        name = self._names.get(call)
        begun = self._pending.pop(tid, None)
        if name is None or name in _FORKS or (begun is None and not (name in _EXECS and value == 0)):
            return  # skip a child's return from the fork that created it, and returns of calls begun before the capture
        if begun is not None and begun[0] != name:
            self.report.unpaired += 1
            return
        args = begun[1] if begun is not None else []
        if name in NEEDS_MEMORY:
            yield from self._named(tid, stamp, name, value, args)
            return
        self.report.plain += 1
        first = "<... close resumed>" if tid in self._split else f"{name}({arguments(name, args)}"
        self._split.discard(tid)
        yield f"{tid} {stamp} {first}) = {result(name, value, args)}\n"

    def _named(self, tid: int, stamp: str, name: str, value: int | None, args: list[int]) -> Iterator[str]:
        """Yield the line of a call whose text must come from `texts`; count the call as paired or unpaired."""
        text = self._texts.take(tid, name, value, args)
        if text is None:
            self.report.unpaired += 1
            if value is not None and value >= 0:
                # without arguments: the importer treats what the call may have changed as unknown
                yield f"{tid} {stamp} {name}() = {value}\n"
            return
        self.report.paired += 1
        found = _RESULT(text) if name in _FORKS else None
        if found is not None and found[1].isdigit():
            self._members.add(int(found[1]))
        yield f"{tid} {stamp} {text}\n"

    def _other(self, tid: int, stamp: str, text: str) -> Iterator[str]:
        if text.startswith("sched:sched_process_exit"):
            self._members.discard(tid)
            self._pending.pop(tid, None)
            self._split.discard(tid)
            yield f"{tid} {stamp} +++ exited with 0 +++\n"
        elif fork := _FORK(text):
            self._forked(tid, int(fork[1]))
        elif fault := _FAULT(text):
            self.report.faults += 1
            code = int(fault[2], 16)
            kind = "FAULT_WRITE" if code & _WROTE else "FAULT_EXEC" if code & _FETCHED else "FAULT_READ"
            yield f"{tid} {stamp} page_fault(0x{fault[1]}, {kind}) = 0\n"
        elif dax := _DAX(text):
            kind = f"{dax[1]} {dax[2]}"
            self.report.dax[kind] = self.report.dax.get(kind, 0) + 1

    def _forked(self, tid: int, child: int) -> None:
        """Note a child whose fork only perf saw.

        The flags of clone3 are in memory, so the child's first event must show whether it is a thread or a process.
        """
        self._members.add(child)
        name, args = self._pending.get(tid, ("fork", []))
        kind = flags(args[0], _CLONE) if name == "clone" else "CLONE_VM" if name == "vfork" else "0"
        self._newborn[child] = tid, None if name == "clone3" else kind

    def _born(self, tid: int, pid: int, stamp: str) -> str:
        parent, kind = self._newborn.pop(tid)
        kind = kind or ("0" if pid == tid else _THREAD)
        return f"{parent} {stamp} clone(flags={kind}) = {tid}\n"
