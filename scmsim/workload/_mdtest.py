"""mdtest's command line, and the tree of directories and items that it describes.

Source: hpc/ior 5fcf0ba, src/mdtest.c (mdtest_run, md_validate_tests) and src/option.c.
"""

from dataclasses import dataclass

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.workload._flags import OFF, SWITCH, Flags, read
from scmsim.workload._mistakes import Mistakes

_CLOCK = "the clock decides how many calls run; give the number of items with -n or -I"
_ONE = "the number of tasks is fixed for the run: set it by scmsim's --tasks, or mpirun -n before mdtest"
FLAGS = Flags(
    program="mdtest",
    known={
        **dict.fromkeys("CTErUDFLRSkuyY", SWITCH), **dict.fromkeys("bzinINew", "size"), "d": "text", "a": "POSIX|posix",
        "random-seed": "size", "verify-write": SWITCH,
        "X": SWITCH, "verify-read": SWITCH,
    },
    silent={
        **dict.fromkeys(("P", "Z", "t", "v", "print-all-procs", "warningAsErrors"), SWITCH),
        **dict.fromkeys("pVG", "size"), "dataPacketType": "text", "showRankStatistics": SWITCH, "posix.odirect": SWITCH,
        "saveRankPerformanceDetails": "text", "savePerOpDataCSV": "text", "B": OFF, "c": OFF, "posix.rangelocks": OFF,
        "W": "0|0", "x": "|", "f": "0|0", "l": "0|0", "s": "1|1",
        "run-cmd-before-phase": "text", "run-cmd-after-phase": "text",
    },
    refused={
        "B": "mdtest itself refuses the flag; take the flag out",
        "W": _CLOCK, "x": _CLOCK, "f": _ONE, "l": _ONE, "s": _ONE, "posix.rangelocks": "take it out",
        "c": "take the flag out, so that each task creates its own items",
    },
    letters=True,
)  # fmt: skip
_LAUNCHERS = ("mpirun", "mpiexec", "srun", "mpiexec.hydra", "orterun")
MAX_TASKS, MAX_OBJECTS = 1 << 14, 1 << 24
MOST = 0x7FFFF000  # maximum bytes of one read or write on Linux


@dataclass
class Plan:
    """One run of mdtest: its requested phases and options, and the sizes that follow from them."""

    tops: list[str]  # directories of -d, below which the test directories are made
    tasks: int = 1
    iterations: int = 1
    create: bool = False
    stat: bool = False
    read: bool = False
    rename: bool = False
    remove: bool = False
    on_dirs: bool = False
    on_files: bool = False
    branches: int = 1
    depth: int = 0
    leaf_only: bool = False
    shared: bool = False  # all tasks use one set of files
    own_trees: bool = False  # each task has a tree of its own
    mknod: bool = False
    sync_file: bool = False
    sync_all: bool = False
    reread: bool = False  # each write is read back
    write_bytes: int = 0
    read_bytes: int = 0
    stride: int = 0
    items: int = 0
    per_dir: int = 0
    loops: int = 1  # test directories of one iteration
    seed: int | None = None  # seed of the order of stat and read; None: in order of the items' numbers

    @property
    def dirs(self) -> int:
        """Return the number of directories in a tree."""
        return sum(self.branches**level for level in range(self.depth + 1))

    @property
    def first_dir(self) -> int:
        """Return the first directory of a tree that holds items."""
        return self.dirs - self.branches**self.depth if self.leaf_only else 0

    @property
    def in_tree(self) -> int:
        """Return the number of items of one task in a tree."""
        return (self.dirs - self.first_dir) * self.per_dir

    @property
    def looked_at(self) -> int:
        """Return how many items of a test directory a task stats, reads and renames."""
        return self.items if self.loops == 1 else self.per_dir

    def parents(self) -> np.ndarray:
        """Return the parent of each directory of a tree; the root has -1."""
        return (np.arange(self.dirs) - 1) // max(self.branches, 1)

    def order(self) -> tuple[list[int], list[int]]:
        """Return the directories of a tree in the order of creation, and in the order of removal."""
        made, gone, waiting = list[int](), list[int](), [(0, False)]
        while waiting:
            number, is_left = waiting.pop()
            if is_left:
                gone.append(number)
                continue
            made.append(number)
            below = range(number * self.branches + 1, number * self.branches + self.branches + 1)
            waiting += [(number, True), *((each, False) for each in reversed(below) if each < self.dirs)]
        return made, gone


def plan(text: str, tasks: int, seed: int) -> tuple[Plan, list[str]]:
    """Return the run that a command line describes, and notes on effects that a trace does not show."""
    line = read(text, FLAGS)
    got = {flag: value for flag, value in line.given.items() if flag not in ("d", "a")}
    on = {
        flag: int(got.get(flag, 0))
        for flag in (*"CTErUDFLSkuyYRbzinINew", "verify-write", "random-seed", "X", "verify-read")
    }
    made = Plan(
        tops=[f"/{top.strip('/')}" for top in str(line.given.get("d", "out")).removeprefix("./").split("@")],
        tasks=_tasks(line.before, tasks), iterations=on["i"] if "i" in got else 1,
        create=bool(on["C"]), stat=bool(on["T"]), read=bool(on["E"]), rename=bool(on["U"]), remove=bool(on["r"]),
        on_dirs=bool(on["D"]), on_files=bool(on["F"]), branches=on["b"] if "b" in got else 1, depth=on["z"],
        leaf_only=bool(on["L"]), shared=bool(on["S"]), own_trees=bool(on["u"]), mknod=bool(on["k"]), sync_file=bool(on["y"]),
        sync_all=bool(on["Y"]), reread=bool(on["verify-write"]), write_bytes=on["w"], read_bytes=on["e"], stride=on["N"],
        items=on["n"], per_dir=on["I"],
    )  # fmt: skip
    notes = [f"flags that change no call: {', '.join(line.silent)}"] if line.silent else []
    if on["R"] or on["random-seed"]:
        made.seed = on["random-seed"] or seed
        if not on["random-seed"]:
            notes.append(f"mdtest takes the seed of -R from the clock; the trace has that of {seed}")
    if not (made.create or made.stat or made.read or made.rename or made.remove):
        made.create = made.stat = made.read = made.rename = made.remove = True
    if not made.on_dirs and not made.on_files:
        made.on_dirs = made.on_files = True
    made.on_dirs = made.on_dirs and not made.shared
    if (on["X"] or on["verify-read"]) and not (made.read and made.read_bytes):
        line.mistakes.add("mdtest: -X needs a read phase and -e, in mdtest too; add -E and -e, or take it out")
    _check(made, line.mistakes)
    _size(made)
    if not made.create:
        notes.append("without -C the tree exists beforehand, each file as long as -w or -e states")
    if made.tasks > 1:
        notes.append("tasks take turns within a phase, one call each")
    return made, notes


def _tasks(before: list[str], given: int) -> int:
    """Return the number of tasks in a launcher's arguments, or the given number if there is none."""
    found = [
        value for flag, value in zip(before, before[1:], strict=False) if flag in ("-n", "-np", "--np", "--ntasks")
    ]
    if before and before[0].rpartition("/")[2] not in _LAUNCHERS:
        raise UsageError(f"mdtest: {before[0][:40]!r} before mdtest is not one of {', '.join(_LAUNCHERS)}; take it out")
    if found and given != 1:
        raise UsageError("mdtest: the number of tasks is given twice: by the launcher, and by tasks; take one out")
    number = found[-1] if found else str(given)
    if not number.isdecimal() or not number.isascii() or not 1 <= int(number[:9]) <= MAX_TASKS:
        raise UsageError(f"mdtest: {number[:20]!r} tasks; give 1 to {MAX_TASKS:,}")
    return int(number)


def _check(made: Plan, mistakes: Mistakes) -> None:
    """Raise UsageError for all mistakes: also the combinations that mdtest refuses or that are not modelled."""
    for is_wrong, text in (
        (made.branches < 1 and made.depth > 0, "-b 0 with -z: give a branching factor of at least 1"),
        (made.own_trees and made.shared, "-u and -S exclude each other, in mdtest too; take one out"),
        (made.mknod and made.write_bytes, "-k and -w exclude each other, in mdtest too; take one out"),
        (
            made.create and made.read and made.read_bytes > made.write_bytes,
            f"-e {made.read_bytes} reads more than -w {made.write_bytes} writes; give -w at least as much",
        ),
        (len(made.tops) > 1 and not made.own_trees, "several directories with -d need -u; add -u"),
        (len(made.tops) > made.tasks, f"-d names more directories than the {made.tasks} task(s); give fewer"),
        (made.own_trees and made.items > 0 and made.per_dir > 0, "-n, -I and -u exclude one another; take one out"),
        (made.own_trees and made.stride > 0 and made.tasks > 1, "-u with -N is not modelled; take one out"),
        (
            not made.items and not made.per_dir and not mistakes.texts,
            "the run has no items; give their number with -n, such as -n 1000",
        ),
        (
            bool(made.per_dir and made.items % made.per_dir),
            f"-n {made.items} is not a multiple of -I {made.per_dir}; give a multiple, or only one of the two flags",
        ),
        (
            max(made.write_bytes, made.read_bytes) > MOST,
            f"-w and -e move at most {MOST:,} bytes in one call; give less",
        ),
        (made.depth > 64 or made.dirs > MAX_OBJECTS, "the tree has too many directories; give a smaller -b or -z"),
    ):
        if is_wrong:
            mistakes.add(f"mdtest: {text}")
    mistakes.check()


def _size(made: Plan) -> None:
    """Set the number of items of a directory and of a task, as mdtest rounds them."""
    leaves = made.branches**made.depth
    if made.per_dir:
        holding = leaves if made.leaf_only else made.dirs
        made.loops = made.items // made.per_dir if made.items and not made.own_trees else 1
        made.items = made.items or made.per_dir * holding
    else:
        holding = leaves if made.leaf_only else made.dirs
        made.per_dir = made.items // holding
        made.items = made.per_dir * holding
    if not made.per_dir:
        raise UsageError(f"mdtest: fewer items than the {holding:,} directories that hold them; give a larger -n")
    if made.seed is not None and made.loops > 1:
        raise UsageError("mdtest: -R with -n and -I accesses items that do not exist, in mdtest too; take one out")
    kinds = made.on_dirs + made.on_files
    count = made.iterations * made.loops * made.tasks * (made.dirs + kinds * made.in_tree)
    if not made.iterations or count > MAX_OBJECTS:
        raise UsageError(f"mdtest: {count:,} files and directories; give from 1 to {MAX_OBJECTS:,}")
