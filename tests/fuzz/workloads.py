"""Damages the samples of tests/data/workloads and gives them to the workloads that read them, until the time is over.

Run: python tests/fuzz/workloads.py --seconds 60 [--seed N]
Ends with 1 if a reader crashed, hung or gave an error that is not lines of text; the input that did it is kept in the current
directory.
"""

import argparse
import itertools
import pathlib
import random
import sys
import tempfile
import time
import traceback
from collections import Counter

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from scmsim.core import registry  # noqa: E402
from scmsim.core.errors import ScmsimError  # noqa: E402
from tests.fuzz.mutate import mutated  # noqa: E402

DATA = ROOT / "tests" / "data" / "workloads"
# workload -> parameter that takes the file, samples, other parameters
FILES: dict[str, tuple[str, list[str], dict[str, object]]] = {
    "filebench": ("file", ["filebench.f"], {"flowops": 300}),
    "postmark": ("config", ["postmark.cfg"], {}),
    "vdbench": ("file", ["vdbench_files.txt", "vdbench_devices.txt"], {"operations": 200, "set": "dir=/mnt"}),
    "ycsb": ("file", ["ycsb.properties"], {}),
}
COMMANDS = ("iozone", "mdtest", "db_bench", "fio")
ROWS, SLOW_S = 20_000, 20


def judge(name: str, given: dict[str, object]) -> str:
    """Build a workload and take its first rows; "rows" or "refused", AssertionError for anything else."""
    start = time.process_time()
    try:
        work = registry.load("workload", name.replace("_", "-")).Workload(**given)
        rows = sum(len(batch) for batch in itertools.islice(work.batches(1 << 10), ROWS >> 10))
    except ScmsimError as error:
        assert len(str(error)) < 10_000 and str(error).isprintable() or "\n" in str(error), repr(error)[:300]
        return "refused"
    finally:
        took = time.process_time() - start
        assert took < SLOW_S, f"{took:.0f} s of CPU"
    return "rows" if rows else "no rows"


def samples() -> list[tuple[str, str, bytes, dict[str, object]]]:
    """Return (workload, parameter, sample, other parameters)."""
    found = [
        (name, key, (DATA / file).read_bytes(), other) for name, (key, files, other) in FILES.items() for file in files
    ]
    for line in (DATA / "commands.txt").read_text().splitlines():
        name = next(name for name in COMMANDS if name in line.split())
        words = line.removeprefix(f"{name} ")
        found.append((name, "options" if name == "fio" else "command", words.encode(), {}))
    return found


def main() -> int:
    """Fuzz; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    seen: Counter[tuple[str, str]] = Counter()
    end, number, failed = time.monotonic() + options.seconds, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end and failed <= 10:
            for name, key, sample, other in samples():
                number += 1
                draw = random.Random(f"{options.seed}:{number}")
                data = mutated(sample, draw, draw.choice((1, 1, 2, 4)))
                path = pathlib.Path(folder) / "in"
                path.write_bytes(data)
                given = str(path) if name in FILES else data.decode(errors="replace")
                try:
                    seen[name, judge(name, {key: given, **other})] += 1
                except Exception:
                    seen[name, "FAILED"] += 1
                    failed += 1
                    kept = pathlib.Path(f"fuzz-{name}-{options.seed}-{number}.bin")
                    kept.write_bytes(data)
                    print(f"{name}: input kept as {kept}\n{traceback.format_exc()}", file=sys.stderr)
    for name in sorted({name for name, _ in seen}):
        print(f"{name:16}" + "".join(f"{seen[name, how]:>8} {how}" for how in ("rows", "no rows", "refused", "FAILED")))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
