"""Filebench 1.5-alpha3: reads a .f file (or one of six personalities) and plays its threads.

To the byte: file sets (tree, sizes), how many files are made beforehand, which file comes next (rotors), sizes of the calls.  Drawn
anew from `seed`, as Filebench draws from the system: which files are made beforehand, random offsets, sizes of random appends and
places in a thread's memory.  Threads take turns, one flowop each.  Not modelled: time (run, delay, rates, hog), leaf directories.
Source: Filebench (see _flowops, _fileset, _wml); checked with strace.
"""

import pathlib
from collections.abc import Iterator

import numpy as np

from scmsim import records
from scmsim.errors import UsageError
from scmsim.records import CLOSE, CREATE, DIRECTORY, MKDIR, SETUP, WRITE
from scmsim.workload import _wml
from scmsim.workload._fileset import Drand48, Tree, rand
from scmsim.workload._flowops import KINDS, Files, Running, Step, World
from scmsim.workload._steps import FIELDS, Stream, calls, check_times, from_rows

SUMMARY = "Filebench: reads a .f file or plays fileserver, webserver, varmail, webproxy, oltp, videoserver"
PARAMS = {
    "file": ("", "file", "workload file (.f); without one, the personality"),
    "personality": (
        "varmail",
        "fileserver|webserver|varmail|webproxy|oltp|videoserver",
        "a shipped workload (varmail is the thesis' mailserver)",
    ),
    "set": ("", "text", "values for the file's variables, such as 'nfiles=100 nthreads=1'"),
    "flowops": ("100000", "flowops", "steps of all threads together, after which the run ends"),
    "starved": (
        "wait",
        "wait|stop",
        "a step that finds no file: its thread waits, or the run ends as Filebench's does",
    ),
    "seed": ("1", "seed", "seed of what Filebench draws from the system"),
    "interval": ("1us", "time", "trace time between two calls"),
}

_FOLDER = pathlib.Path(__file__).parent / "personalities"
_ALLOCATION = 1 << 20  # bytes of a write when files are made beforehand (fileset.h, FILE_ALLOC_BLOCK)
_RAND_MAX = (1 << 31) - 1
_BLOCK = 1 << 13  # STEPs in one array


class source(Stream):
    """Stream of Filebench's operations (a records.Source).

    Parameters
    ----------
    file, personality, set, flowops, starved, seed, interval
        See PARAMS; interval in nanoseconds.

    Raises
    ------
    UsageError
        For a file that cannot be read or says something that is not modelled (named, with its line).
    """

    def __init__(
        self,
        file: str = "",
        personality: str = "varmail",
        set: str = "",
        flowops: int = 100_000,
        starved: str = "wait",
        seed: int = 1,
        interval: int = 1000,
    ) -> None:
        given = {name: value for name, value in locals().items() if name in PARAMS}
        if flowops < 1 or seed < 0:
            raise UsageError("flowops must be at least 1, and seed at least 0")
        changed = dict(word.partition("=")[::2] for word in set.split())
        self.workload = _wml.read(file or _FOLDER / f"{personality}.f", changed)
        self.flowops, self.starved, self.seed, self.interval = flowops, starved, seed, interval
        self._populate()
        check_times(flowops, interval)
        self.header = {"tool": "scmsim synth filebench", "workload": {"kind": "filebench", **given}}
        self.header["filesets"] = [
            {"name": each.name, "files": len(tree.sizes), "bytes": sum(tree.sizes)}
            for each, tree in zip(self.workload.filesets, self.trees, strict=True)
        ]

    def _populate(self) -> None:
        """Draw all file sets, the last defined first, as Filebench does; then number folders and files."""
        uniform = Drand48()
        drawn = {}
        for number in reversed(range(len(self.workload.filesets))):
            each = self.workload.filesets[number]
            width, shape = (each.dirwidth, each.dirgamma) if not each.single else (2, 0)
            drawn[number] = Tree(each.entries, width, shape, each.size, uniform)
        self.trees = [drawn[number] for number in sorted(drawn)]
        top = sorted({each.path for each in self.workload.filesets})
        names, self.roots = list(top), []
        for each, tree in zip(self.workload.filesets, self.trees, strict=True):
            self.roots.append(len(names))
            names.append(f"{each.path}/{each.name}")
            for parent, name in tree.folders:
                names.append(f"{names[self.roots[-1] + 1 + parent]}/{name}")
        folders, self.first_ids = len(names), []
        for root, tree in zip(self.roots, self.trees, strict=True):
            self.first_ids.append(len(names))
            names += [f"{names[root + 1 + folder]}/{name}" for folder, name in tree.files]
        self.tops = {path: number for number, path in enumerate(top)}
        is_dir = np.arange(len(names)) < folders
        self.files = records.Files(names, np.where(np.arange(len(names)) < len(top), 0, -1), is_dir)

    def steps(self) -> Iterator[np.ndarray]:
        """Yield the operations as STEPs: the file sets are made (SETUP), then the threads take turns."""
        world = World(self.seed)
        chance, sets = rand(), []
        for number in reversed(range(len(self.trees))):
            yield from self._made_folders(number)
            sets.append(self._files(number))
            yield from self._made_files(number, sets[-1], chance, world)
        threads = self._threads(dict(zip(reversed(range(len(self.trees))), sets, strict=True)))
        yield from self._turns(world, threads)

    def _made_folders(self, number: int) -> Iterator[np.ndarray]:
        tree, root = self.trees[number], self.roots[number]
        yield calls(
            1, op=MKDIR, file=root, file2=self.tops[self.workload.filesets[number].path], flag=SETUP | DIRECTORY
        )
        ids = root + 1 + np.arange(len(tree.folders))
        parents = root + 1 + np.array([parent for parent, _ in tree.folders], np.int64)
        yield calls(len(ids), op=MKDIR, file=ids, file2=parents, flag=SETUP | DIRECTORY)

    def _files(self, number: int) -> Files:
        tree, root = self.trees[number], self.roots[number]
        return Files(self.first_ids[number], [root + 1 + folder for folder, _ in tree.files], tree.sizes)

    def _made_files(self, number: int, files: Files, chance: Iterator[int], world: World) -> Iterator[np.ndarray]:
        """Files made beforehand, in random order, each with the probability that `prealloc` says."""
        limit = _RAND_MAX * (100 - self.workload.filesets[number].prealloc) // 100
        order = np.random.default_rng([self.seed, number]).permutation(len(files.drawn)).tolist()
        parts: list[np.ndarray] = []
        for file in order:
            if next(chance) <= limit and limit:
                continue
            files.exists[file], files.size[file] = 1, files.drawn[file]
            id, size = files.first_id + file, files.drawn[file]
            world.rows += (CREATE, id, files.folders[file], 0, SETUP, -1, 0, 0, 0, 0, 0)
            if size:
                world.rows += (WRITE, id, -1, 0, SETUP, 0, size, _ALLOCATION, _ALLOCATION, 0, 0)
            world.rows += (CLOSE, id, -1, 0, SETUP, -1, 0, 0, 0, 0, 0)
            if len(world.rows) >= _BLOCK * len(FIELDS):
                yield from_rows(world.rows)
                world.rows = []
        yield from parts

    def _threads(self, sets: dict[int, Files]) -> list[Running]:
        """All threads with their own steps; semaphores find their targets by name."""
        named = {each.name: sets[number] for number, each in enumerate(self.workload.filesets)}
        threads: list[Running] = []
        for kind in self.workload.threads:
            for _ in range(kind.count):
                thread, private = Running(len(threads), kind.memsize), 0
                for flowop in kind.flowops:
                    name = flowop.given.get("filesetname", flowop.given.get("filename"))
                    if name is not None and name not in named:
                        raise UsageError(f"line {flowop.line}: no fileset named {name!r} is defined; define it first")
                    step = Step(flowop, named.get(str(name)), private, kind.memsize)
                    if flowop.kind in ("read", "write", "aiowrite", "appendfile", "appendfilerand") and not step.unit:
                        raise UsageError(f"line {flowop.line}: {flowop.kind} needs an iosize; such as iosize=4k")
                    private += -(-step.unit // 4096) * 4096
                    thread.program += [(KINDS[flowop.kind], step)] * step.turns
                threads.append(thread)
        by_name: dict[str, list[Step]] = {}
        for thread in threads:
            for step in dict.fromkeys(step for _, step in thread.program):
                by_name.setdefault(step.name, []).append(step)
        for thread in threads:
            for _, step in thread.program:
                if step.target:
                    step.targets = by_name.get(step.target, [])
        return threads

    def _turns(self, world: World, threads: list[Running]) -> Iterator[np.ndarray]:
        """Round after round, one flowop a thread, until enough are done or no thread can go on."""
        left, wanted = self.flowops, _BLOCK * len(FIELDS)
        while left > 0:
            before = left
            for thread in threads:
                act, step = thread.program[thread.at]
                if act(world, thread, step):
                    thread.at = thread.at + 1 if thread.at + 1 < len(thread.program) else 0
                    left -= 1
                    if not left:
                        break
                elif self.starved == "stop" and step.files is not None:
                    left = 0
                    break
            if len(world.rows) >= wanted:
                yield from_rows(world.rows)
                world.rows = []
            if left == before:
                break
        if world.rows:
            yield from_rows(world.rows)
            world.rows = []
