"""Damages the samples of tests/data/workloads and gives them to the workloads that read them, until the time is over.

Run: python tests/fuzz/workloads.py --seconds 60 [--seed N]
Ends with 1 if a reader crashed, hung or gave an error that is not lines of text; the input that did it is kept in the current
directory.
"""

import functools
import itertools
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from scmsim.core import registry  # noqa: E402
from scmsim.core.errors import ScmsimError  # noqa: E402
from tests.fuzz.mutate import Cases, fuzz  # noqa: E402

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


def cases() -> Cases:
    """Return a case for each sample of a file and each command line."""
    found: Cases = []
    for name, (key, files, other) in FILES.items():
        found += [(name, [(DATA / file).read_bytes()], functools.partial(_of_file, name, key, other)) for file in files]
    for line in (DATA / "commands.txt").read_text().splitlines():
        name = next(name for name in COMMANDS if name in line.split())
        key = "options" if name == "fio" else "command"
        found.append((name, [line.removeprefix(f"{name} ").encode()], functools.partial(_of_text, name, key)))
    return found


def _of_file(name: str, key: str, other: dict[str, object], data: bytes) -> str:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return judge(name, {key: file.name, **other})


def _of_text(name: str, key: str, data: bytes) -> str:
    return judge(name, {key: data.decode(errors="replace")})


if __name__ == "__main__":
    sys.exit(fuzz(__doc__, cases(), ("rows", "no rows", "refused"), (1, 1, 2, 4)))
