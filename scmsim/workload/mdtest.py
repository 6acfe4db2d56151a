"""mdtest of IOR 4.1: trees of directories; items are created, examined with stat, read, renamed and removed, call by call.

Source: hpc/ior 5fcf0ba, src/mdtest.c and src/aiori-POSIX.c, checked with strace of a build.  Tasks take turns within a phase,
one call each.  Not modelled: the clock (-W), collective creates (-c), other interfaces than POSIX.
"""

from collections.abc import Iterator

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import (
    CLOSE,
    CREATE,
    DIRECTORY,
    FSYNC,
    MKDIR,
    OPEN,
    READ,
    RENAME,
    RMDIR,
    STAT,
    SYNC,
    UNLINK,
    WRITE,
    Files,
)
from scmsim.workload import _stream
from scmsim.workload._fileset import rand
from scmsim.workload._mdtest import plan
from scmsim.workload._steps import Stream, calls, check_times

SUMMARY = "mdtest: reads its command line and makes its creates, stats, reads, renames and removes, call by call"
PARAMS = {
    "command": ("", "text", "mdtest's command line, such as '-n 1000 -F -w 4k -e 4k'"),
    "tasks": ("1", "tasks", "MPI processes (mpirun -n)"),
    "seed": ("1", "seed", "seed of -R; without --random-seed, mdtest takes the seed from the clock"),
    "interval": ("1us", "time", "trace time between two calls"),
}
COMMAND = "command"  # scmsim synth mdtest -o OUT.parquet -- -n 1000 -F
_BLOCK = 1 << 15  # STEPs in one array
_PAGE = 4096


class Workload(Stream):
    """Stream of mdtest's operations (a records.Source); for the parameters see PARAMS. The interval is in nanoseconds.

    Raises UsageError for a flag that is not modelled, or a combination that mdtest refuses; all mistakes are named.
    """

    @_stream.declared(PARAMS)
    def __init__(self, p: _stream.Params) -> None:
        if not p.command:
            raise UsageError("give mdtest's command line, such as -- -n 1000 -F -w 4k -e 4k")
        if not 1 <= p.seed < 1 << 31:
            raise UsageError(f"seed {p.seed} is not a valid seed of C's rand; give 1 to 2147483647")
        self.plan, notes = plan(p.command, p.tasks, p.seed)
        self._number()
        check_times(8 * len(self.files), p.interval)
        self.header["notes"] = notes

    def _number(self) -> None:
        """Assign the object ids: the directories of -d, then each test directory with its trees, and each owner's items."""
        p = self.plan
        self.owners = 1 if p.shared else p.tasks
        self.trees = p.tasks if p.own_trees else 1
        self.made, self.gone = p.order()
        names, sizes = list(p.tops), [0] * len(p.tops)
        # without -C, everything is from an earlier run
        absent, held = (-1, -1) if p.create else (0, max(p.write_bytes, p.read_bytes))
        self.is_dir = [True] * len(names)
        parents = p.parents().tolist()
        numbers = range(p.first_dir * p.per_dir, p.dirs * p.per_dir)
        for iteration in range(p.iterations):
            for loop in range(p.loops):
                tests = [f"{top}/test-dir.{iteration}-{loop}" for top in p.tops]
                names += tests
                at = len(names)
                for tree in range(self.trees):
                    base, root = f"mdtest_tree{f'.{tree}' * p.own_trees}", len(names)
                    names.append(f"{tests[tree % len(tests)]}/{base}.0")
                    for number in range(1, p.dirs):
                        names.append(f"{names[root + parents[number]]}/{base}.{number}")
                self.is_dir += [True] * (len(names) - len(self.is_dir))
                sizes += [absent] * (len(names) - len(sizes))
                for kind, is_there in (("dir", p.on_dirs), ("file", p.on_files)):
                    for owner in range(self.owners if is_there else 0):
                        root = at + (owner * p.dirs if p.own_trees else 0)
                        who = "shared" if p.shared else owner
                        names += [f"{names[root + n // p.per_dir]}/{kind}.mdtest.{who}.{n}" for n in numbers]
                    self.is_dir += [kind == "dir"] * (len(names) - len(self.is_dir))
                    sizes += [absent if kind == "dir" else held] * (len(names) - len(sizes))
        self.files = Files(names, np.array(sizes, np.int64), np.array(self.is_dir))
        self.in_test = len(p.tops) + self.trees * p.dirs + (p.on_dirs + p.on_files) * self.owners * p.in_tree

    def steps(self) -> Iterator[np.ndarray]:
        """Yield the operations as STEPs: each iteration makes its trees, runs the phases and removes the trees."""
        p = self.plan
        for iteration in range(p.iterations):
            tests = [len(p.tops) + (iteration * p.loops + loop) * self.in_test for loop in range(p.loops)]
            if p.create:
                for test in tests:
                    yield self._test_dirs(test, MKDIR)
                for test in tests:
                    yield from self._tree(test, MKDIR)
            names = [np.arange(self.owners * p.in_tree) for _ in tests]  # the item with each name: renames change it
            if p.on_dirs:
                yield from self._phases(tests, names, of_dirs=True)
            if p.on_files:
                yield from self._phases(tests, names, of_dirs=False)
            if p.remove:
                for test in tests:
                    yield from self._tree(test, RMDIR)
                for test in tests:
                    yield self._test_dirs(test, RMDIR)

    def _test_dirs(self, test: int, op: int) -> np.ndarray:
        """Return the calls that make or remove the test directories, one below each directory of -d."""
        tops = np.arange(len(self.plan.tops))
        return calls(len(tops), op=op, file=test + tops, parent=tops, thread=tops, flag=DIRECTORY)

    def _tree(self, test: int, op: int) -> Iterator[np.ndarray]:
        """Yield the calls that make or remove the trees of a test directory."""
        p, parents = self.plan, self.plan.parents()
        order = np.array(self.made if op == MKDIR else self.gone)
        for first in range(0, len(order), _BLOCK):
            number = order[first : first + _BLOCK]
            rows = []
            for tree in range(self.trees):
                root = test + len(p.tops) + tree * p.dirs
                parent = np.where(number, root + parents[number], test + tree % len(p.tops))
                rows.append(calls(len(number), op=op, file=root + number, parent=parent, thread=tree, flag=DIRECTORY))
            yield _in_turn(rows)

    def _phases(self, tests: list[int], names: list[np.ndarray], of_dirs: bool) -> Iterator[np.ndarray]:
        """Yield the calls of all phases on the items of one kind, directories or files."""
        p = self.plan
        flag = DIRECTORY if of_dirs else 0
        looked = self._order()
        by_dir = np.array([number for number in self.made if number >= p.first_dir]) - p.first_dir
        for is_on, phase, shift in (
            (p.create, CREATE, 0), (p.stat, STAT, 1), (p.read, READ, 2), (p.rename and of_dirs and p.items > 1, RENAME, 1),
            (p.remove, UNLINK, 3),
        ):  # fmt: skip
            for test, at_name in zip(tests, names, strict=True) if is_on else ():
                if (of_dirs and phase == READ) or (phase == RENAME and p.looked_at == 1):
                    continue
                for first in range(0, p.in_tree if phase in (CREATE, UNLINK) else p.looked_at, self._many()):
                    rows = []
                    for task in range(1 if p.shared and phase == UNLINK else p.tasks):
                        place = np.arange(first, min(first + self._many(), p.in_tree))
                        if phase in (CREATE, UNLINK):
                            item = by_dir[place // p.per_dir] * p.per_dir + place % p.per_dir
                        else:
                            in_order = (
                                looked[task] if p.seed is not None and phase != RENAME else np.arange(p.looked_at)
                            )
                            item = in_order[first : first + self._many()]
                        owner = 0 if p.shared else (task + shift * p.stride) % p.tasks
                        rows.append(self._calls(phase, test, task, owner, item, at_name, flag))
                    yield _in_turn(rows)
                if phase == RENAME:
                    self._renamed(at_name)
            if is_on and p.sync_all:
                yield calls(p.tasks, op=SYNC, thread=np.arange(p.tasks))

    def _many(self) -> int:
        """Return how many items of each task to process at a time."""
        return max(1, _BLOCK // self.plan.tasks)

    def _order(self) -> list[np.ndarray]:
        """Return the items of each task in the order of stat and read, as C's rand shuffles them; empty without -R."""
        p, found = self.plan, []
        for task in range(p.tasks if p.seed is not None else 0):
            draws, order = rand(int(p.seed or 0) + task), list(range(p.items))
            for n in range(p.items - 1, 0, -1):
                k = int(next(draws) / ((1 << 31) - 1) * n)
                order[k], order[n] = order[n], order[k]
            found.append(np.array(order, np.int64))
        return found

    def _calls(
        self, phase: int, test: int, task: int, owner: int, item: np.ndarray, at_name: np.ndarray, flag: int
    ) -> np.ndarray:
        """Return the calls of one task on items, each in turn."""
        p = self.plan
        trees = test + len(p.tops)
        base = trees + self.trees * p.dirs + (self.owners * p.in_tree if p.on_dirs and not flag else 0)
        file = base + owner * p.in_tree + item
        if flag:
            file = base + at_name[owner * p.in_tree + item]
        parent = trees + (owner * p.dirs if p.own_trees else 0) + p.first_dir + item // p.per_dir
        if phase == RENAME:
            # the first directory moves away, each next one gets its predecessor's name, and the first gets the last name
            file[-1] = base + at_name[owner * p.in_tree] if item[-1] == p.looked_at - 1 else file[-1]
            return calls(len(item), op=RENAME, file=file, thread=task, flag=flag)
        if flag and phase != STAT:
            op = MKDIR if phase == CREATE else RMDIR
            return calls(len(item), op=op, file=file, parent=parent, thread=task, flag=flag)
        if phase in (STAT, UNLINK):
            return calls(
                len(item), op=phase, file=file, parent=parent if phase == UNLINK else -1, thread=task, flag=flag
            )
        ops = self._of_a_file(phase, task)
        steps = calls(len(item) * len(ops), op=np.tile(ops, len(item)), file=np.repeat(file, len(ops)), thread=task)
        kind = steps["op"]
        steps["parent"] = np.where(kind == CREATE, np.repeat(parent, len(ops)), -1)
        length = np.where(
            kind == WRITE, p.write_bytes, np.where(kind == READ, p.write_bytes if phase == CREATE else p.read_bytes, 0)
        )
        steps["offset"], steps["length"] = np.where(length > 0, 0, -1), length
        if phase == READ:  # the read buffer is not the write buffer
            steps["buffer"] = np.where(kind == READ, -(-p.write_bytes // _PAGE) * _PAGE, 0)
        return steps

    def _of_a_file(self, phase: int, task: int) -> list[int]:
        """Return the calls that create or read one file."""
        p = self.plan
        if phase == READ:
            return [OPEN, *[READ] * (p.read_bytes > 0), CLOSE]
        first = OPEN if p.shared and task else CREATE
        if p.mknod:
            return [first]
        written = [WRITE, *[FSYNC] * p.sync_file, *[READ] * p.reread] if p.write_bytes else []
        return [first, *written, CLOSE]

    def _renamed(self, at_name: np.ndarray) -> None:
        """Record which directory has each name after the rename phase."""
        p = self.plan
        for first in range(0, len(at_name), p.in_tree):
            part = at_name[first : first + p.looked_at - 1]
            part[:] = np.roll(part, -1)


def _in_turn(rows: list[np.ndarray]) -> np.ndarray:
    """Interleave the rows of the tasks, one row of each in turn; all tasks must have the same number of rows."""
    return np.stack(rows, axis=1).reshape(-1) if len(rows) > 1 else rows[0]
