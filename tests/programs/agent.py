"""Drive the agent (`agent.c`): order one system call after the other from its tasks, and read what it returned.

The agent runs under the tracer that is tested; this side does not.  Orders go through shared memory, so the trace has
nothing of them but futex calls.
"""

import ctypes
import errno
import functools
import mmap
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from tests.programs.calls import NUMBERS

CALL, FORK, VFORK, THREAD, RING = range(5)
SHARED_AT, SHARED_BYTES = 0x10000000000, 1 << 20
SLOTS, SLOT_BYTES = 16, 256
ARGUMENTS_AT, BUFFER_AT = 1 << 16, 1 << 18  # what an order points to; what data calls move (256 KiB)
NEW_TASKS = {"fork": FORK, "clone": FORK, "vfork": VFORK, "thread": THREAD}
CLONE_VM, CLONE_FS, CLONE_FILES, CLONE_SIGHAND, CLONE_THREAD = 0x100, 0x200, 0x400, 0x800, 0x10000
PATIENCE = 5.0  # seconds for one call
START_PATIENCE = 60.0  # seconds until a tracer runs the program: perf opens hundreds of events before
_LIBC = ctypes.CDLL(None, use_errno=True)
_SOURCE = pathlib.Path(__file__).with_name("agent.c")


class Stuck(Exception):
    """The agent did not answer."""


def missing() -> str:
    """Return what this machine lacks to run programs; empty if nothing."""
    wanted = [name for name in ("cc", "strace") if shutil.which(name) is None]
    return (
        f"no {' and no '.join(wanted)}" if wanted else "" if os.uname().machine == "x86_64" else "not an x86-64 machine"
    )


@functools.cache
def built(folder: str) -> str:
    """Compile the agent into a folder; return its path."""
    out = os.path.join(folder, "agent")
    subprocess.run(["cc", "-O1", "-static", "-o", out, str(_SOURCE)], check=True)
    return out


class Pack:
    """Puts the arguments of an order into shared memory.

    An argument is an int, None (NULL), a str (a path), or a list: ["buf"], ["bytes", hex], ["iov", length...], ["off", value],
    ["argv", slot], ["rights", fd].
    """

    def __init__(self, memory: mmap.mmap, agent: str, shared: str) -> None:
        self.memory, self.agent, self.shared = memory, agent, shared
        self.at = ARGUMENTS_AT

    def put(self, data: bytes) -> int:
        """Store bytes; return their address in the agent."""
        at, self.at = self.at, self.at + (len(data) + 15) // 16 * 16
        self.memory[at : at + len(data)] = data
        return SHARED_AT + at

    def value(self, argument: Any) -> int:
        """Return an argument as the number that the kernel gets."""
        if argument is None:
            return 0
        if isinstance(argument, int):
            return argument
        if isinstance(argument, str):
            return self.put(argument.encode() + b"\0")
        kind, *rest = argument
        buffer = SHARED_AT + BUFFER_AT
        if kind == "buf":
            return buffer
        if kind == "bytes":
            return self.put(bytes.fromhex(rest[0]))
        if kind == "iov":
            return self.put(b"".join(struct.pack("qq", buffer, length) for length in rest))
        if kind == "off":
            return self.put(struct.pack("q", rest[0]))
        if kind == "argv":
            words = [self.put(word.encode() + b"\0") for word in (self.agent, self.shared, str(rest[0]))]
            return self.put(struct.pack("4q", *words, 0))
        if kind == "rights":
            control = self.put(struct.pack("QiiiI", 20, 1, 1, rest[0], 0))
            vector = self.put(struct.pack("QQ", buffer, 1))
            return self.put(struct.pack("QQQQQQQ", 0, 0, vector, 1, control, 24, 0))
        if kind == "iocbs":
            blocks = [self.put(_iocb(*rest[i : i + 4], buffer)) for i in range(0, len(rest), 4)]
            return self.put(struct.pack(f"{len(blocks)}q", *blocks))
        raise ValueError(kind)


def _iocb(opcode: int, fd: int, offset: int, length: int, buffer: int) -> bytes:
    return struct.pack("QIIHhIQQqQII", 0, 0, 0, opcode, 0, fd & 0xFFFFFFFF, buffer, length, offset, 0, 0, 0)


class Agent:
    """A running agent under a tracer; `tasks` maps the number of a task (its slot) to its tid."""

    def __init__(self, agent: str, tracer: Sequence[str], folder: str, shared: str, **popen: Any) -> None:
        self.shared, self.agent = shared, agent
        with open(shared, "w+b") as file:
            file.truncate(SHARED_BYTES)
            self.memory = mmap.mmap(file.fileno(), SHARED_BYTES)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.tasks: dict[int, int] = {}
        self.processes: set[int] = set()
        self.waiting: dict[int, tuple[int, Pack]] = {}  # tasks whose call has not returned
        self._order = 1
        self._ready(0)
        self.tracer = subprocess.Popen([*tracer, agent, shared, "0"], cwd=folder, start_new_session=True, **popen)
        self._await(0, 1, START_PATIENCE)
        self.tasks[0] = self._read(0, 9)
        self.processes.add(self.tasks[0])

    def call(self, task: int, name: str, arguments: Sequence[Any], patience: float = PATIENCE) -> int | None:
        """Run one call; return the kernel's result (negative: error), or None if the task is gone or the call blocks."""
        pack = Pack(self.memory, self.agent, self.shared)
        values = [pack.value(argument) for argument in arguments]
        kind, number, child = CALL, NUMBERS.get(name, 0), -1
        if name in NEW_TASKS:
            kind, child = NEW_TASKS[name], max([*self.tasks, *self._gone()]) + 1
            if child >= SLOTS:
                return -errno.EAGAIN
            self._ready(child)
        elif name == "io_uring":
            kind = RING
        elif name == "execve":
            values[1] = pack.value(["argv", task])
        self._order += 1
        struct.pack_into(
            "qq6qqqq",
            self.memory,
            task * SLOT_BYTES + 8,
            kind,
            number,
            *(values + [0] * 6)[:6],
            0,
            self.tasks[task],
            child,
        )
        # one store: struct.pack_into clears the word first, and an agent that sees the 0 runs the call twice
        ctypes.c_uint32.from_address(self._base + task * SLOT_BYTES).value = self._order
        _LIBC.syscall(202, ctypes.c_void_p(self._base + task * SLOT_BYTES), 1, 1, None, None, 0)
        if name in ("exit", "exit_group"):
            self._await_end(task, name)
            return None
        if child >= 0:
            return self._adopt(task, child, name)
        self._await(task, self._order, patience)
        return self._read(task, 8)

    def _gone(self) -> list[int]:
        return getattr(self, "_used", [])

    def _adopt(self, task: int, child: int, name: str) -> int:
        """Await a new task, and its parent unless it is stopped by vfork."""
        order = self._order
        if name != "vfork":
            self._await(task, order)
            result = self._read(task, 8)
            if result < 0:
                return result
        self._await(child, 1)
        self.tasks[child] = result = self._read(child, 9)
        self._used = [*self._gone(), child]
        self.processes.add(result)
        if name == "vfork":
            self.stopped[child] = task, order
        return result

    @functools.cached_property
    def stopped(self) -> dict[int, tuple[int, int]]:
        """A child of vfork -> its parent and the order that it awaits."""
        return {}

    def released(self, task: int) -> None:
        """Await the parent of a child of vfork that has ended or run execve."""
        if task in self.stopped:
            self._await(*self.stopped.pop(task))

    def is_stopped(self, task: int) -> bool:
        """Return whether a task awaits a child of vfork."""
        return any(parent == task for parent, _ in self.stopped.values())

    def _ready(self, slot: int) -> None:
        struct.pack_into("II", self.memory, slot * SLOT_BYTES, 1, 0)

    def _read(self, slot: int, field: int) -> int:
        return struct.unpack_from("q", self.memory, slot * SLOT_BYTES + 8 + 8 * field)[0]

    def _await(self, slot: int, order: int, patience: float = PATIENCE) -> None:
        at, end = slot * SLOT_BYTES + 4, time.monotonic() + patience
        while (done := struct.unpack_from("I", self.memory, at)[0]) != order:
            if time.monotonic() > end or self.tracer.poll() is not None:
                raise Stuck(f"task {slot} did not answer")
            limit = struct.pack("qq", 0, 50_000_000)
            _LIBC.syscall(202, ctypes.c_void_p(self._base + at), 0, done, limit, None, 0)

    def _await_end(self, task: int, name: str) -> None:
        tid = self.tasks[task]
        mine = [
            t
            for t in self.tasks
            if t == task or (name == "exit_group" and self._process(self.tasks[t]) == self._process(tid))
        ]
        end = time.monotonic() + PATIENCE
        for other in mine:
            while self._lives(self.tasks[other]):
                if time.monotonic() > end:
                    raise Stuck(f"task {task} did not end")
                time.sleep(0.0002)
        for other in mine:
            del self.tasks[other]
            self.released(other)

    @staticmethod
    def _process(tid: int) -> int:
        try:
            with open(f"/proc/{tid}/status") as file:
                return next(int(line.split()[1]) for line in file if line.startswith("Tgid"))
        except OSError:
            return -1

    @staticmethod
    def _lives(tid: int) -> bool:
        try:
            with open(f"/proc/{tid}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
        except OSError:
            return False

    def finish(self) -> int:
        """End every task, and await the tracer; return its exit status."""
        try:
            for task in sorted(self.tasks, reverse=True):
                if task in self.tasks and not self.is_stopped(task):
                    self.call(task, "exit_group", [0])
            return self.tracer.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Stuck("the tracer did not end") from None
        finally:
            self.kill()

    def kill(self) -> None:
        """End what this agent has started and still lives."""
        if self.tracer.poll() is None:
            for process in self.processes:
                try:
                    os.kill(process, signal.SIGKILL)
                except OSError:
                    continue
            try:
                self.tracer.wait(1)
            except subprocess.TimeoutExpired:
                self.tracer.kill()
                self.tracer.wait()
