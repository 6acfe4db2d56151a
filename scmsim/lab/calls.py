"""Tasks and callers of the kernel's code: the plugin's rows with their chains of callers.

A node of the plugin's tree of calls is a call site and the node from which it was reached; a root is a stack.  The calls of
the trace run on the stack that makes system calls.  Everything else runs in interrupts and other tasks.  Work that a file
system defers (journal threads, work queues, writeback, objects freed by RCU) belongs to the calls that caused it and is
`DEFERRED`; work that would run without the calls is `OTHER`.  Interrupts between CPUs, and what the threads of other CPUs still
do in the kernel, are `OTHER` too, under separate names.
"""

import collections
import functools
import pathlib
import re
from collections.abc import Mapping, Sequence

import numpy as np

from scmsim.lab import regions
from scmsim.lab.counts import USER, Symbols, functions_at
from scmsim.perf.profile import ELSEWHERE, plain

NODE = np.dtype([("site", "<u8"), ("parent", "<u4"), ("unused", "<u4")])  # struct node of calls.c
NO_PARENT = (1 << 32) - 1
OWN, DEFERRED, OTHER = range(3)
KINDS = ("own", "deferred", "other")
INTERRUPTS = "(interrupts)"
SENT, OTHER_CPUS = "(interrupts by other CPUs)", "(other CPUs)"

# (OWN, DEFERRED or OTHER; function of the thread or work item, "" for the trace's calls)
Task = tuple[int, str]

_INTERRUPT = re.compile(
    r"(asm_)?(sysvec_|common_interrupt|exc_nmi)|_*do_softirq|handle_softirqs|_*irq_exit|ret_from_intr|run_ksoftirqd"
)
# Threads and work items that finish what calls began: of the file systems, of writeback, of the block layer, and the work
# queues themselves.  up() is here because the completion of a log write calls it by a tail call.
_DEFERRED = re.compile(
    r"jbd2_|kjournald|ext[24]_|xfs|xlog_|wb_workfn|inode_switch_wbs|iomap_|blk_|delayed_fput|rcu_do_batch|worker_thread|up$"
)
_SENT = re.compile(r"(asm_)?sysvec_(call_function|reschedule_ipi)")
_FREES, _WORKS = "rcu_do_batch", "process_one_work"
_SYSTEM_CALLS = "do_syscall_64"
# Functions above a thread's own function, or below it while it sleeps.
_OF_ANY_THREAD = re.compile(r"ret_from_fork|kthread$|_*schedule|_*switch_to|finish_task_switch|io_schedule")


def read(path: pathlib.Path) -> np.ndarray:
    """Return the nodes that the plugin wrote."""
    return np.fromfile(path, NODE)


class Calls:
    """The rows of a run (see counts.ROW) with their callers and tasks.

    `function`, `task` and `entered` have an entry for each row; `entered` is true if the row's block is the first of its function.
    """

    def __init__(self, rows: np.ndarray, nodes: np.ndarray, symbols: Symbols, fs: str = "") -> None:
        # In user mode the other CPUs' threads wait for their turn: see guest_threads.c.
        rows = self.rows = rows[(rows["elsewhere"] == 0) | (rows["address"] >> np.uint64(63) > 0)]
        self._nodes = nodes
        self._callers = functions_at(nodes["site"], symbols)
        self._parents = [-1 if parent == NO_PARENT else parent for parent in nodes["parent"].tolist()]
        self._own_work = re.compile(f"{re.escape(fs.partition('-')[0].lower()) or '(?!)'}_")
        self.function = functions_at(rows["address"], symbols)
        self.entered = np.isin(rows["address"], symbols.addresses)
        self._node = rows["node"].tolist() if len(nodes) else [-1] * len(rows)
        self.task = self._tasks()

    def stacks(self) -> list[str]:
        """Return each row's functions from the outermost caller inwards: "do_syscall_64;vfs_write;ext4_file_write_iter"."""
        above: list[str] = []
        for caller, parent in zip(self._callers, self._parents, strict=True):
            above.append("" if parent < 0 else f"{above[parent]}{plain(caller)};")
        return [
            (above[node] if node >= 0 and function != USER else "") + plain(function)
            for function, node in zip(self.function, self._node, strict=True)
        ]

    def sites(self, by: Mapping[str, Sequence[tuple[str, str]]]) -> list[str]:
        """Return the mechanism of each row, decided by the innermost function in a file system's map (see perf.profile)."""

        @functools.cache
        def above(node: int) -> frozenset[str]:
            outer = node >= 0 and self._parents[node] >= 0
            return above(self._parents[node]) | {plain(self._callers[node])} if outer else frozenset()

        @functools.cache
        def site(function: str, node: int) -> str:
            for caller, found in by.get(plain(function), ()):
                if not caller or caller in above(node):
                    return found
            return at(node)

        @functools.cache
        def at(node: int) -> str:
            outer = node >= 0 and self._parents[node] >= 0
            return site(self._callers[node], self._parents[node]) if outer else ELSEWHERE

        for node in range(len(self._parents)):  # parents come first, so the recursion stays shallow
            above(node)
            at(node)
        pairs = zip(self.function, self._node, strict=True)
        return [USER if function == USER else site(function, node) for function, node in pairs]

    def _tasks(self) -> list[Task]:
        """Return the task of each row by following its callers from the root.

        An interrupt, a work item or a batch of RCU's callbacks begins another task.
        """
        stacks, callers = self._stacks(), set(self._callers)

        @functools.cache
        def after(task: Task, function: str) -> Task:
            if _SENT.match(function):
                return OTHER, SENT
            if _INTERRUPT.match(function) and task[1] != _FREES:
                return OTHER, INTERRUPTS
            if function == _FREES:
                return DEFERRED, _FREES
            if function == _WORKS:
                return DEFERRED, _WORKS
            # a work item calls other functions; a function without callees is a small helper of the queue
            item = task == (DEFERRED, _WORKS) and function in callers
            return (self._kind(function), function) if item else task

        at: list[Task] = []
        for node, parent in enumerate(self._parents):
            at.append(stacks[node] if parent < 0 else after(at[parent], self._callers[node]))
        tasks = [
            (OWN, "") if function == USER or node < 0 else after(at[node], function)
            for function, node in zip(self.function, self._node, strict=True)
        ]
        for k in np.flatnonzero(self.rows["elsewhere"]).tolist():
            if tasks[k][0] == OWN:
                tasks[k] = OTHER, OTHER_CPUS
        return tasks

    def _kind(self, function: str) -> int:
        return DEFERRED if _DEFERRED.match(function) or self._own_work.match(function) else OTHER

    def _stacks(self) -> dict[int, Task]:
        """Return the task of each root.

        A stack that makes system calls is the task of the trace's calls; any other is a thread, named by its outermost function.
        """
        root, first = [], []
        names: dict[int, collections.Counter[str]] = {}
        own: set[int] = set()
        for node, parent in enumerate(self._parents):
            if parent < 0:
                root.append(node)
                first.append("")
                names[node] = collections.Counter()
                continue
            caller = self._callers[node]
            root.append(root[parent])
            first.append(first[parent] or ("" if _OF_ANY_THREAD.match(caller) else caller))
            names[root[node]][first[node]] += 1
            if caller == _SYSTEM_CALLS:
                own.add(root[node])
        entry = regions.layout().of(self._nodes["site"]) == regions.ENTRY_AREA
        return {
            node: (OWN, "") if not own or node in own or entry[node] else self._thread(count)
            for node, count in names.items()
        }

    def _thread(self, names: "collections.Counter[str]") -> Task:
        name = next((name for name, _ in names.most_common() if name), "(a thread)")
        return (OTHER, INTERRUPTS) if _INTERRUPT.match(name) else (self._kind(name), name)
