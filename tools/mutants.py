"""Tests of the tests: change one operator or constant of a kernel or importer at a time; a test of its room must fail.

    python tools/mutants.py [--count 40] [--seed 1] [--only trace/formats] [-o mutants.csv]

All runs as plain Python (NUMBA_DISABLE_JIT=1), in one process that has the tests of the sample's rooms loaded.  They run once
without a change, which tells which test calls which function, and how long each takes.  A mutant is a fork of that process in
which the changed function has its new code; it runs the tests that call the function, the fastest first, until one fails or
`--seconds` are over.
The sample is drawn evenly from all places; the same seed draws the same mutants of the same sources.
"""

import argparse
import ast
import copy
import csv
import functools
import gc
import itertools
import os
import pathlib
import random
import resource
import signal
import sys
import threading
import time
import types
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

ROOT = pathlib.Path(__file__).parents[1]
# Sources and the tests of their room, the first that fits; tests are patterns under tests/.
ROOMS = {
    **dict.fromkeys(
        ("trace/formats", "trace/kernels", "trace/reading", "trace/syscalls"),
        ("trace/formats", "trace/reading", "trace/syscalls", "trace/capture/test_merge.py"),
    ),
    "workload/kernels": ("workload",),
    "fs/linux": ("fs/ext4", "fs/ext2", "fs/tmpfs"),
    "fs/contiguous": ("fs/contiguous",),
    "fs/scmfs": ("fs/contiguous", "fs/scmfs"),
    "fs/simfs": ("fs/contiguous",),
    "fs/ctfs": ("fs/contiguous",),
    **{f"fs/{family}": (f"fs/{family}",) for family in (
        "engine", "ext2", "ext4", "mapping", "nova", "pmfs", "scm_manager", "splitfs", "tmpfs", "vsm", "winefs", "xfs",
    )},
    "alloc/aligned_holes": ("fs/winefs",),
    "alloc": ("alloc",),
    "mmu/cpuid": ("mmu/test_host.py", "mmu/test_machines.py"),
    "mmu/host": ("mmu/test_host.py",),
    "mmu": ("mmu/test_properties.py", "mmu/test_mmu.py", "mmu/test_batch_properties.py", "mmu/test_presets.py"),
    "medium": ("medium",),
    "paging": ("paging",),
}  # fmt: skip
# tables, and what other rooms test
LEFT_OUT = (
    "crash.py",
    "crash_dax.py",
    "block_recovery.py",
    "crash_ext2.py",
    "crash_fat.py",
    "recipes.py",
    "name_recipes.py",
    "plot.py",
)
OTHER = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
DIED, BROKEN = 1, 3  # exit status of a fork
ENDLESS = 4  # s of CPU, beside three times what it takes as it is, after which a test is taken not to end


class Mutant(NamedTuple):
    """One change: the text between two positions of a file is replaced."""

    path: str  # in the package
    line: int
    start: int
    stop: int
    old: str
    new: str
    name: str  # of the function, or of the constant

    @property
    def file(self) -> str:
        """Name of the file in code objects."""
        return str(ROOT / "scmsim" / self.path)


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """The node with one thing in it changed."""
    changed = copy.copy(node)
    match node:
        case ast.Compare(ops=[op, *rest]) if type(op) in OTHER:
            changed.ops = [OTHER[type(op)](), *rest]
        case ast.BinOp(op=op) | ast.AugAssign(op=op) | ast.BoolOp(op=op) if type(op) in OTHER:
            changed.op = OTHER[type(op)]()
        case ast.UnaryOp(op=ast.Not()):
            changed = node.operand
        case ast.Constant(value=bool(value)):
            changed = ast.Constant(not value)
        case ast.Constant(value=int(value)):
            changed = ast.Constant(value + 1)
        case _:
            return
    yield changed


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes that run when a function is called: no annotations, decorators, defaults or texts."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "args") and not isinstance(node, ast.Call):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr | ast.Raise | ast.Assert):
                yield child
                yield from inside(child)


def parts_of(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """(Name, node) of the numbers that have a name, of the functions, and of the methods."""
    for part in tree.body:
        if (
            isinstance(part, ast.Assign)
            and isinstance(part.value, ast.Constant)
            and isinstance(part.targets[0], ast.Name)
        ):
            yield part.targets[0].id, part
        elif isinstance(part, ast.FunctionDef):
            yield part.name, part
        elif isinstance(part, ast.ClassDef):
            yield from ((f"{part.name}.{each.name}", each) for each in part.body if isinstance(each, ast.FunctionDef))


def mutants_of(path: pathlib.Path) -> Iterator[Mutant]:
    """All changes of functions in a file, and of numbers that have a name."""
    text = path.read_bytes()
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    for name, part in parts_of(ast.parse(text)):
        for node in inside(part):
            for changed in changes(node):
                start = lines[node.lineno - 1] + node.col_offset
                stop = lines[node.end_lineno - 1] + node.end_col_offset
                new = ast.unparse(changed)
                new = new if isinstance(node, ast.AugAssign) else f"({new})"
                yield Mutant(
                    str(path.relative_to(ROOT / "scmsim")),
                    node.lineno,
                    start,
                    stop,
                    text[start:stop].decode(),
                    new,
                    name,
                )


def room_of(path: str) -> tuple[str, ...] | None:
    """The tests of a source, as patterns under tests/."""
    if pathlib.Path(path).name in LEFT_OUT:
        return None
    return next((tests for prefix, tests in ROOMS.items() if path.startswith(prefix)), None)


def drawn(count: int, seed: int, only: str) -> list[Mutant]:
    """A sample of all mutants."""
    places = [
        mutant
        for path in sorted((ROOT / "scmsim").rglob("*.py"))
        if (name := str(path.relative_to(ROOT / "scmsim"))).startswith(tuple(only.split(","))) and room_of(name)
        for mutant in mutants_of(path)
    ]
    print(f"{len(places)} places in {len({place.path for place in places})} files", file=sys.stderr)
    return random.Random(seed).sample(places, min(count, len(places)))


def code_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """All code that stands in other code."""
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield const
            yield from code_in(const)


def apply(mutant: Mutant | None) -> None:
    """Give the functions of this process, or its modules, what the mutant changes, and forget what functions remember."""
    for each in gc.get_objects():
        if isinstance(each, functools._lru_cache_wrapper):
            each.cache_clear()
    if mutant is None:
        return
    text = pathlib.Path(mutant.file).read_bytes()
    whole = compile(text[: mutant.start] + mutant.new.encode() + text[mutant.stop :], mutant.file, "exec")
    code = {(each.co_qualname, each.co_firstlineno): each for each in code_in(whole)}
    functions = [each for each in gc.get_objects() if isinstance(each, types.FunctionType)]
    for each in functions:
        old = each.__code__
        if old.co_filename == mutant.file and (old.co_qualname, old.co_firstlineno) in code:
            each.__code__ = code[old.co_qualname, old.co_firstlineno]
    for space in {id(each.__globals__): each.__globals__ for each in functions}.values():
        known = space.get(mutant.name)
        if type(known) in (int, bool, float) and known == ast.literal_eval(mutant.old):
            space[mutant.name] = ast.literal_eval(mutant.new)


def _too_long(number: int, frame: types.FrameType | None) -> None:
    raise TimeoutError("a test takes longer than all tests of a mutant may")


class Trials:
    """A plug-in of pytest that runs the tests once as they are, and then those of every mutant in a fork."""

    def __init__(self, sample: list[Mutant], longest: float) -> None:
        self.sample, self.longest = sample, longest
        self.failed = False
        self.called: dict[str, dict[int, types.CodeType]] = {}
        self.seconds: dict[str, float] = {}
        self.rows: list[tuple[str, Mutant]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that fails."""
        self.failed |= report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In the place of pytest's own loop."""
        if session.testsfailed:
            sys.exit("the tests cannot be loaded")
        items = session.items
        signal.signal(signal.SIGVTALRM, _too_long)
        items = [item for item in items if self._watch(item)]
        items.sort(key=lambda item: self.seconds[item.nodeid])
        if self._verdict(None, items) != "lived":
            sys.exit("a test that passes at first fails when it is run again, so it can tell nothing of a mutant")
        print(f"{len(items)} tests, {sum(self.seconds.values()):.0f} s", file=sys.stderr, flush=True)
        for mutant in self.sample:
            verdict = self._verdict(mutant, self._chosen(items, mutant))
            self.rows.append((verdict, mutant))
            print(
                f"{verdict:5} {mutant.path}:{mutant.line}  {mutant.old}  ->  {mutant.new}", file=sys.stderr, flush=True
            )
        return True

    def _watch(self, item: pytest.Item) -> bool:
        """Run a test as it is, and note what it calls and how long it takes; False: it takes too long."""
        called = self.called[item.nodeid] = {}

        def noted(frame: types.FrameType, event: str, arg: Any) -> None:
            called[id(frame.f_code)] = frame.f_code

        began = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, self.longest, 0.1)
        threading.settrace(noted)
        sys.settrace(noted)
        item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
        sys.settrace(None)
        threading.settrace(None)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        self.seconds[item.nodeid] = time.process_time() - began
        if self.seconds[item.nodeid] >= self.longest:
            self.failed = False
            return False
        if self.failed:
            sys.exit(f"{item.nodeid} fails without a change, so it can tell nothing of a mutant")
        return True

    def _chosen(self, items: list[pytest.Item], mutant: Mutant) -> list[pytest.Item]:
        """The tests for a mutant, the fastest first."""
        calling = [item for item in items if self._calls(item, mutant)]
        ends = itertools.accumulate(self.seconds[item.nodeid] for item in calling)
        return [item for item, end in zip(calling, ends, strict=True) if end <= self.longest]

    def _calls(self, item: pytest.Item, mutant: Mutant) -> bool:
        """Whether a test calls the function that is changed, or one that uses the constant."""
        return any(
            code.co_filename == mutant.file and f"{code.co_qualname}.".startswith(f"{mutant.name}.")
            or mutant.name in code.co_names and mutant.name.isupper()
            for code in self.called[item.nodeid].values()
        )  # fmt: skip

    def _verdict(self, mutant: Mutant | None, items: list[pytest.Item]) -> str:
        """Run tests in a fork until one fails; one that needs too much CPU time fails, too."""
        child = os.fork()
        if child == 0:
            try:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                os.dup2(1, 2)
                apply(mutant)
                for item in items:
                    enough = int(time.process_time() + ENDLESS + 3 * self.seconds[item.nodeid])
                    resource.setrlimit(resource.RLIMIT_CPU, (enough, resource.RLIM_INFINITY))
                    signal.alarm(100 * ENDLESS)
                    item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
                    if self.failed:
                        break
                os._exit(DIED if self.failed else 0)
            finally:
                os._exit(BROKEN)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return {0: "lived", DIED: "died", -signal.SIGXCPU: "died", -signal.SIGKILL: "died"}.get(
            status, f"ended with {status}"
        )


def main() -> None:
    """Try a sample and print who lived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", metavar="PREFIXES", help="of paths in the package, separated by commas")
    parser.add_argument("--examples", type=int, default=5, help="of a property, where a test does not say (default 5)")
    parser.add_argument(
        "--seconds", type=float, default=60, help="of CPU that the tests of a mutant take as they are (default 60)"
    )
    parser.add_argument("-o", metavar="FILE", help="every mutant and what became of it, as CSV")
    given = parser.parse_args()
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    sample = drawn(given.count, given.seed, given.only)
    tests = {str(path) for each in sample for pattern in room_of(each.path) for path in (ROOT / "tests").glob(pattern)}
    from hypothesis import Phase, settings

    settings.register_profile(
        "mutants", deadline=None, derandomize=True, max_examples=given.examples, phases=(Phase.explicit, Phase.generate)
    )
    trials = Trials(sample, given.seconds)
    options = [
        "-q",
        "-s",
        "-m",
        "not slow",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:faulthandler",
        "--hypothesis-profile=mutants",
    ]
    pytest.main([*options, "--rootdir", str(ROOT), "-o", "tmp_path_retention_policy=none", *sorted(tests)], [trials])
    if given.o:
        with open(given.o, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(
                [("verdict", *Mutant._fields), *((verdict, *each) for verdict, each in trials.rows)]
            )
    count = Counter(verdict for verdict, _ in trials.rows)
    print(", ".join(f"{number} {verdict}" for verdict, number in count.items()), file=sys.stderr)


if __name__ == "__main__":
    main()
