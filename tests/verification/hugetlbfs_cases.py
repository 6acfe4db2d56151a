"""Random cases of mapped files of hugetlbfs on a real kernel (scmsim lab) beside the model: faults, entries of 2 MiB, signals.

Run: python -m tests.verification.hugetlbfs_cases [--cases 100] [--seed 1] [--kernel 6.1] -o FOLDER

A case is a file, made by fallocate or truncate, and a dozen calls and touches.  50 cases share a guest with a pool of 512 pages.
"""

import argparse
import json
import pathlib
import random
from collections import Counter
from typing import Any

from scmsim.core.atomic import whole
from scmsim.lab import kernel, machine, qemu
from tests.verification import mapped_cases as m

FS, LARGE = "hugetlbfs", 2 << 20
WEIGHTS = {
    "touch": 30,
    "run": 14,
    "msync": 4,
    "munmap": 6,
    "mmap": 8,
    "madvise": 4,
    "truncate": 4,
    "punch": 4,
    "fallocate": 3,
}


def part(draw: random.Random, pages: int) -> tuple[int, int]:
    """Offset and length of some whole huge pages of so many."""
    first = draw.randrange(pages)
    return first * LARGE, draw.randint(1, pages - first) * LARGE


def mmap(draw: random.Random, pages: int) -> m.Row:
    """A shared mapping, now and then longer than the file."""
    offset, length = part(draw, pages)
    if draw.random() < 0.6:
        offset, length = 0, (pages + draw.choice([0, 0, 0, 1])) * LARGE
    return ["mmap", offset, length, draw.choice([m.WRITABLE, m.WRITABLE, m.WRITABLE | m.POPULATE, 0]), 0]


def case(draw: random.Random) -> dict[str, Any]:
    """A random case: `made` brings the file into being, `rows` are judged."""
    pages = draw.randint(1, 4)
    made: list[m.Row] = [["truncate", pages * LARGE, 0, 0, 0]]
    made += [["fallocate", *part(draw, pages), 0, 0] for _ in range(draw.randint(0, 2))]
    rows = [mmap(draw, pages)]
    for _ in range(draw.randint(5, 12)):
        kind = draw.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        touch = draw.choice(["load", "store"])
        if kind == "touch":
            rows.append([touch, draw.randrange((pages + 1) * 512) * 4096 + draw.choice([0, 8, 4088]), 8, 0, 0])
        elif kind == "run":
            rows.append([touch, draw.randrange(pages * 512) * 4096, draw.choice([8192, LARGE]), 0, 0])
        elif kind == "mmap":
            rows.append(mmap(draw, pages))
        elif kind == "madvise":
            rows.append(["madvise", *part(draw, pages), 0, 4])  # DONTNEED; the guest does not look after populating
        elif kind == "truncate":
            rows.append(["truncate", draw.randrange(pages + 1) * LARGE, 0, 0, 0])
            rows.append(["truncate", pages * LARGE, 0, 0, 0])
        elif kind in ("msync", "munmap"):
            rows.append([kind, *part(draw, pages), 0, 0])
        else:
            rows.append(["fallocate", *part(draw, pages), m.PUNCH if kind == "punch" else 0, 0])
    return {"made": made, "rows": rows}


def main() -> None:
    """Measure what the folder lacks, judge the model, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kernel", default="6.1", help="a kept kernel of the lab")
    parser.add_argument("-o", "--out", type=pathlib.Path, required=True)
    parser.add_argument("--show", type=int, default=0, help="so many cases that differ")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    total: Counter = Counter()
    for number in range(-(-given.cases // m.EACH)):
        draw = random.Random(f"{given.seed} {number}")
        cases = [case(draw) for _ in range(min(m.EACH, given.cases - number * m.EACH))]
        path = given.out / f"{FS}-{given.seed}-{number}.json"
        if not path.exists():
            setting = machine.Setting(qemu.find(), kernel.find(given.kernel), timeout_s=1800)
            with whole(path) as draft:
                pathlib.Path(draft).write_text(json.dumps(m.measure(FS, ((), "", {}), cases, setting)))
        total += m.compare(FS, {"writes": "refused"}, json.loads(path.read_text()), True, given.show)
    for name, count in total.items():
        print(f"{name:24} {count}")


if __name__ == "__main__":
    main()
