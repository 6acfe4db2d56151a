"""Test the tests: change one operator or constant of a kernel or importer at a time; a test of its room must fail.

A room is a folder of sources together with its tests.

    python tools/mutants.py [--count 40] [--seed 1] [--only trace/formats] [-o mutants.csv]

Everything runs as plain Python (NUMBA_DISABLE_JIT=1), in one process that loads the tests of the sample's rooms.  The tests run
once without a change, to find which functions each test calls, and its time.  A mutant is a fork of the process in which the
changed function has its new code; the fork runs the tests that call the function until one fails or `--seconds` are over: the
fastest first, then the stored events, which fail at the first call that differs, then the others.
The sample is drawn evenly from all places; the same seed draws the same mutants of the same sources.
"""

import argparse
import ast
import csv
import functools
import gc
import importlib
import itertools
import os
import pathlib
import pickle
import random
import resource
import signal
import sys
import threading
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, settings
from mutant_places import PACKAGE, Mutant, mutants_of

ROOT = PACKAGE.parent
# Tests of all models that are quick without a compiler; a mutant runs them for the models of its room.
STORED = "test_events.py"
OF_ALL = tuple(f"conformance/{name}" for name in ("test_contents.py", "test_arena.py", "test_limits.py", STORED))
# Models of a room besides those of the families whose tests it has.
MODELS = {
    "fs/mapping": ("ext4", "ext4-dax", "nova-inplace", "pmfs-2m", "tmpfs", "xfs-dax"),
    "fs/engine": ("ext4", "nova-cow", "scmfs"),
    "fs/linux": ("xfs-dax", "splitfs"),
}
# Prefix of sources -> tests of their room, as patterns under tests/; the first match counts.
ROOMS = {
    **dict.fromkeys(
        ("trace/formats", "trace/kernels", "trace/reading", "trace/syscalls"),
        ("trace/formats", "trace/reading", "trace/syscalls", "trace/capture/test_merge.py"),
    ),
    "workload/kernels": ("workload",),
    **{f"fs/{family}/mapping": (f"fs/{family}", "fs/mapping", *OF_ALL) for family in (
        "ext2", "ext4", "linux", "nova", "pmfs", "tmpfs", "winefs", "xfs",
    )},
    "fs/linux": ("fs/ext4", "fs/ext2", "fs/tmpfs", "fs/xfs", *OF_ALL),
    "fs/contiguous": ("fs/contiguous", "fs/scmfs", "fs/simfs", "fs/ctfs", *OF_ALL),
    **{f"fs/{family}": ("fs/contiguous", f"fs/{family}", *OF_ALL) for family in ("scmfs", "simfs", "ctfs")},
    "fs/mapping": ("fs/mapping", "pipeline/test_mapped.py", *OF_ALL),
    **{f"fs/{family}": (f"fs/{family}", *OF_ALL) for family in (
        "engine", "ext2", "ext4", "nova", "pmfs", "scm_manager", "splitfs", "tmpfs", "vsm", "winefs", "xfs",
    )},
    "alloc/aligned_holes": ("alloc", "fs/winefs", *OF_ALL),
    "alloc": ("alloc",),
    **dict.fromkeys(("mmu/cpuid", "mmu/host"), ("mmu/test_cpuid.py", "mmu/test_host.py")),
    "mmu": tuple(f"mmu/test_{name}.py" for name in (
        "batch_properties", "cli", "data_addresses", "each_rule", "invalidations", "lackey_lines", "memory_of_sequences",
        "page_runs", "presets", "properties", "simulate", "state", "touches", "walks",
    )),
    "medium": ("medium",),
    "paging": ("paging",),
    "footprint": ("footprint",),
}  # fmt: skip
# tables, and sources that other rooms test
LEFT_OUT = (
    "crash.py",
    "crash_dax.py",
    "block_recovery.py",
    "crash_ext2.py",
    "crash_fat.py",
    "crash_dax_io.py",
    "disk.py",
    "stores.py",
    "templates.py",
    "name_templates.py",
    "plot.py",
)
DIED, BROKEN = 1, 3  # exit statuses of a fork
ENDLESS = 4  # s of CPU time, plus three times that without a change, after which a test counts as endless
QUICK = 0.7  # s of CPU time of all tests before the stored events
EXAMPLES = (100, 20)  # examples of a property test, if it takes less than LONG
LONG = 1  # s of CPU time


def room_of(path: str) -> tuple[str, ...] | None:
    """Return the tests of a source, as patterns under tests/, or None."""
    if pathlib.Path(path).name in LEFT_OUT:
        return None
    return next((tests for prefix, tests in ROOMS.items() if path.startswith(prefix)), None)


def drawn(count: int, seed: int, only: str) -> list[Mutant]:
    """Return a random sample of all mutants whose paths begin with the prefixes `only`."""
    places = [
        mutant
        for path in sorted(PACKAGE.rglob("*.py"))
        if (name := str(path.relative_to(PACKAGE))).startswith(tuple(only.split(","))) and room_of(name)
        for mutant in mutants_of(path)
    ]
    print(f"{len(places)} places in {len({place.path for place in places})} files", file=sys.stderr)
    return random.Random(seed).sample(places, min(count, len(places)))


def again(path: str) -> list[Mutant]:
    """Return the surviving mutants of an earlier run whose source text is unchanged."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row.pop("verdict") != "died"]
    numbers = ("line", "start", "stop")
    mutants = [Mutant(*(int(row[key]) if key in numbers else row[key] for key in Mutant._fields)) for row in rows]
    return [
        each for each in mutants if pathlib.Path(each.file).read_bytes()[each.start : each.stop] == each.old.encode()
    ]


def code_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield all code objects nested in a code object."""
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield const
            yield from code_in(const)


def apply(mutant: Mutant | None) -> None:
    """Apply the mutant to the functions or modules of this process, and clear all caches of functions."""
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


class Test(NamedTuple):
    """A test, its time without a change, and the functions that it calls."""

    item: pytest.Item
    seconds: float  # CPU time, s
    called: set[tuple[str, str]]  # file and name of functions
    constants: set[str]  # names in capitals that the functions use

    def sees(self, mutant: Mutant) -> bool:
        """Return whether the test calls the changed function, or a function that uses the changed constant."""
        name = f"{mutant.name}."
        return mutant.name in self.constants or any(
            file == mutant.file and f"{called}.".startswith(name) for file, called in self.called
        )


class Trials:
    """A pytest plug-in that runs each test once without a change, then the tests of every mutant, in forks."""

    def __init__(self, sample: list[Mutant], models: set[str], longest: float, told: Callable[[Sequence], Any]) -> None:
        self.sample, self.models, self.longest, self.told = sample, models, longest, told
        self.failed = False
        self.count: Counter[str] = Counter()  # mutants by verdict

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that fails."""
        self.failed |= report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests and the mutants in place of pytest's own loop."""
        if session.testsfailed:
            sys.exit("the tests cannot be loaded")
        tests = [test for item in session.items if self._is_of_models(item) and (test := self._thorough(item))]
        tests.sort(key=lambda test: test.seconds)
        for path in {
            file for test in tests for file, name in test.called if name == "<module>"
        }:  # modules that tests loaded in their forks
            importlib.import_module(".".join(pathlib.Path(path).relative_to(ROOT).with_suffix("").parts))
        print(f"{len(tests)} tests, {sum(test.seconds for test in tests):.0f} s", file=sys.stderr, flush=True)
        for mutant in self.sample:
            verdict, by = self._verdict(mutant, tests)
            self.told((verdict, *mutant, by))
            self.count[verdict] += 1
            change = f"{mutant.path}:{mutant.line}  {mutant.old}  ->  {mutant.new}"
            print(f"{verdict:5} {change}  {by}", file=sys.stderr, flush=True)
        return True

    def _is_of_models(self, item: pytest.Item) -> bool:
        """Return whether a test is of a room, or is a conformance test of a model of the sample's rooms."""
        params = item.callspec.params if hasattr(item, "callspec") else {}
        return item.path.parent.name != "conformance" or params.get("fs") in self.models

    def _thorough(self, item: pytest.Item) -> Test | None:
        """Return `_watched` of a test, with more examples if they are quick."""
        test, function = self._watched(item), getattr(item, "obj", None)
        known = getattr(function, "_hypothesis_internal_use_settings", None)
        if test is None or known is None:
            return test
        for count in EXAMPLES:
            if known.max_examples < count and test.seconds * count / known.max_examples < LONG:
                function._hypothesis_internal_use_settings = settings(known, max_examples=count)
                if more := self._watched(item):
                    return more
                function._hypothesis_internal_use_settings = known
        return test

    def _watched(self, item: pytest.Item) -> Test | None:
        """Run a test without a change and note its calls and its time; return None if it fails or takes too long."""
        seen: dict[int, types.CodeType] = {}

        def noted(frame: types.FrameType, event: str, arg: Any) -> None:
            seen[id(frame.f_code)] = frame.f_code

        def run() -> tuple[bool, Any]:
            began = time.process_time()
            threading.settrace(noted)
            sys.settrace(noted)
            item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
            sys.settrace(None)
            seconds = time.process_time() - began
            codes = [code for code in seen.values() if code.co_filename.startswith(str(PACKAGE))]
            constants = {name for code in codes for name in code.co_names if name.isupper()}
            return self.failed, (seconds, {(code.co_filename, code.co_qualname) for code in codes}, constants)

        status, found = forked(run, self.longest)
        if status == DIED:
            print(f"left out, since it fails without a change: {item.nodeid}", file=sys.stderr, flush=True)
        return Test(item, *found) if status == 0 else None

    def _verdict(self, mutant: Mutant, tests: list[Test]) -> tuple[str, str]:
        """Run the tests that see the mutant until one fails or takes too much CPU time; return verdict and test."""
        chosen = in_order([test for test in tests if test.sees(mutant)], self.longest)

        def run() -> tuple[bool, Any]:
            apply(mutant)
            for test in chosen:
                enough = int(time.process_time() + ENDLESS + 3 * test.seconds)
                resource.setrlimit(resource.RLIMIT_CPU, (enough, resource.RLIM_INFINITY))
                test.item.ihook.pytest_runtest_protocol(item=test.item, nextitem=None)
                if self.failed:
                    return True, test.item.nodeid
            return False, ""

        status, by = forked(run, ENDLESS)
        verdicts = {0: "lived", DIED: "died", -signal.SIGXCPU: "died", -signal.SIGKILL: "died"}
        return verdicts.get(status, f"ended with {status}"), by or ("" if status == 0 else "does not end")


def in_order(tests: list[Test], longest: float) -> list[Test]:
    """Return the tests in a mutant's order, `longest` seconds in total: the fastest, the stored events, the others."""
    stored = [test for test in tests if test.item.path.name == STORED]
    others = [test for test in tests if test.item.path.name != STORED]
    quick = sum(end <= QUICK for end in itertools.accumulate(test.seconds for test in others))
    chosen, left = [], longest
    for test in others[:quick] + stored + others[quick:]:
        if test.seconds <= left:
            chosen.append(test)
            left -= test.seconds
    return chosen


def forked(run: Callable[[], tuple[bool, Any]], seconds: float) -> tuple[int, Any]:
    """Call `run` in a fork with `seconds` of CPU time; return its status (DIED: `run` reports failure) and its result."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            resource.setrlimit(resource.RLIMIT_CPU, (max(int(seconds), 1), resource.RLIM_INFINITY))
            signal.alarm(100 * ENDLESS)
            failed, found = run()
            with open(writing, "wb") as pipe:
                pickle.dump(found, pipe)
            os._exit(DIED if failed else 0)
        finally:
            os._exit(BROKEN)
    os.close(writing)
    with open(reading, "rb") as pipe:
        told = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, pickle.loads(told) if told else None


def main() -> None:
    """Try a sample of mutants and print the verdicts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", metavar="PREFIXES", help="of paths in the package, separated by commas")
    parser.add_argument("--examples", type=int, default=5, help="of a property, where a test does not say (default 5)")
    parser.add_argument(
        "--seconds", type=float, default=60, help="of CPU that the tests of a mutant take as they are (default 60)"
    )
    parser.add_argument("--again", metavar="FILE", help="no sample: those that lived, of an earlier -o")
    parser.add_argument("-o", metavar="FILE", help="every mutant and what became of it, as CSV")
    given = parser.parse_args()
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    sys.path.insert(0, str(ROOT))  # the package of this checkout, whatever is installed
    sample = again(given.again) if given.again else drawn(given.count, given.seed, given.only)
    tests = {str(path) for each in sample for pattern in room_of(each.path) for path in (ROOT / "tests").glob(pattern)}
    from scmsim.core import registry

    settings.register_profile(
        "mutants", deadline=None, derandomize=True, max_examples=given.examples, phases=(Phase.explicit, Phase.generate)
    )
    rooms = {pattern.removeprefix("fs/") for each in sample for pattern in room_of(each.path)}
    models = {name for name in registry.names("fs") if registry.path("fs", name).parent.name in rooms}
    models |= {name for each in sample for name in MODELS.get("/".join(each.path.split("/")[:2]), ())}
    options = "-q -s -p no:cacheprovider -p no:faulthandler --hypothesis-profile=mutants".split()
    options += ["-m", "not slow", "--rootdir", str(ROOT), "-o", "tmp_path_retention_policy=none"]
    with open(given.o or os.devnull, "w", newline="", buffering=1, encoding="utf-8") as file:
        told = csv.writer(file).writerow
        told(("verdict", *Mutant._fields, "by"))
        trials = Trials(sample, models, given.seconds, told)
        pytest.main([*options, *sorted(tests)], [trials])
    print(", ".join(f"{number} {verdict}" for verdict, number in trials.count.items()), file=sys.stderr)


if __name__ == "__main__":
    main()
