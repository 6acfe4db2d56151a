"""Find the task that a line belongs to: strace prints `[pid N]` only while it traces several, and namespaces rename them."""

from scmsim.trace.syscalls.importer import Importer
from scmsim.trace.syscalls.state import Task


class Identities:
    """Who made a call.

    A line without a process belongs to the only task that lives.  The first task has no number until a second task exists;
    the first number that belongs to no fork is its number.
    """

    def __init__(self, imp: Importer) -> None:
        self.imp = imp
        self.guessed = 0  # stretches of lines without a process although several tasks live
        self._announced: set[str] = set()
        self._first: Task | None = None
        self._owner: str | None = None

    def announce(self, pid: str) -> None:
        """Note that strace has attached to a process: it is not the first one, once that has made a call."""
        if self.imp.tasks:
            self._announced.add(pid)

    def next_belongs_to(self, pid: str) -> None:
        """Note that strace printed `[pid N]`, then a message: the next line without a process is this one's."""
        self.task(pid) if pid not in self.imp.tasks else None
        self._first = self.imp.tasks.pop(None, None) or self._first
        self._owner = pid

    def task(self, pid: str | None, resumed: str = "") -> Task:
        """Return the task of a process for which the table of tasks has no entry yet."""
        tasks = self.imp.tasks
        if pid is None:
            return self._without_number()
        first = tasks.get(None)
        if first is not None and first.pid is None and self._is_first(pid, first, resumed):
            return self._name(first, pid)
        return self._from_namespace(pid) or self.imp.task(pid)

    def exit(self, pid: str | None) -> Task | None:
        """Forget a task that has exited, and return it."""
        tasks = self.imp.tasks
        if pid is not None and pid not in tasks and None in tasks:
            self.task(pid)
        task = tasks.pop(pid, None)
        if task is not None:
            for key in (None, task.pid):
                if tasks.get(key) is task:
                    del tasks[key]
        return task

    def supersede(self, leader: str | None, thread: str) -> Task | None:
        """Give a thread that called execve the number of its leader, and return the leader's task, which ends."""
        old = self.exit(leader)
        task = self.imp.tasks.pop(thread, None)
        if task is not None:
            task.pid, self.imp.tasks[leader] = leader, task
        return old

    def _is_first(self, pid: str, first: Task, resumed: str) -> bool:
        if pid in self._announced:
            return False
        if first.pending is not None and first.pending[0] == resumed:
            return True
        return None not in self.imp.forks

    def _name(self, first: Task, pid: str) -> Task:
        imp = self.imp
        del imp.tasks[None]
        first.pid, imp.tasks[pid], self._first = pid, first, first
        if None in imp.forks:
            imp.forks[pid] = imp.forks.pop(None)
        for child, parent in imp.adopted.items():
            if parent is None:
                imp.adopted[child] = pid
        return first

    def _without_number(self) -> Task:
        imp, tasks = self.imp, self.imp.tasks
        if self._owner is not None:
            task, self._owner = tasks.get(self._owner), None
            if task is not None:
                if self._first is not None and self._first.pid is None:
                    tasks[None] = self._first
                return task
        if not tasks:
            return imp.task(None)
        live = list(tasks.values())
        if len(live) > 1:
            self.guessed += 1
        tasks[None] = self._first if self._first in live else live[0]
        return tasks[None]

    def _from_namespace(self, pid: str) -> Task | None:
        """A fork in another pid namespace returned a smaller number than the one that strace prints for the child."""
        imp = self.imp
        for child, parent in imp.unseen.items():
            if int(child) < int(pid) and (parent is None or int(child) < int(parent)) and child in imp.tasks:
                del imp.unseen[child]
                task = imp.tasks.pop(child)
                task.pid, imp.tasks[pid] = pid, task
                return task
        return None
