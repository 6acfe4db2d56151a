"""Rewrite unusual forms of strace's text: join split calls, replace numbers by names, distinguish processes.

- A message of strace (`strace: Process 101 attached`) can come inside the line of a call.  The message becomes a line of its own,
  and the call goes on with the next line that is not a message.
- Without -o strace prints no process while there is only one, and `[pid N]` while there are more.  The first process gets the
  first number that no fork and no message has announced; later, lines without a number belong to the only process that is left.
- `-X verbose` prints numbers with names in a comment: the names replace the numbers.
- A call whose result strace made up (fault injection) did nothing: it counts as failed.
- The result of a fork in a PID namespace is the number in the comment.
- An old strace writes `SYS_197(0x4, ...)` for a call that it does not know: the name comes from `calls.csv`.
"""

import re
from collections.abc import Iterator

from scmsim.trace.syscalls import mixed, raw, table
from scmsim.trace.syscalls.importer import Importer
from scmsim.trace.syscalls.state import Task
from scmsim.trace.syscalls.text import ATTACHED, MESSAGE, RESUMED, SHOWS_RESULT, SUPERSEDED, belongs

_HINTS = (
    b"Process ", b"strace: ", b"(INJECTED", b" /* ", b"flags=0", b"_mode=0", b"cmsg_type=0x", b"aio_lio_opcode=", b"  > /", b"_r:",
    b"SYS_", *mixed.HINTS,
)  # fmt: skip
_STRING = r'"[^"\\]*+(?>(?:\\.[^"\\]*+)*)"'
_MESSAGE_ONLY = re.compile(rf"(?:\[pid +\d+[^\]]*\] )?(?:{MESSAGE})$").match
_INSIDE = re.compile(rf'((?:[^"]|{_STRING})*?)({MESSAGE}| > /\S+\(.*\) \[0x[0-9a-f]+\])$').match
_COMMENT = re.compile(rf"({_STRING})|(?:{raw.VALUE}) /\* ([A-Z][\w|?]*) \*/")
_INJECTED = re.compile(r"\)(\s+)= .*\(INJECTED(?:: [a-z, ]*retval)?\)(?= \(DELAYED\)| <[\d.]+>|$)").search
_MADE_UP = re.compile(r"= (?!-1 E).* \(INJECTED").search
_PID_HERE = re.compile(r"= \d+ /\* (\d+) in strace's PID NS \*/")
_CONTEXT = re.compile(rf"({_STRING})| \[[\w-]+:[\w-]+:[\w-]+[^\]\s]*\]")
_BY_NUMBER = re.compile(r'([^"(]*?)\bSYS_(\d{1,4})\((?:0x([0-9a-f]{1,4})(?=[,)]))?').match
_ONLY_I386 = re.compile(
    r"\b(?:mmap2|old_mmap|[lf]?stat64|fcntl64|_llseek|getuid32|_newselect|waitpid|set_thread_area)\("
).search
_KNOWN_ON_X86_64 = 280  # every strace for x86-64 names the calls below
_BETWEEN = re.compile(rf"({_STRING})")


def needs_work(text: bytes) -> bool:
    """Return whether a text may have lines in an unusual form, which `Forms.usual` must rewrite."""
    return any(hint in text for hint in _HINTS)


class Forms:
    """The state kept between lines: a call that a message has split, and which process is the first."""

    def __init__(self, imp: Importer) -> None:
        self._imp = imp
        self.piece: str | None = None
        self.last_half: tuple[str | None, str] | None = None  # process and name of the call that was split last
        self._attached: set[str] = set()
        self._gone: set[str] = set()
        self._half: str | None = None  # the call that the process without a number has begun and not ended
        self._is_i386 = False  # whether call numbers are those of i386
        self._found = False  # whether the number of the first process is known

    def usual(self, lines: list[str]) -> list[str]:
        """Return the lines rewritten in the usual form; their number stays equal."""
        return list(self._usual(mixed.joined(lines)))

    def _usual(self, lines: list[str]) -> Iterator[str]:
        for line in lines:
            if self.piece is not None:
                if _MESSAGE_ONLY(line) or belongs(line):
                    yield line
                    continue
                line, self.piece = self.piece + line, None
            if (
                ("strace: " in line or "Process " in line or " > /" in line)
                and not _MESSAGE_ONLY(line)
                and not SHOWS_RESULT(line)
            ):
                m = _INSIDE(line)
                if m is not None and ("(" in m[1] or "resumed>" in m[1]):
                    self.piece = m[1]
                    yield m[2]
                    continue
            yield _renamed(self._named(line, lines) if "SYS_" in line else line)

    def _named(self, line: str, lines: list[str]) -> str:
        """Write a call's name in place of its number, and its first argument in decimal, as descriptors are."""
        m = _BY_NUMBER(line)
        if m is None:
            return line
        number = int(m[2])
        self._is_i386 = self._is_i386 or number < _KNOWN_ON_X86_64 or any(map(_ONLY_I386, lines))
        name = table.by_number("i386" if self._is_i386 else "x86_64").get(number)
        return line if name is None else f"{m[1]}{name}({int(m[3], 16) if m[3] else ''}{line[m.end() :]}"

    def meet(self, pid: str, body: str) -> None:
        """Process the number of `[pid N]`, which may be that of the first process, if that is not known yet."""
        tasks, first = self._imp.tasks, self._imp.tasks.get(None)
        self._imp.started.discard(pid)
        if pid in tasks or first is None or self._found or pid in self._attached:
            return
        resumed = RESUMED(body)
        if self._half is not None and (resumed is None or resumed[1] != self._half):
            return  # the first process is still inside a call, so another process makes this one
        self._found = True
        first.pid = pid
        tasks[pid] = first
        forks, adopted = self._imp.forks, self._imp.adopted
        if None in forks:
            forks[pid] = forks.pop(None)
        for child, parent in adopted.items():
            if parent is None:
                adopted[child] = pid

    def message(self, body: str) -> None:
        """Apply strace's message that a process was attached or detached."""
        m = ATTACHED(body)
        if m is None:
            return
        self._imp.started.discard(m[1])
        if m[2] == "attached":
            self._attached.add(m[1])
            self._gone.discard(m[1])
            if not self._imp.tasks:  # strace -p: no call was seen before
                self._found = True
                self._imp.tasks[None] = self._imp.task(m[1])
        else:
            self.leaves(m[1])

    def begins(self, task: Task, name: str) -> None:
        """Note the first half of a call."""
        self.last_half = task.pid, name
        if self._imp.tasks.get(None) is task:
            self._half = name

    def ends(self, task: Task, name: str) -> None:
        """Note the second half of a call."""
        if self.last_half == (task.pid, name):
            self.last_half = None
        if self._imp.tasks.get(None) is task:
            self._half = None

    def superseded(self, pid: str | None, body: str) -> bool:
        """Return whether an event is `superseded by execve`; if so, give the thread the number of its process."""
        m = SUPERSEDED(body)
        if m is None:
            return False
        tasks = self._imp.tasks
        thread = tasks.pop(m[1], None)
        if thread is not None:
            if tasks.get(None) is tasks.get(pid):
                tasks[None] = thread
            thread.pid = pid
            tasks[pid] = thread
        return True

    def leaves(self, pid: str | None) -> Task | None:
        """Forget a process that has ended or was detached; return its task, None if the process is unknown."""
        tasks = self._imp.tasks
        task = tasks.pop(pid, None)
        if task is not None and task.pid != pid:
            tasks.pop(task.pid, None)
        if task is not None and task.lacked and pid is not None and pid in self._imp.foreign:
            self._imp.ended_lacking.add(pid)
        self._imp.forks.pop(task.pid if task is not None else pid, None)
        self.ending(pid, task)
        return task

    def ending(self, pid: str | None, task: Task | None = None) -> None:
        """Record the exit of a process: if one process is left, later lines without a number belong to it."""
        if pid is None or None not in self._imp.tasks:
            return
        tasks = self._imp.tasks
        self._gone.add(pid)
        nameless = tasks[None]
        if nameless.pid not in self._gone:
            return
        left = {id(each): each for key, each in tasks.items() if key is not None and key not in self._gone}
        if len(left) == 1:
            tasks[None] = next(iter(left.values()))
        elif task is nameless:
            del tasks[None]


def _renamed(line: str) -> str:
    if "PID NS */" in line:
        line = _PID_HERE.sub(r"= \1", line)
    if " /* " in line:
        line = _COMMENT.sub(_name, line)
    if "(INJECTED" in line and (m := _INJECTED(line)) and _MADE_UP(line, m.start()):
        line = f"{line[: m.start()]}){m[1]}= -1 EINJECTED (result made up by strace)"
    if "[" in line and _CONTEXT.search(line):
        line = _CONTEXT.sub(lambda m: m[1] or "", line)
    if "flags=0" in line or "_mode=0" in line or "=0x" in line or "aio_lio_opcode=" in line:
        line = "".join(
            part if part[:1] == '"' and part[-1:] == '"' else raw.decode_structures(part) for part in _between(line)
        )
    return line


def _between(line: str) -> list[str]:
    """Return the pieces of a line, split at strings; openat2, whose flags come after the path, stays one piece."""
    return _BETWEEN.split(line) if not line.count("openat2(") else [line]


def _name(m: re.Match[str]) -> str:
    if m[1]:
        return m[1]
    words = "|".join(word for word in m[2].split("|") if "?" not in word)
    return words or "0"
