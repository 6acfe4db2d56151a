"""Random command lines of mdtest beside the real program under strace, call by call and task by task.

    python -m tests.verification.mdtest_lines MDTEST --count 100 --seed 1

MDTEST is a build of hpc/ior's src/mdtest; several tasks need mpirun.  Exit code 1 if a line differs.
"""

import argparse
import collections
import pathlib
import random
import subprocess
import tempfile

import numpy as np

from scmsim.core.errors import ScmsimError
from scmsim.core.records import OPS
from scmsim.trace.formats.tracers import strace
from scmsim.trace.store import TraceWriter, open_trace
from scmsim.workload import mdtest

Row = tuple[str, str, int, int, str]


def words_of(draw: random.Random) -> tuple[list[str], int]:
    """Return a random command line without -d, and the number of tasks."""
    tasks = draw.choice([1, 1, 1, 2, 3])
    depth, branches = draw.choice([(0, 1), (0, 1), (1, 2), (2, 2), (1, 3), (3, 1), (2, 1)])
    words = [f"-z={depth}"] * (draw.random() < 0.5) if not depth else ["-z", str(depth)]
    words += ["-b", str(branches)] if branches > 1 else []
    per_dir, amount = draw.randint(1, 6), draw.randint(1, 30)
    words += draw.choice(
        [["-n", str(amount)]] * 3 + [["-I", str(per_dir)], [f"-I={per_dir}", f"-n{per_dir * draw.randint(1, 3)}"]]
    )
    words += [draw.choice(["-F", "-D", "-F", "-FD"])] * (draw.random() < 0.6)
    size = draw.choice([0, 1, 100, 4096, 5000])
    words += ["-w", str(size)] if size else []
    words += ["-e", str(draw.randint(1, size))] if size and draw.random() < 0.7 else []
    for word in ("-L", "-u", "-S", "-y", "-R --random-seed=7", "-R --random-seed 123", "-i 2", "-N 1", "-k", "-X", "-P", "-vv",
                 "-t", "--verify-write", "-U -C -r", "-C -T -r", "-C -E -r", "-C", "-CTr"):  # fmt: skip
        words += word.split() if draw.random() < 0.12 else []
    return words, tasks


def by_task(batch: np.ndarray, paths: list[str], top: str, words: list[str]) -> list[list[Row]]:
    """Return the rows of each task below the top directory, sorted.

    Which task creates a shared file is the scheduler's; the importer of strace does not know mknod.
    """
    found: dict[int, list[Row]] = collections.defaultdict(list)
    for r in batch:
        if r["file"] < 0 or not (path := paths[r["file"]]).startswith(f"{top}/"):
            continue
        op = OPS[r["op"]]
        if op == "stat" and path.endswith(("/md", "-0", "-1", "-2")):
            continue  # whether a test directory exists
        if op == "create" and "-k" in words:
            continue
        op = "open" if op == "create" and "-S" in words else op
        parent = (
            paths[r["file2"]].removeprefix(top)
            if op in ("create", "mkdir", "rmdir", "unlink") and r["file2"] >= 0
            else ""
        )
        moves = op in ("read", "write")
        row = (op, path.removeprefix(top), int(r["offset"]) if moves else -1, int(r["length"]) if moves else 0, parent)
        found[int(r["thread"])].append(row)
    return sorted(found.values())


def compared(program: str, words: list[str], tasks: int) -> tuple[str, str]:
    """Return ("equal", ...), ("differs", where), ("refused", why) or ("fails", why)."""
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = pathlib.Path(name).resolve()
        top = str(folder / "md")
        (folder / "md").mkdir()
        try:
            work = mdtest.Workload(command=" ".join([*words, "-d", top]), tasks=tasks)
            ours = by_task(np.concatenate(list(work.batches())), work.files.path, top, words)
        except ScmsimError as error:
            return "refused", str(error).splitlines()[-1]
        launcher = ["mpirun", "-n", str(tasks)] if tasks > 1 else []
        command = ["strace", "-f", "-y", "-s", "0", "-o", "t.strace", *launcher, program, *words, "-d", top]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
        said = ran.stdout + ran.stderr
        if ran.returncode or "WARNING" in said.replace("Read bytes is 0", "").replace("WARNING: ,", ""):
            return "fails", next(
                (line for line in said.splitlines() if "FAILED" in line or "WARN" in line), said[-100:]
            )[-100:]
        with TraceWriter(str(folder / "t.parquet"), {}) as writer:
            strace.convert(str(folder / "t.strace"), writer)
        stored = open_trace(str(folder / "t.parquet"))
        theirs = by_task(np.concatenate(list(stored.batches())), stored.files.path, top, words)
    if ours == theirs:
        return "equal", f"{sum(map(len, ours))} calls"
    for a, b in zip(ours, theirs, strict=False):
        if a != b:
            at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
            return "differs", f"row {at} of {len(a)}, {len(b)}: {a[at : at + 2]} and {b[at : at + 2]}"
    return "differs", f"{len(ours)} and {len(theirs)} tasks"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    results: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    for number in range(args.seed, args.seed + args.count):
        words, tasks = words_of(random.Random(number))
        state, about = compared(args.program, words, tasks)
        about = f"{about} ({' '.join(words)})" if state == "fails" else about
        results[state] += 1
        if state == "differs":
            print(f"seed {number}: {tasks} task(s), {' '.join(words)}: {about}", flush=True)
        elif state != "equal":
            reasons[f"{state}: {about.strip()[:110]}"] += 1
    for reason, times in reasons.most_common():
        print(f"{times:5d}  {reason}")
    print(dict(results))
    return int(bool(results["differs"]))


if __name__ == "__main__":
    raise SystemExit(main())
