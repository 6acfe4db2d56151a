"""Filebench 1.5-alpha3: reads a .f file (or one of six personalities) and runs its threads.

Exact to the byte: file sets (tree, sizes), how many files are made beforehand, which file comes next (rotors), sizes of the
calls.  Drawn from `seed` where Filebench draws from the system: which files are made beforehand, random offsets, sizes of
random appends and places in a thread's memory.  Threads take turns, one flowop each.  Not modelled: time (run, delay, rates,
hog), leaf directories.
Source: Filebench (see _fileset, _wml, kernels/filebench_run); checked with strace.
"""

import pathlib
from collections.abc import Iterator

import numpy as np

from scmsim.core import records
from scmsim.core.errors import UsageError
from scmsim.core.records import CLOSE, CREATE, DIRECTORY, MKDIR, SETUP, SYNCHRONOUS, WRITE
from scmsim.workload import _wml
from scmsim.workload._fileset import Drand48, Tree, rand
from scmsim.workload._steps import FIELDS, STEP, Stream, calls, check_times
from scmsim.workload.kernels.filebench_run import (
    ACTION,
    DESCRIPTORS,
    DRAWS,
    FILE,
    KINDS,
    SET,
    THREAD,
    WORLD,
    Tables,
    play,
)

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
_DRAWS = 1 << 14  # random numbers at a time
_PAGE = 4096
_SAME_AS = {"aiowrite": "write"}
_NEED_UNIT = ("read", "write", "aiowrite", "appendfile", "appendfilerand")
_ATTRIBUTES = {
    "fd": "fd",
    "source": "srcfd",
    "unit": "iosize",
    "range": "workingset",
    "random": "random",
    "rotates": "opennext",
}


class Workload(Stream):
    """Stream of Filebench's operations (a records.Source).

    Parameters
    ----------
    file, personality, set, flowops, starved, seed, interval
        See PARAMS; interval in nanoseconds.

    Raises
    ------
    UsageError
        For a file that cannot be read or contains something that is not modelled (named, with its line).
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
        if file and personality != PARAMS["personality"][0]:
            raise UsageError(f"give a workload file or the personality {personality!r}, not both")
        changed = dict(word.partition("=")[::2] for word in set.split())
        self.workload = _wml.read(file or _FOLDER / f"{personality}.f", changed)
        self.flowops, self.starved, self.seed, self.interval = flowops, starved, seed, interval
        self._populate()
        self._tables()  # called here to report mistakes in the flowops early
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
        tables = self._tables()
        yield from self._made_files_of_all(tables)
        out = np.zeros((_BLOCK, len(FIELDS)), np.int64)
        random = np.random.default_rng(self.seed)
        tables = tables._replace(draws=random.random(_DRAWS))
        while tables.world["left"][0] > 0:
            count = play(tables, out)
            yield out[:count].copy().view(STEP).reshape(-1)
            if tables.world["drawn"][0] + DRAWS > _DRAWS:
                rest = tables.draws[tables.world["drawn"][0] :]
                tables = tables._replace(draws=np.concatenate((rest, random.random(_DRAWS - len(rest)))))
                tables.world["drawn"] = 0

    def _made_files_of_all(self, tables: Tables) -> Iterator[np.ndarray]:
        """Yield the STEPs that make the file sets, the last defined set first."""
        chance = rand()
        for number in reversed(range(len(self.trees))):
            yield from self._made_folders(number)
            yield from self._made_files(number, tables.files, chance)

    def _made_folders(self, number: int) -> Iterator[np.ndarray]:
        tree, root = self.trees[number], self.roots[number]
        yield calls(
            1, op=MKDIR, file=root, parent=self.tops[self.workload.filesets[number].path], flag=SETUP | DIRECTORY
        )
        ids = root + 1 + np.arange(len(tree.folders))
        parents = root + 1 + np.array([parent for parent, _ in tree.folders], np.int64)
        yield calls(len(ids), op=MKDIR, file=ids, parent=parents, flag=SETUP | DIRECTORY)

    def _made_files(self, number: int, files: np.ndarray, chance: Iterator[int]) -> Iterator[np.ndarray]:
        """Yield the files made beforehand, in random order, each with the probability that `prealloc` states."""
        limit = _RAND_MAX * (100 - self.workload.filesets[number].prealloc) // 100
        count, first = len(self.trees[number].sizes), self.first_ids[number] - self.first_ids[0]
        kept = np.fromiter((next(chance) > limit or not limit for _ in range(count)), bool, count)
        chosen = first + np.random.default_rng([self.seed, number]).permutation(count)[kept]
        files["exists"][chosen], files["length"][chosen] = 1, files["planned"][chosen]
        for start in range(0, len(chosen), _BLOCK):
            these = chosen[start : start + _BLOCK]
            ids, length = self.first_ids[0] + these, files["planned"][these]
            made = calls(
                3 * len(these), op=np.tile([CREATE, WRITE, CLOSE], len(these)), file=np.repeat(ids, 3), flag=SETUP
            )
            made["parent"][::3] = files["folder"][these]
            made["offset"][1::3], made["length"][1::3] = 0, length
            made["unit"][1::3] = made["stride"][1::3] = _ALLOCATION
            yield made[np.repeat(length > 0, 3) | (made["op"] != WRITE)]

    def _tables(self) -> Tables:
        """Return the state before the first flowop, with no file made yet."""
        sizes = [np.array(tree.sizes, np.int64) for tree in self.trees]
        sets = np.zeros(len(sizes), SET)
        sets["count"] = [len(part) for part in sizes]
        sets["first"] = np.cumsum(sets["count"]) - sets["count"]
        files = np.zeros(sum(map(len, sizes)), FILE)
        files["planned"] = np.concatenate(sizes)
        files["owner"] = np.repeat(np.arange(len(sizes)), sets["count"])
        files["folder"] = [
            root + 1 + folder for root, tree in zip(self.roots, self.trees, strict=True) for folder, _ in tree.files
        ]
        threads, actions, posted, targets = self._programs()
        world = np.zeros(1, WORLD)
        world["left"], world["stops"], world["first_id"] = self.flowops, self.starved == "stop", self.first_ids[0]
        slots = np.full((len(threads), DESCRIPTORS + 1, 3), -1, np.int64)
        rotors = np.zeros((len(sizes), len(threads) + 1), np.int64)
        return Tables(world, sets, files, threads, slots, actions, rotors, posted, targets, np.zeros(0))

    def _programs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return THREADs, their ACTIONs, their semaphores, and the semaphores to which each action posts."""
        kinds = self.workload.threads
        actions = np.concatenate([self._actions(kind) for kind in kinds])
        if self.flowops * int(actions["unit"].max()) >= 1 << 61:
            raise UsageError(
                f"{self.flowops:,} flowops of up to {actions['unit'].max():,} bytes go beyond 2 EiB; give fewer"
            )
        counts = np.array([kind.count for kind in kinds])
        lengths = np.array([len(kind.flowops) for kind in kinds])
        threads = np.zeros(counts.sum(), THREAD)
        threads["memory"] = np.repeat([kind.memsize for kind in kinds], counts)
        threads["count"] = np.repeat(lengths, counts)
        threads["first"] = np.repeat(np.cumsum(lengths) - lengths, counts)
        threads["posts"] = np.cumsum(threads["count"]) - threads["count"]
        threads["rotor"] = DESCRIPTORS
        named: dict[str, list[int]] = {}
        bases = iter(threads["posts"].tolist())
        for kind in kinds:
            for base in (next(bases) for _ in range(kind.count)):
                for at, flowop in enumerate(kind.flowops):
                    named.setdefault(str(flowop.given.get("name", "")), []).append(base + at)
        targets: list[int] = []
        for action, flowop in zip(actions, (flowop for kind in kinds for flowop in kind.flowops), strict=True):
            found = named.get(str(flowop.given.get("target", "")), []) if "target" in flowop.given else []
            action["first_target"], action["targets"] = len(targets), len(found)
            targets += found
        return threads, actions, np.zeros(threads["count"].sum(), np.int64), np.array(targets, np.int64)

    def _actions(self, kind: _wml.Thread) -> np.ndarray:
        """Return the flowops of one kind of thread as numbers."""
        sets = {each.name: number for number, each in enumerate(self.workload.filesets)}
        actions, private = np.zeros(len(kind.flowops), ACTION), 0
        for action, flowop in zip(actions, kind.flowops, strict=True):
            name = flowop.given.get("filesetname", flowop.given.get("filename"))
            if name is not None and name not in sets:
                raise UsageError(f"line {flowop.line}: no fileset named {name!r} is defined; define it first")
            for field, attribute in _ATTRIBUTES.items():
                action[field] = flowop.number(attribute)
            verb = _SAME_AS.get(flowop.kind, flowop.kind)
            action["kind"] = KINDS.index(verb if verb in KINDS else "nothing")
            action["owner"], action["private"] = sets.get(str(name), -1), private
            action["turns"], action["value"] = max(1, flowop.number("iters", 1)), flowop.number("value", 1)
            action["flag"] = SYNCHRONOUS if flowop.number("dsync") else 0
            private += -(-int(action["unit"]) // _PAGE) * _PAGE
            _check(flowop, action, kind.memsize)
        return actions


def _check(flowop: _wml.Flowop, action: np.void, memory: int) -> None:
    """Raise UsageError for a flowop at which Filebench would stop."""
    if flowop.kind in _NEED_UNIT and not action["unit"]:
        raise UsageError(f"line {flowop.line}: {flowop.kind} needs an iosize, such as iosize=4k")
    if memory and action["unit"] > memory:
        raise UsageError(f"line {flowop.line}: iosize {action['unit']} is larger than the thread's memsize {memory}")
    if max(action["fd"], action["source"]) > DESCRIPTORS:
        raise UsageError(f"line {flowop.line}: descriptors go from 0 to {DESCRIPTORS}")
