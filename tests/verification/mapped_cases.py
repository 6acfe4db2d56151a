"""Random cases of mapped files on real kernels (scmsim lab) beside the models: faults, sizes of entries, bytes, write-backs.

Run: python -m tests.verification.mapped_cases [--cases 500] [--seed 1] [--fs ext4-dax,xfs-dax] [--kernel 6.12]
         [--weights munmap=30] -o FOLDER

A case is a file, made in a random way and synced, and a dozen calls and touches.  50 cases share a guest; each guest's file system
is made with other options.  What the guests counted stays in FOLDER, so that the models can be judged again without them.  A model
is given the blocks that the kernel gave the file (FIEMAP), since none has the kernel's allocator; `--own-blocks` leaves it its own.
`--weights` makes some rows more frequent than WEIGHTS has them: a folder of its own for each set of weights.
"""

import argparse
import dataclasses
import json
import pathlib
import random
from collections import Counter
from typing import Any

import numpy as np

from scmsim.core import records as r
from scmsim.core.atomic import whole
from scmsim.core.errors import ScmsimError
from scmsim.fs.linux import state as e
from scmsim.fs.mapping.words import FAULT
from scmsim.lab import kernel, machine, outcome, plan, qemu, systems
from scmsim.lab.calls import OWN
from tests.fs import drive

PAGE, FAN, LARGE = 4096, 512, 2 << 20
EACH = 50  # cases of a guest
WRITABLE, PRIVATE, POPULATE, SYNC = r.WRITABLE_SHARED, r.PRIVATE, r.POPULATE, r.MAP_SYNC
PUNCH = r.PUNCH_HOLE | r.KEEP_SIZE
JOURNALED = ("ext4-dax", "xfs-dax")
IN_MEMORY = ("tmpfs", "hugetlbfs")  # no FIEMAP tells where their pages are
MADE: dict[
    str, list[tuple[tuple[str, ...], str, dict[str, str]]]
] = {  # words for mkfs, mount options, the model's parameters
    "ext4-dax": [
        ((), "", {}),
        (("-E", "stride=512,stripe_width=512"), "", {}),
        (("-E", "stride=16,stripe_width=64"), "", {}),
    ],
    "xfs-dax": [((), "", {}), (("-d", "extszinherit=512"), "", {}), (("-d", "su=2m,sw=1"), "", {})],
    "ext2-dax": [((), "", {}), (("-g", "8192"), "", {})],
    "tmpfs": [
        ((), "size=1536m", {}),
        ((), "size=1536m,huge=always", {"huge": "always"}),
        ((), "size=1536m,huge=within_size", {"huge": "within_size"}),
        ((), "size=1536m,huge=advise", {"huge": "advise"}),
    ],
}
ADVICE = [4, 22, 23]  # of madvise: DONTNEED, POPULATE_READ, POPULATE_WRITE
OF_PAGES = [14, 15]  # HUGEPAGE, NOHUGEPAGE, which some options ask for
WEIGHTS = {
    "touch": 30, "run": 14, "msync": 10, "fsync": 4, "munmap": 5, "mmap": 8, "madvise": 4, "truncate": 4, "punch": 4,
    "fallocate": 3,
}  # fmt: skip
OUTCOMES = ("faults", "large", "bus", "segv")
COUNTED = (*OUTCOMES, "stored", "flushes")
Row = list[Any]  # operation, offset, length, flag, buffer


def case(fs: str, draw: random.Random, advice: list[int], weights: dict[str, int]) -> dict[str, Any]:
    """A random case: `made` brings the file into being, `rows`, as frequent as `weights`, are judged; `advice`: of madvise."""
    pages = draw.choice(
        [draw.randint(1, 40), draw.randint(500, 530), FAN * draw.randint(1, 3) + draw.choice([0, 0, 1, 257])]
    )
    size = pages * PAGE - draw.choice([0, 0, 0, draw.randint(1, PAGE - 1)])
    holes = fs != "ext2-dax"
    how = draw.choice(["write", "write", "write", "fallocate", "sparse"] if holes else ["write", "write", "sparse"])
    made: list[Row] = []
    if how == "fallocate":
        made.append(["fallocate", 0, size, 0, 0])
        made += [["write", *_part(draw, pages, 32), 0, 0] for _ in range(draw.randint(0, 2))]
    elif how == "sparse":
        made.append(["truncate", size, 0, 0, 0])
        made += [["write", *_part(draw, pages, 64), 0, 0] for _ in range(draw.randint(0, 4))]
    else:
        unit = draw.choice([1 << 16, 1 << 20, 1 << 21, 1 << 22])
        made += [["write", at, min(unit, size - at), 0, 0] for at in range(0, size, unit)]
        if holes and draw.random() < 0.2:
            made.append(["fallocate", *_part(draw, pages, 64), PUNCH, 0])
    made = [row for row in made if row[2] > 0 or row[0] == "truncate"]
    return {"made": made, "rows": _rows(fs, draw, pages, advice, weights)}


def _part(draw: random.Random, pages: int, most: int) -> tuple[int, int]:
    """Offset and length of some whole pages within so many."""
    first = draw.randrange(pages)
    return first * PAGE, min(draw.choice([1, 1, 2, 16, most, 4 * most]), pages - first) * PAGE


def _rows(fs: str, draw: random.Random, pages: int, advice: list[int], weights: dict[str, int]) -> list[Row]:
    rows = [_mmap(fs, draw, pages)]
    for _ in range(draw.randint(5, 12)):
        kind = draw.choices(list(weights), list(weights.values()))[0]
        touch = draw.choice(["load", "store"])
        if kind == "touch":
            rows.append([touch, draw.randrange(pages + 1) * PAGE + draw.choice([0, 8, 4088]), 8, 0, 0])
        elif kind == "run":
            whole = draw.random() < 0.3
            rows.append([touch, *((0, pages * PAGE) if whole else _part(draw, pages, 130)), 0, 0])
        elif kind in ("msync", "munmap"):
            rows.append([kind, *((0, pages * PAGE) if draw.random() < 0.6 else _part(draw, pages, 300)), 0, 0])
        elif kind == "fsync":
            rows.append(["fsync", 0, 0, 0, 0])
        elif kind == "mmap":
            rows.append(_mmap(fs, draw, pages))
        elif kind == "madvise":
            part, said = _part(draw, pages, 300), draw.choice(advice)
            whole = said in OF_PAGES and draw.random() < 0.6
            rows.append(["madvise", *((0, pages * PAGE) if whole else part), 0, said])
        elif kind == "truncate":
            rows.append(["truncate", max(draw.randrange(pages) * PAGE - draw.choice([0, 5]), 0), 0, 0, 0])
            rows.append(["truncate", pages * PAGE, 0, 0, 0])
        elif fs != "ext2-dax":
            rows.append(["fallocate", *_part(draw, pages, 300), PUNCH if kind == "punch" else 0, 0])
    return rows


def _mmap(fs: str, draw: random.Random, pages: int) -> Row:
    first = min(draw.choice([0, 0, 0, 1, FAN, draw.randrange(pages)]), pages - 1)
    length = pages - first + draw.choice([0, 0, 0, 3]) if draw.random() < 0.7 else draw.randint(1, pages - first)
    kinds = [
        WRITABLE,
        WRITABLE,
        WRITABLE,
        WRITABLE | POPULATE,
        PRIVATE,
        0,
        *([WRITABLE | SYNC] if fs in JOURNALED else []),
    ]
    place = draw.choice([first % FAN, first % FAN, draw.randrange(FAN)])
    address = (1 << 45) + (draw.randrange(1 << 12) << 32) + place * PAGE
    return ["mmap", first * PAGE, length * PAGE, draw.choice(kinds), address]


class Source:
    """The cases of a guest as a trace: file k + 1 is that of case k; making it is not counted."""

    header = {"tool": "mapped_cases"}

    def __init__(self, cases: list[dict[str, Any]], tells: bool) -> None:
        ask = [["layout", 0, 0, 0, 0]] if tells else []
        rows = []
        for k, each in enumerate(cases, 1):
            made = [["create", 0, 0, 0, 0], *each["made"], ["fsync", 0, 0, 0, 0], *ask]
            rows += [(k, row, r.SETUP) for row in made] + [(k, row, 0) for row in each["rows"]]
        self.array = np.zeros(len(rows), r.OP)
        for at, (file, (op, offset, length, flag, buffer), setup) in zip(self.array, rows, strict=True):
            number = plan.LAYOUT if op == "layout" else r.OPS.index(op)
            at["op"], at["file"], at["offset"], at["length"], at["buffer"] = number, file, offset, length, buffer
            at["flag"], at["file2"] = flag | setup, 0 if op == "create" else -1
        self.rows, self.files = len(rows), drive.files(0, *[-1] * len(cases), dirs=[0])

    def batches(self, chunk: int = 1 << 14) -> Any:
        """The rows in parts."""
        yield self.array.view(np.recarray)


def measure(fs: str, made: tuple, cases: list[dict[str, Any]], setting: machine.Setting) -> dict[str, Any]:
    """What a guest counted of each row, and where the files lay before."""
    words, options, _ = made
    system = systems.load()[fs]
    system = dataclasses.replace(
        system, mkfs=(*system.mkfs[:-1], *words, *system.mkfs[-1:]), options=options or system.options
    )
    found = plan.from_trace(Source(cases, fs not in IN_MEMORY))
    counted = found.operations["region"] > 0
    found.operations["region"][counted] = np.arange(1, 1 + counted.sum())
    found.regions = [plan.Region(str(k), 1, 1) for k in range(int(counted.sum()))]
    told = machine.run(setting, system, found)
    if not told.sizes_told:
        raise SystemExit("the guest could not read its page table")
    seen = outcome.Outcome(fs, found, told)
    rows = [dict(zip(told.faults.dtype.names, row, strict=True)) for row in told.faults[1:].tolist()]
    for row in rows:
        row.update(stored=0, flushes=0, fences=0, instructions=0, loads=0, stores=0, functions={})
    for row, task, function in zip(told.rows, seen.calls.task, seen.calls.function, strict=True):
        _add(rows[int(row["region"]) - 1], row, task[0] == OWN, function)
    extents = [[int(x[name]) for name in ("file", "flags", "logical", "physical", "length")] for x in told.extents]
    return {"cases": cases, "rows": rows, "extents": extents, "kernel": setting.kernel.version()}


def _add(to: dict[str, Any], row: np.void, own: bool, function: str) -> None:
    """Add a row of the plugin to those of an operation; the program's own instructions count no instructions here."""
    in_kernel = own and int(row["address"]) >> 63
    to["stored"] += int(row["pm_stored_bytes"]) if own else 0
    to["flushes"] += int(row["flushes"]) if in_kernel else 0
    to["fences"] += int(row["store_fences"]) if in_kernel else 0
    if in_kernel:
        to["instructions"] += int(row["instructions"])
        to["loads"] += int(row["load_instructions"])
        to["stores"] += int(row["store_instructions"])
        to["functions"][function] = to["functions"].get(function, 0) + int(row["instructions"])


def place(model: drive.Model, extents: list[list[int]], number: int) -> None:
    """Move the blocks of the file `number` of a model to where the kernel had them: (file, flags, logical, physical, length)."""
    record, arena = model.record, model.state.arena
    file = int(arena[record.rows + number * e.ROW_WORDS])
    words = arena[int(arena[file + e.PAGES]) :][: int(arena[file + e.PAGE_COUNT])]
    words[:] = 0
    arena[file + e.EXTENTS] = len(extents)
    for _, flags, logical, physical, length in extents:
        first, block = logical // PAGE, physical // PAGE
        mark = e.IS_UNWRITTEN if flags & 0x800 else 0
        for k in range(min(length // PAGE, len(words) - first)):
            words[first + k] = (block + k) << e.BLOCK_SHIFT | mark


def predict(
    fs: str,
    params: dict[str, Any],
    each: dict[str, Any],
    extents: list[list[int]] | None,
    of: Any = None,
    times: list[int] | None = None,
) -> list[Any]:
    """What a model says of the rows of a case, which come at `times` (ns): `of(events, sites)`, or what is judged."""
    capacity = {} if fs in IN_MEMORY else {"capacity": "2GiB"}
    model = drive.Model(fs, drive.files(0, -1, dirs=[0]), 1 << 14, **capacity, **params)
    made = drive.ops(
        ("create", 1, 0, 0, 0), *((op, 1, at, length, -1, flag) for op, at, length, flag, _ in each["made"])
    )
    made["time_ns"] = 0
    model.feed(made)
    model.feed(drive.ops(("fsync", 1)))
    if extents is not None:
        last = max((-(-(x[2] + x[4]) // PAGE) for x in extents), default=0)
        if last:
            model.feed(drive.ops(("fallocate", 1, 0, last * PAGE, -1, r.KEEP_SIZE), ("fsync", 1)))
        place(model, extents, 1)
    model.mapped.attached()
    model.record.map_cost = 0  # other files of the guest were touched before
    return [_of(model, row, of, at) for row, at in zip(each["rows"], times or [0] * len(each["rows"]), strict=True)]


def _of(model: drive.Model, row: Row, of: Any, at: int) -> Any:
    op, offset, length, flag, buffer = row
    batch = drive.ops((op, 1, offset, length, -1, flag))
    batch["buffer"], batch["time_ns"] = buffer, at
    before = Counter(model.mapped.errors())
    events = model.feed(batch)
    if of:
        return of(events, model.sites)
    failed = Counter(model.mapped.errors()) - before
    faults = events[(events.code == r.MAP) & (events.space == r.USER)]
    counted = faults[faults.fault_flags & FAULT > 0]
    sums = drive.persistent(events, model.sites)
    own = sum(moved for site, moved in sums["stored"].items() if site != "journal")  # kjournald's, which is not counted
    return {
        "faults": len(counted), "large": int((faults.order == 21).sum()), "bus": failed["SIGBUS"], "segv": failed["SIGSEGV"],
        "stored": own, "flushes": sum(sums["flushes"].values()) if op != "flush" else 0,
    }  # fmt: skip


def judged(op: str) -> tuple[str, ...]:
    """What is compared of a row: a call's bytes are those of the journal, too, and have cards of their own."""
    if op in ("load", "store"):
        return COUNTED
    return ("faults", "large", "flushes") if op in ("msync", "fsync") else ("faults", "large")


def compare(fs: str, params: dict[str, Any], kept: dict[str, Any], own: bool, show: int) -> Counter:
    """Cases that agree, and what the others differ in."""
    found: Counter = Counter()
    measured = iter(kept["rows"])
    for k, each in enumerate(kept["cases"], 1):
        extents = [x for x in kept["extents"] if x[0] == k]
        said = predict(fs, params, each, None if own or fs in IN_MEMORY else extents)
        wrong: Counter = Counter()
        for row, model, real in zip(each["rows"], said, [next(measured) for _ in said], strict=True):
            differ = [name for name in judged(row[0]) if model[name] != real[name]]
            if differ and not wrong and show > found["shown"]:
                found["shown"] += 1
                print(f"{fs} case {k} {row}: " + ", ".join(f"{n} {model[n]} (real {real[n]})" for n in differ))
                print("   made", each["made"][:6], "rows", each["rows"], "extents", extents[:8])
            wrong.update(f"{row[0]}: {name}" for name in differ)
        found["cases"] += 1
        found["rows"] += len(said)
        found["outcomes equal"] += not any(name.endswith(OUTCOMES) for name in wrong)
        found["all equal"] += not wrong
        found.update(wrong)
    return found


def guests(fs: str, cases: int, seed: int, weights: dict[str, int]) -> list[tuple[int, tuple, list[dict[str, Any]]]]:
    """(Number, how the file system is made, cases) of each guest of a file system."""
    found = []
    for number in range(-(-cases // EACH)):
        draw, made = random.Random(f"{seed} {fs} {number}"), MADE[fs][number % len(MADE[fs])]
        advice = ADVICE + 2 * OF_PAGES if made[2].get("huge") in ("within_size", "advise") else ADVICE
        count = min(EACH, cases - number * EACH)
        found.append((number, made, [case(fs, draw, advice, weights) for _ in range(count)]))
    return found


def _weights(told: str) -> dict[str, int]:
    """WEIGHTS, but for those told."""
    changed = {name: int(weight) for name, _, weight in (each.partition("=") for each in told.split(","))}
    if not changed.keys() <= WEIGHTS.keys():
        raise argparse.ArgumentTypeError(f"unknown rows in '{told}'; use some of {', '.join(WEIGHTS)}")
    return WEIGHTS | changed


def main() -> None:
    """Measure what the folder lacks, judge the models, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fs", default=",".join(MADE))
    parser.add_argument("--kernel", default="6.1", help="a kept kernel of the lab, which the models know too")
    parser.add_argument("-o", "--out", type=pathlib.Path, required=True)
    parser.add_argument("--weights", type=_weights, default=WEIGHTS, help="of kinds of rows, as munmap=30,mmap=16")
    parser.add_argument("--own-blocks", action="store_true")
    parser.add_argument("--show", type=int, default=0, help="so many cases of each guest that differ")
    given = parser.parse_args()
    names = given.fs.split(",")
    given.out.mkdir(parents=True, exist_ok=True)
    for fs in names:
        total: Counter = Counter()
        for number, made, cases in guests(fs, -(-given.cases // len(names)), given.seed, given.weights):
            path = given.out / f"{fs}-{given.seed}-{number}.json"
            if not path.exists():
                setting = machine.Setting(qemu.find(), kernel.find(given.kernel), timeout_s=1800)
                with whole(path) as draft:
                    pathlib.Path(draft).write_text(json.dumps(measure(fs, made, cases, setting)))
            total += compare(
                fs, {**made[2], "kernel": given.kernel}, json.loads(path.read_text()), given.own_blocks, given.show
            )
        print(f"{fs}: {json.dumps({name: count for name, count in total.items() if count})}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except ScmsimError as why:  # no emulator, no kernel
        raise SystemExit(str(why)) from None
