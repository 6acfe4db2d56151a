"""Filebench 1.5-alpha3: reads a .f file (or one of six personalities) and runs its threads.

Exact to the byte: file sets (tree, sizes), how many files are made beforehand, which file comes next (rotors), sizes of the
calls.  Drawn from `seed` where Filebench draws from the system: which files are made beforehand, random offsets, sizes of
random appends and places in a thread's memory.  Threads take turns, one flowop each.  Not modelled: time (run, delay, rates,
hog), composite flowops.
Source: Filebench (see _fileset, _wml, kernels/filebench_run); checked with strace.
"""

import itertools
import pathlib
from collections.abc import Iterator, Sequence

import numpy as np

from scmsim.core import records
from scmsim.core.errors import UsageError
from scmsim.core.records import CLOSE, CREATE, DIRECTORY, MKDIR, SETUP, SYNCHRONOUS, WRITE
from scmsim.workload import _stream, _wml
from scmsim.workload._fileset import Drand48, RandVar, Tree, rand
from scmsim.workload._steps import FIELDS, STEP, Stream, calls, check_times
from scmsim.workload.kernels.filebench_run import play
from scmsim.workload.kernels.filebench_tables import (
    ACTION,
    DESCRIPTORS,
    DRAWS,
    FILE,
    KINDS,
    MARGIN,
    SET,
    THREAD,
    WORLD,
    Tables,
)

SUMMARY = (
    "Filebench: reads a .f file or runs the personality fileserver, webserver, varmail, webproxy, oltp, videoserver"
)
PARAMS = {
    "file": ("", "file", "workload file (.f); without it, the personality runs"),
    "personality": (
        "varmail",
        "fileserver|webserver|varmail|webproxy|oltp|videoserver",
        "a shipped workload (varmail is the thesis' mailserver)",
    ),
    "set": ("", "text", "values for the file's variables, such as 'nfiles=100 nthreads=1'"),
    "flowops": ("100000", "flowops", "total number of steps of all threads; the run ends after them"),
    "starved": (
        "wait",
        "wait|stop",
        "if no file is available for a step: let the thread wait, or end the run as Filebench does",
    ),
    "seed": ("1", "seed", "seed of the random numbers that Filebench takes from the system"),
    "interval": ("1us", "time", "trace time between two calls"),
}

_FOLDER = pathlib.Path(__file__).parent / "personalities"
_ALLOCATION = 1 << 20  # bytes of a write when files are made beforehand (fileset.h, FILE_ALLOC_BLOCK)
_RAND_MAX = (1 << 31) - 1
_BLOCK = 1 << 13  # STEPs in one array
_DRAWS = 1 << 14  # random numbers drawn at a time
_PAGE = 4096
_VALUES = 1 << 12  # values of a random variable drawn at a time
_MOST_DRAWN = 1 << 40  # bytes; a larger value of a random variable is cut to this limit
_DRAWN = ("iosize", "indexed")  # attributes whose value may be a random variable
_OF_DIRECTORIES = ("makedir", "removedir", "listdir")
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
    """Stream of Filebench's operations (a records.Source); for the parameters see PARAMS. The interval is in nanoseconds.

    Raises UsageError for a file that cannot be read or contains something that is not modelled (named, with its line).
    """

    @_stream.declared(PARAMS)
    def __init__(self, p: _stream.Params) -> None:
        p.at_least(1, "flowops")
        p.at_least(0, "seed")
        if p.file and p.personality != PARAMS["personality"][0]:
            raise UsageError(f"give a workload file or the personality {p.personality!r}, not both")
        changed = dict(word.partition("=")[::2] for word in p.set.split())
        self.workload = _wml.read(p.file or _FOLDER / f"{p.personality}.f", changed)
        self.flowops, self.starved, self.seed = p.flowops, p.starved, p.seed
        self.variables = _variables(self.workload)
        self._populate()
        self._tables()  # called here to report mistakes in the flowops early
        check_times(p.flowops, p.interval)
        self.header["filesets"] = [
            {"name": each.name, "files": len(tree.sizes), "bytes": sum(tree.sizes)}
            for each, tree in zip(self.workload.filesets, self.trees, strict=True)
        ]
        paced = ", ".join(self.workload.pacing)
        self.header["notes"] = [f"a trace has no clock; without effect: {paced}"] if paced else []

    def _populate(self) -> None:
        """Draw all file sets, the last defined first, as Filebench does; then number folders and files."""
        uniform = Drand48()
        self.streams = {id(variable): variable.stream(self.seed) for variable in self.variables}
        drawn, self.taken = {}, dict.fromkeys(self.streams, 0)
        for number in reversed(range(len(self.workload.filesets))):
            each = self.workload.filesets[number]
            width, shape = (each.dirwidth, each.dirgamma) if not each.single else (2, 0)
            size = each.size
            if isinstance(size, RandVar):
                self.taken[id(size)] += each.entries
                drawn[number] = Tree(each.entries, width, shape, self.streams[id(size)], uniform, each.leafdirs)
            else:
                drawn[number] = Tree(each.entries, width, shape, size, uniform, each.leafdirs)
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
        for root, tree in zip(self.roots, self.trees, strict=True):
            self.first_ids.append(len(names))
            names += [f"{names[root + 1 + folder]}/{name}" for folder, name in tree.leaves]
        leaves = self.first_ids[len(self.trees)]
        self.tops = {path: number for number, path in enumerate(top)}
        numbers = np.arange(len(names))
        is_dir = (numbers < folders) | (numbers >= leaves)
        self.files = records.Files(names, np.where(numbers < len(top), 0, -1), is_dir)

    def steps(self) -> Iterator[np.ndarray]:
        """Yield the operations as STEPs: the file sets are made (SETUP), then the threads take turns."""
        tables = self._tables()
        yield from self._made_files_of_all(tables)
        out = np.zeros((_BLOCK, len(FIELDS)), np.int64)
        random = np.random.default_rng(self.seed)
        tables = tables._replace(draws=random.random(_DRAWS))
        streams = [
            itertools.islice(variable.stream(self.seed), self.taken[id(variable)], None) for variable in self.variables
        ]
        _refill(tables, streams)
        while tables.world["left"][0] > 0:
            count = play(tables, out)
            yield out[:count].copy().view(STEP).reshape(-1)
            if tables.world["drawn"][0] + DRAWS > _DRAWS:
                rest = tables.draws[tables.world["drawn"][0] :]
                tables = tables._replace(draws=np.concatenate((rest, random.random(_DRAWS - len(rest)))))
                tables.world["drawn"] = 0
            _refill(tables, streams)

    def _made_files_of_all(self, tables: Tables) -> Iterator[np.ndarray]:
        """Yield the STEPs that make the file sets, the last defined set first."""
        chance = rand()
        for number in reversed(range(len(self.trees))):
            yield from self._made_folders(number)
            yield from self._made_files(number, tables, chance)
            yield from self._made_leaves(number, tables, chance)

    def _made_folders(self, number: int) -> Iterator[np.ndarray]:
        tree, root = self.trees[number], self.roots[number]
        yield calls(
            1, op=MKDIR, file=root, parent=self.tops[self.workload.filesets[number].path], flag=SETUP | DIRECTORY
        )
        ids = root + 1 + np.arange(len(tree.folders))
        parents = root + 1 + np.array([parent for parent, _ in tree.folders], np.int64)
        yield calls(len(ids), op=MKDIR, file=ids, parent=parents, flag=SETUP | DIRECTORY)

    def _made_leaves(self, number: int, tables: Tables, chance: Iterator[int]) -> Iterator[np.ndarray]:
        """Yield the mkdir calls of the leaf directories made beforehand, each with the probability `prealloc`."""
        limit = _RAND_MAX * (100 - self.workload.filesets[number].prealloc) // 100
        first, leaves = tables.sets["first"][len(self.trees) + number], self.trees[number].leaves
        kept = np.fromiter((next(chance) >= limit for _ in leaves), bool, len(leaves))
        chosen = first + np.flatnonzero(kept)
        tables.files["exists"][chosen] = 1
        np.add.at(tables.entries, tables.files["folder"][chosen], 1)
        made = calls(len(chosen), op=MKDIR, file=self.first_ids[0] + chosen, flag=SETUP | DIRECTORY)
        made["parent"] = tables.files["folder"][chosen]
        yield made

    def _made_files(self, number: int, tables: Tables, chance: Iterator[int]) -> Iterator[np.ndarray]:
        """Yield the files made beforehand, in random order, each with the probability that `prealloc` states."""
        limit = _RAND_MAX * (100 - self.workload.filesets[number].prealloc) // 100
        count, first = len(self.trees[number].sizes), self.first_ids[number] - self.first_ids[0]
        kept = np.fromiter((next(chance) > limit or not limit for _ in range(count)), bool, count)
        chosen = first + np.random.default_rng([self.seed, number]).permutation(count)[kept]
        files = tables.files
        np.add.at(tables.entries, files["folder"][chosen], 1)
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
        sizes += [np.zeros(len(tree.leaves), np.int64) for tree in self.trees]
        sets = np.zeros(len(sizes), SET)
        sets["count"] = [len(part) for part in sizes]
        sets["first"] = np.cumsum(sets["count"]) - sets["count"]
        sets["first_dir"], sets["dirs"] = 2 * self.roots, 2 * [1 + len(tree.folders) for tree in self.trees]
        files = np.zeros(sum(map(len, sizes)), FILE)
        files["planned"] = np.concatenate(sizes)
        files["owner"] = np.repeat(np.arange(len(sizes)), sets["count"])
        placed = [(root, tree.files) for root, tree in zip(self.roots, self.trees, strict=True)]
        placed += [(root, tree.leaves) for root, tree in zip(self.roots, self.trees, strict=True)]
        files["folder"] = [root + 1 + folder for root, entries in placed for folder, _ in entries]
        entries = np.zeros(self.first_ids[0], np.int64)
        for root, tree in zip(self.roots, self.trees, strict=True):
            np.add.at(entries, [root + 1 + parent for parent, _ in tree.folders], 1)
        threads, actions, posted, targets = self._programs()
        world = np.zeros(1, WORLD)
        world["one_ends_all"], world["running"] = self.workload.one_ends_all, len(threads)
        world["left"], world["stops"], world["first_id"] = self.flowops, self.starved == "stop", self.first_ids[0]
        slots = np.full((len(threads), DESCRIPTORS + 1, 3), -1, np.int64)
        rotors = np.zeros((len(sizes), len(threads) + 1), np.int64)
        counts, totals = (
            np.zeros((len(posted), 2), np.int64),
            np.zeros((int(threads["process"].max()) + 1, 2), np.int64),
        )
        values, used = np.zeros((len(self.variables), _VALUES)), np.full(len(self.variables), _VALUES)
        state = (values, used, totals, counts, entries)
        return Tables(world, sets, files, threads, slots, actions, rotors, posted, targets, np.zeros(0), *state)

    def _programs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return THREADs, their ACTIONs, their semaphores, and the semaphores to which each action posts."""
        kinds = self.workload.threads
        actions = np.concatenate([self._actions(kind) for kind in kinds])
        if self.flowops * max(int(actions["unit"].max()), _MOST_DRAWN * bool(self.variables)) >= 1 << 61:
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
        first, processes = 0, []
        for kind in kinds:  # each process runs the same number of threads of a kind
            each = max(kind.count // max(kind.processes, 1), 1)
            processes += [first + i // each for i in range(kind.count)]
            first += kind.processes
        threads["process"] = processes
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

    def _watch(self, flowop: _wml.Flowop, action: np.void, kind: _wml.Thread) -> None:
        """Set which flowop of its thread a finishoncount or finishonbytes watches (default: all of its process)."""
        if not flowop.kind.startswith("finishon"):
            return
        if "target" in flowop.given:
            names = [str(each.given.get("name", "")) for each in kind.flowops]
            if str(flowop.given["target"]) not in names:
                raise UsageError(f"line {flowop.line}: the thread has no flowop named {flowop.given['target']!r}")
            action["watched"] = names.index(str(flowop.given["target"]))
        if flowop.kind == "finishonbytes" and any(each.kind == "listdir" for each in kind.flowops):
            raise UsageError(f"line {flowop.line}: finishonbytes beside listdir is not modelled; use finishoncount")

    def _actions(self, kind: _wml.Thread) -> np.ndarray:
        """Return the flowops of one kind of thread as numbers."""
        sets = {each.name: number for number, each in enumerate(self.workload.filesets)}
        actions, private = np.zeros(len(kind.flowops), ACTION), 0
        for action, flowop in zip(actions, kind.flowops, strict=True):
            name = flowop.given.get("filesetname", flowop.given.get("filename"))
            if name is not None and name not in sets:
                raise UsageError(f"line {flowop.line}: no fileset named {name!r} is defined; define it first")
            action["unit_of"] = action["index_of"] = action["watched"] = action["index"] = -1
            for field, attribute in _ATTRIBUTES.items():
                variable = flowop.variable(attribute)
                if variable is not None and attribute == "iosize":
                    action["unit_of"] = self.variables.index(variable)
                else:
                    action[field] = flowop.number(attribute)
            if (variable := flowop.variable("indexed")) is not None:
                action["index_of"] = self.variables.index(variable)
            elif "indexed" in flowop.given:
                action["index"] = flowop.number("indexed")
            verb = _SAME_AS.get(flowop.kind, flowop.kind)
            action["kind"] = KINDS.index(verb if verb in KINDS else "nothing")
            action["owner"], action["private"] = sets.get(str(name), -1), private
            if flowop.kind in ("makedir", "removedir") and name is not None:
                action["owner"] += len(self.trees)
            action["turns"], action["value"] = max(1, flowop.number("iters", 1)), flowop.number("value", 1)
            action["flag"] = SYNCHRONOUS if flowop.number("dsync") else 0
            private += -(-int(action["unit"]) // _PAGE) * _PAGE
            self._watch(flowop, action, kind)
            _check(flowop, action, kind.memsize)
        return actions


def _variables(workload: _wml.Workload) -> list[RandVar]:
    """Return the random variables that sizes, calls and indices use, each once."""
    values: list[_wml.Value] = [each.size for each in workload.filesets]
    values += [flowop.given.get(name, 0) for kind in workload.threads for flowop in kind.flowops for name in _DRAWN]
    return list({id(value): value for value in values if isinstance(value, RandVar)}.values())


def _refill(tables: Tables, streams: Sequence[Iterator[float]]) -> None:
    """Refill the values of each random variable that the next flowop could exhaust."""
    for number, stream in enumerate(streams):
        if tables.used[number] + MARGIN > _VALUES:
            rest = tables.values[number, tables.used[number] :].tolist()
            more = itertools.islice(stream, _VALUES - len(rest))
            tables.values[number] = np.clip([*rest, *more], 0, _MOST_DRAWN)
            tables.used[number] = 0


def _check(flowop: _wml.Flowop, action: np.void, memory: int) -> None:
    """Raise UsageError for a flowop at which Filebench would stop."""
    if flowop.kind in _OF_DIRECTORIES and (action["owner"] < 0 or "indexed" in flowop.given):
        raise UsageError(f"line {flowop.line}: {flowop.kind} needs a filesetname and does not accept indexed")
    if flowop.kind in _NEED_UNIT and not action["unit"] and action["unit_of"] < 0:
        raise UsageError(f"line {flowop.line}: {flowop.kind} needs an iosize, such as iosize=4k")
    if flowop.kind == "fsyncset" and action["rotates"]:
        raise UsageError(f"line {flowop.line}: fsyncset with opennext is not modelled; take opennext out")
    if flowop.kind == "aiowrite" and not action["random"]:
        raise UsageError(f"line {flowop.line}: aiowrite fails without random, in Filebench too; add random")
    if memory and action["unit"] > memory:
        raise UsageError(f"line {flowop.line}: iosize {action['unit']} is larger than the thread's memsize {memory}")
    if max(action["fd"], action["source"]) > DESCRIPTORS:
        raise UsageError(f"line {flowop.line}: a descriptor must be from 0 to {DESCRIPTORS}")
