"""Tests of the tests: change one operator or constant of a kernel or importer at a time; a test of its room must fail.

    python tools/mutants.py [--count 40] [--seed 1] [--only trace/formats] [--jobs 2] [-o mutants.csv]

Each mutant is tried in a copy of the working tree with the tests of its room.  One of a kernel is first tried in plain Python
(NUMBA_DISABLE_JIT=1: nothing is compiled, few examples); if it survives, with compiled kernels, unless --plain is given.
The sample is drawn evenly from all places; the same seed draws the same mutants of the same sources.
"""

import argparse
import ast
import copy
import csv
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[1]
# Sources and the tests of their room, the first that fits; tests are patterns under tests/.
ROOMS = {
    **dict.fromkeys(
        ("trace/syscalls/as_strace", "trace/syscalls/from_numbers", "trace/syscalls/numbers"),
        ("trace/formats/tracers", "trace/capture/test_merge.py"),
    ),
    **dict.fromkeys(
        ("trace/syscalls", "trace/formats/tracers/strace", "trace/kernels/strace", "trace/kernels/file"),
        ("trace/syscalls/test_rules.py", "trace/syscalls"),
    ),
    **{f"trace/formats/{subject}": (f"trace/formats/{subject}", "trace/formats/test_samples.py", "trace/formats/test_properties.py")
       for subject in ("addresses", "benchmarks", "own", "tracers")},
    **dict.fromkeys(
        ("trace/formats", "trace/reading", "trace/kernels"),
        ("trace/formats/test_samples.py", "trace/formats/test_properties.py", "trace/formats/tracers"),
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
TESTS_FAIL = 1  # exit status of pytest


class Mutant(NamedTuple):
    """One change: the text between two positions of a file is replaced."""

    path: str  # in the package
    line: int
    start: int
    stop: int
    old: str
    new: str


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
    """All nodes that run: no annotations, no decorators, no texts."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr | ast.Raise | ast.Assert):
                yield child
                yield from inside(child)


def mutants_of(path: pathlib.Path) -> Iterator[Mutant]:
    """All changes of functions in a file, and of numbers that have a name."""
    text = path.read_text(encoding="utf-8")
    lines = [0]
    for line in text.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    tree = ast.parse(text)
    named = [part for part in tree.body if isinstance(part, ast.Assign) and isinstance(part.value, ast.Constant)]
    functions = [part for part in tree.body if isinstance(part, ast.FunctionDef | ast.ClassDef)]
    for part in (*named, *functions):
        for node in inside(part):
            for changed in changes(node):
                start, stop = (
                    lines[node.lineno - 1] + node.col_offset,
                    lines[node.end_lineno - 1] + node.end_col_offset,
                )
                new = ast.unparse(changed)
                new = new if isinstance(node, ast.AugAssign) else f"({new})"
                old = text.encode()[start:stop].decode()
                yield Mutant(str(path.relative_to(ROOT / "scmsim")), node.lineno, start, stop, old, new)


def room_of(path: str) -> tuple[str, ...] | None:
    """The tests of a source, as patterns under tests/."""
    if pathlib.Path(path).name in LEFT_OUT:
        return None
    return next((tests for prefix, tests in ROOMS.items() if path.startswith(prefix)), None)


def first_in_python(path: str) -> bool:
    """Whether a change of this file would compile kernels anew, which takes longer than to run them as plain Python."""
    return not path.startswith(("trace/formats/", "trace/reading/", "trace/syscalls/"))


def drawn(count: int, seed: int, only: str) -> list[Mutant]:
    """A sample of all mutants."""
    sources = sorted((ROOT / "scmsim").rglob("*.py"))
    names = {path: str(path.relative_to(ROOT / "scmsim")) for path in sources}
    places = [
        mutant
        for path, name in names.items()
        if name.startswith(tuple(only.split(","))) and room_of(name)
        for mutant in mutants_of(path)
    ]
    print(f"{len(places)} places in {len({place.path for place in places})} files", file=sys.stderr)
    return random.Random(seed).sample(places, min(count, len(places)))


class Workshop:
    """A copy of the working tree in which one mutant at a time is tried."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        for name in ("scmsim", "tests", "tools", "configs", "traces"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)

    def passes(self, tests: tuple[str, ...], plain: bool, timeout: int) -> bool:
        """Whether the tests pass in `timeout` seconds of CPU time; a mutant that does not end fails them."""
        paths = dict.fromkeys(str(path) for pattern in tests for path in sorted((self.folder / "tests").glob(pattern)))
        environment = os.environ | {"PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        environment["XDG_CACHE_HOME"] = str(self.folder / "cache")
        if plain:
            environment["NUMBA_DISABLE_JIT"] = "1"
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *paths]
        command += ["-m", "not slow"] if plain else []
        with subprocess.Popen(
            command, cwd=self.folder, env=environment, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (timeout, timeout)),
        ) as program:  # fmt: skip
            try:
                output, _ = program.communicate(timeout=20 * timeout)
            except subprocess.TimeoutExpired:
                os.killpg(program.pid, signal.SIGKILL)
                return False
        if program.returncode not in (0, TESTS_FAIL, 2, 4, -signal.SIGKILL):  # 2 and 4: a file does not import
            raise RuntimeError(f"pytest ended with {program.returncode}: {output[-2000:]}")
        return program.returncode == 0

    def check(self, sample: list[Mutant], timeout: int) -> None:
        """The tests of every room must pass without a change: a mutant that they fail would else say nothing."""
        for tests, plain in dict.fromkeys((room_of(each.path), first_in_python(each.path)) for each in sample):
            if not self.passes(tests, plain, timeout):
                sys.exit(f"the tests of {', '.join(tests)} fail without a change, so they can tell nothing of a mutant")

    def survives(self, mutant: Mutant, plain: bool, timeout: int) -> bool:
        """Whether no test fails with a mutant in place."""
        path = self.folder / "scmsim" / mutant.path
        whole, times = path.read_bytes(), path.stat()
        path.write_bytes(whole[: mutant.start] + mutant.new.encode() + whole[mutant.stop :])
        try:
            tests = room_of(mutant.path)
            kernel = first_in_python(mutant.path)
            stages = [True] * kernel + [False] * (not (kernel and plain))
            return all(self.passes(tests, stage, timeout if stage else 4 * timeout) for stage in stages)
        finally:
            path.write_bytes(whole)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # compiled kernels are kept by these times


def main() -> None:
    """Try a sample and print who lived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", metavar="PREFIXES", help="of paths in the package, separated by commas")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--plain", action="store_true", help="kernels in plain Python alone")
    parser.add_argument(
        "--timeout", type=int, default=150, metavar="SECONDS", help="of CPU, for the tests of a room in plain Python"
    )
    parser.add_argument("-o", metavar="FILE", help="every mutant and what became of it, as CSV")
    given = parser.parse_args()
    sample = drawn(given.count, given.seed, given.only)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:
        free: SimpleQueue[Workshop] = SimpleQueue()
        for k in range(given.jobs):
            free.put(Workshop(pathlib.Path(folder) / str(k)))
        first = free.get()
        first.check(sample, 4 * given.timeout)
        free.put(first)

        def tried(mutant: Mutant) -> bool:
            workshop = free.get()
            try:
                return workshop.survives(mutant, given.plain, given.timeout)
            finally:
                free.put(workshop)

        rows, count = [], Counter()
        for mutant, lived in zip(sample, pool.map(tried, sample), strict=True):
            verdict = "lived" if lived else "died"
            count[verdict] += 1
            rows.append((verdict, mutant.path, mutant.line, mutant.old, mutant.new))
            print(f"{verdict:5} {mutant.path}:{mutant.line}  {mutant.old}  ->  {mutant.new}", flush=True)
    if given.o:
        with open(given.o, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("verdict", "path", "line", "old", "new"), *rows])
    print(f"{count['died']} of {len(sample)} died", file=sys.stderr)


if __name__ == "__main__":
    main()
