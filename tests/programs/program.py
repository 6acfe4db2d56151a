"""Runs a program: drawn line by line, or given as a script; under a tracer, with the observer's truth beside its trace."""

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.programs.agent import Agent, built
from tests.programs.draw import Draw, Line
from tests.programs.truth import Truth, Watch

EXISTING = {"a": 10000, "b": 300, "d/a": 70000}  # bytes of the files that are there before a program


@dataclass
class Ran:
    """A program that has run: its script, what each line returned, and its truth."""

    script: list[Line]
    results: list[int | None]
    truth: Truth
    folder: str
    warning: str = ""


class Place:
    """A temporary folder with the agent; the program's folder in it is made again for each run."""

    def __init__(self, where: str | None = None) -> None:
        self.home = tempfile.mkdtemp(prefix="programs-", dir=where)
        self.agent, self.shared = built(self.home), os.path.join(self.home, "shared")
        self.folder, self.out = os.path.join(self.home, "under"), os.path.join(self.home, "out")

    def __enter__(self) -> "Place":
        return self

    def __exit__(self, *error: object) -> None:
        built.cache_clear()
        shutil.rmtree(self.home, ignore_errors=True)

    def clean(self) -> Truth:
        """Make the program's folder again, with the files that are there before."""
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(os.path.join(self.folder, "d"))
        truth = Truth(self.folder)
        truth.adopt(self.folder)
        for name, length in EXISTING.items():
            with open(os.path.join(self.folder, name), "wb") as file:
                file.write(b"x" * length)
        for name in ("d", *EXISTING):
            truth.adopt(os.path.join(self.folder, name))
        return truth


def run(
    place: Place,
    tracer: Sequence[str],
    script: list[Line] | None = None,
    draw: Draw | None = None,
    lines: int = 30,
    **popen: Any,
) -> Ran:
    """Run a script, or draw a program of so many lines."""
    truth = place.clean()
    agent = Agent(place.agent, tracer, place.folder, place.shared, **popen)
    ran = Ran([], [], truth, place.folder)
    waiting = list(script) if script is not None else draw.start() if draw else []
    try:
        while waiting or (draw is not None and script is None and len(ran.script) < lines):
            line = waiting.pop(0) if waiting else _drawn(agent, draw)
            _step(agent, ran, line, place)
            if not agent.tasks:
                break
        _finish(agent, ran)
    finally:
        agent.kill()
    return ran


def _drawn(agent: Agent, draw: Draw | None) -> Line:
    assert draw is not None
    task = draw.random.choice([task for task in agent.tasks if not agent.is_stopped(task)])
    tid = agent.tasks[task]
    process = Agent._process(tid)
    alone = process == tid and len(os.listdir(f"/proc/{process}/task")) == 1
    line = draw.line(task, Truth.descriptors(tid), alone)
    if line[1] in ("exit", "exit_group") and len(agent.tasks) == 1:
        return [task, "dup", [3]]
    return line


def _step(agent: Agent, ran: Ran, line: Line, place: Place) -> None:
    task, name, arguments = line
    tid = agent.tasks.get(task)
    if tid is None or agent.is_stopped(task):
        return
    real = [_real(a, place) for a in arguments]
    if name == "io_submit":
        context = agent.call(task, "io_setup", [8, ["off", 0]])
        if context is None or context < 0:
            return
        from tests.programs.agent import ARGUMENTS_AT

        real[0] = int.from_bytes(agent.memory[ARGUMENTS_AT : ARGUMENTS_AT + 8], "little")
    if (
        name == "io_uring"
        and (seen := Truth.open_as(tid, real[1]))
        and not (stat.S_ISREG(seen.mode) or stat.S_ISDIR(seen.mode))
    ):
        return  # a ring waits for a pipe's data even with O_NONBLOCK
    watch = Watch(ran.truth, tid, name, real)
    result = agent.call(task, name, real)
    if name == "execve" and result == 0:
        agent.released(task)
    before = len(ran.truth.events)
    watch.after(result)
    ran.truth.by_call += [len(ran.script)] * (len(ran.truth.events) - before)
    ran.script.append(line)
    ran.results.append(result)


def _real(argument: Any, place: Place) -> Any:
    if not isinstance(argument, str):
        return argument
    return (
        place.agent
        if argument == "@agent"
        else argument.replace("@", place.folder, 1)
        if argument[:1] == "@"
        else argument
    )


def _finish(agent: Agent, ran: Ran) -> None:
    opened = []
    for tid in agent.tasks.values():
        for fd in Truth.descriptors(tid):
            seen = Truth.open_as(tid, fd)
            if seen is not None:
                opened.append((seen.key, seen.size))
    ran.truth.finish(opened)
    agent.finish()


def shown(script: Sequence[Line], results: Sequence[int | None] = ()) -> str:
    """Return a script as text, a line a call."""
    out = []
    for i, (task, name, arguments) in enumerate(script):
        result = results[i] if i < len(results) else None
        error = f" ({errno.errorcode.get(-result, '?')})" if result is not None and result < 0 else ""
        out.append(f"{task}: {name}({', '.join(map(str, arguments))})" + (f" = {result}{error}" if results else ""))
    return "\n".join(out)
