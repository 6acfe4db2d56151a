"""Filebench files: random ones beside the real program, call by call, and how many public ones the workload reads.

    python -m tests.verification.filebench_files random FILEBENCH --count 50 --seed 1    FILEBENCH is a build of version 1.5
    python -m tests.verification.filebench_files files FOLDER                            accepted, refused by reason

What Filebench draws from the system is left out of the comparison: offsets of random transfers, sizes of random appends, and
which files exist beforehand (random files make all or none).  Random files have no aiowrite, whose write races with close.  A
run that the clock ends is compared up to its end.  Exit code 1 if a file differs.
"""

import argparse
import collections
import hashlib
import pathlib
import random
import re
import subprocess
import tempfile

import numpy as np

from scmsim.core.errors import ScmsimError
from scmsim.core.records import OPS, SETUP
from scmsim.trace.formats.tracers import strace
from scmsim.trace.store import TraceWriter, open_trace
from scmsim.workload import filebench

Row = tuple[str, str, int, int]


def variable_text(draw: random.Random, least: int, most: int) -> str:
    """Return a random variable of the language with values of about `least` to `most`."""
    mean, low = draw.randint(least, most), draw.choice([0, least])
    rounded, seed = draw.choice([1, 1, 512]), draw.choice(["", f", seed={draw.randint(1, 99)}"])
    kind = draw.choice(["uniform", "gamma", "tabular"])
    if kind == "tabular":
        middle = (least + most) // 2
        rows = f"{{{{60, {least}, {middle}}}, {{40, {middle}, {most}}}}}"
        return f"randvar(type=tabular, min={low}, round={rounded}, randtable={rows}{seed})"
    shape = f", gamma={draw.choice([500, 1500, 3000])}" if kind == "gamma" else ""
    return f"randvar(type={kind}, min={low}, mean={max(mean, low + 1)}, round={rounded}{shape}{seed})"


def file_text(draw: random.Random, top: str) -> str:
    """Return a random .f file with one thread."""
    lines = [
        f"set $dir={top}",
        f"set mode quit {draw.choice(['alldone', 'firstdone'])}",
        "set $io=" + variable_text(draw, 600, 9000),
    ]
    lines.append(f"set $number={variable_text(draw, 1, 40)}")
    limits = draw.choice(["", f",min={draw.randint(1, 900)},max=40000", ",round=1024"])
    shape = f"mean:{draw.randint(800, 30000)};gamma:{draw.choice(['0.5', '1.5', '3'])}"
    lines.append(f"set $gamma=cvar(type=cvar-gamma,parameters={shape}{limits})")
    lines.append(f"set $size={variable_text(draw, 500, 20000)}")
    sets, folders = [], []
    for number in range(draw.randint(1, 3)):
        size = draw.choice(["$gamma", "$gamma", "$size", str(draw.randint(0, 30000)), "4k", "1k"])
        made = draw.choice(["", ",prealloc", ",prealloc", ",prealloc=100", ",prealloc,reuse"])
        if draw.random() < 0.15:
            lines.append(f"define file name=s{number},path=$dir,size={draw.choice(['8k', '20000'])}{made}")
        else:
            width = draw.choice([0, 1, 2, 3, 5, 20, 1000])
            shape = draw.choice(["", "", ",dirgamma=0", ",dirgamma=800"])
            leaves = f",leafdirs={draw.randint(2, 20)}" if width > 1 and draw.random() < 0.4 else ""
            folders += [f"s{number}"] * bool(leaves)
            entries = draw.randint(1, 60) if not leaves else 0
            lines.append(
                f"define fileset name=s{number},path=$dir,entries={entries},size={size},dirwidth={width}{shape}{made}{leaves}"
            )
        sets += [f"s{number}"] * (lines[-1].find("entries=0") < 0)
    if not sets:
        lines.append("define fileset name=s9,path=$dir,entries=9,size=$size,dirwidth=4,prealloc")
        sets.append("s9")
    lines += [
        "define process name=p,instances=1 {",
        f"  thread name=t,memsize={draw.choice(['10m', '1m'])},instances=1 {{",
    ]
    flowops = [one for _ in range(draw.randint(2, 7)) for one in _some(draw, sets, folders)]
    names = []
    for number, flowop in enumerate(flowops):
        kind, _, rest = flowop.partition(" ")
        names.append(f"f{number}")
        lines.append(f"    flowop {kind} name=f{number}" + (f",{rest}" if rest else ""))
    ends = [
        f"finishoncount name=end,value={draw.randint(10, 150)}",
        f"finishonbytes name=end,value={draw.choice(['30k', '200k', '1m'])}",
    ]
    moves = [name for name, flowop in zip(names, flowops, strict=True) if re.match("read|write|append", flowop)]
    by_bytes = moves and not re.search("listdir|random|appendfilerand", " ".join(flowops))
    end = ends[bool(by_bytes) and draw.random() < 0.4]
    target = (
        f",target={draw.choice(moves if 'bytes' in end else names)}"
        if draw.random() < 0.3 and (moves or "count" in end)
        else ""
    )
    lines += [f"    flowop {end}{target}", "  }", "}", "run 5"]
    return "\n".join(lines) + "\n"


def _some(draw: random.Random, sets: list[str], folders: list[str]) -> list[str]:
    """Return one flowop, or a few that belong together."""
    name, fd, io = draw.choice(sets), draw.randint(1, 3), draw.choice(["$io", "$io", "1000", "4k", "16k"])
    more = draw.choice([""] * 6 + [",iters=3", ",dsync", ",opennext"])
    at = draw.choice([""] * 6 + [",indexed=$number", ",indexed=5"])
    opened = f"openfile filesetname={name},fd={fd}{at}"
    closed = [f"closefile fd={fd}"] * (draw.random() < 0.9)
    whole = draw.choice(["", ",iosize=1m", f",iosize={io}"])
    choices = [
        [opened, f"readwholefile fd={fd}{whole}", *closed],
        [opened, f"read fd={fd},iosize={io}{more}", f"write fd={fd},iosize={io}", *closed],
        [opened, f"appendfile fd={fd},iosize={io}{more}", *closed],
        [opened, f"appendfilerand fd={fd},iosize=16k", *closed],
        [opened, f"write fd={fd},iosize=1k,random,workingset={draw.choice(['4k', '64k'])}", f"fsync fd={fd}", *closed],
        [opened, f"read fd={fd},iosize=512,random", *closed],
        [f"createfile filesetname={name},fd={fd}", f"writewholefile fd={fd}{whole}", *closed],
        [
            f"createfile filesetname={name},fd={fd}",
            f"writewholefile fd={fd},srcfd={fd},iosize=8k",
            f"fsync fd={fd}",
            *closed,
        ],
        [f"deletefile filesetname={name}{at}"],
        [f"deletefile filesetname={name}", f"createfile filesetname={name},fd={fd}", *closed],
        [f"statfile filesetname={name}{at}"],
        [f"readwholefile filesetname={name},fd={fd}{whole}", *closed],
        [f"write filesetname={name},fd={fd},iosize={io}{more}", *closed],
        [f"fsyncset filesetname={name}"],
        [f"listdir filesetname={name}"],
        ["hog value=10"],
        ["delay value=0"],
        ["print"],
    ]
    for folder in folders:
        choices += 3 * [
            [f"makedir filesetname={folder}"],
            [f"makedir filesetname={folder}", f"removedir filesetname={folder}"],
        ]
    return draw.choice(choices)


def rows_of(batch: np.ndarray, paths: list[str], top: str, masked: bool) -> list[Row]:
    """Return the (call, path, offset, length) of the rows below the top directory, stat calls left out.

    With `masked`, what depends on random offsets or sizes is left out: places of transfers, and how many follow each other.
    """
    found: list[Row] = []
    for r in batch:
        op, path = OPS[r["op"]], paths[r["file"]] if r["file"] >= 0 else ""
        if path.startswith(f"{top}/") and op != "stat":
            moves = op in ("read", "write") and not masked
            row = (op, path[len(top) :], int(r["offset"]) if moves else 0, int(r["length"]) if moves else 0)
            if not (masked and op == "read" and found[-1:] == [row]):
                found.append(row)
    return found


def compared(program: str, text: str, top: str) -> tuple[str, str]:
    """Return ("equal", ...), ("differs", where), ("refused", why) or ("fails", why) for a file."""
    folder = pathlib.Path(top).parent
    path, masked = folder / "w.f", "random" in text or "appendfilerand" in text
    path.write_text(text)
    try:
        work = filebench.Workload(file=str(path), starved="stop", flowops=20_000)
        batch = np.concatenate(list(work.batches()))
    except ScmsimError as error:
        return "refused", str(error)
    pathlib.Path(top).mkdir()
    traced = ["setarch", "-R", "strace", "-f", "-s", "0", "-y", "-o", f"{folder}/t.strace"]
    try:
        ran = subprocess.run([*traced, program, "-f", str(path)], capture_output=True, text=True, timeout=30)
    except subprocess.TimeoutExpired:
        return "fails", "Filebench does not end"
    if said := [line for line in ran.stdout.splitlines() if "ailed to" in line]:
        return "fails", said[-1]
    with TraceWriter(f"{folder}/t.parquet", {}) as writer:
        strace.convert(f"{folder}/t.strace", writer)
    stored = open_trace(f"{folder}/t.parquet")
    real = np.concatenate(list(stored.batches()))
    is_made = (batch["flag"] & SETUP) != 0
    ours = rows_of(batch[~is_made], work.files.path, top, masked)
    below = np.array([name.startswith(f"{top}/") for name in stored.files.path])
    threads = real["thread"][below[real["file"]] & (real["file"] >= 0) & (real["op"] != OPS.index("stat"))]
    if not len(threads):
        return "fails", ran.stdout[-100:]
    is_worker = real["thread"] != threads[0]  # the first thread makes the file sets; aiowrite has a thread of its own
    theirs = rows_of(real[is_worker], stored.files.path, top, masked)
    made = [
        sorted(row for row in rows_of(rows, names, top, False) if row[0] in ("create", "mkdir", "write"))
        for rows, names in ((batch[is_made], work.files.path), (real[~is_worker], stored.files.path))
    ]
    if made[0] != made[1]:
        only = [row for row in made[0] if row not in made[1]][:2], [row for row in made[1] if row not in made[0]][:2]
        return "differs", f"made beforehand: {len(made[0])} and {len(made[1])}; {only}"
    if "Run took 5 seconds" in ran.stdout:  # the clock ended it
        least = min(len(ours), len(theirs))
        ours, theirs = ours[:least], theirs[:least]
    if ours == theirs:
        return "equal", f"{len(made[0])} made beforehand, {len(ours)} calls"
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    return "differs", f"row {at} of {len(ours)}, {len(theirs)}: {ours[at : at + 2]} and {theirs[at : at + 2]}"


def try_random(program: str, count: int, seed: int, shown: int) -> int:
    """Compare `count` random files; return the number that differ."""
    results: collections.Counter[str] = collections.Counter()
    sums: collections.Counter[str] = collections.Counter()
    for number in range(seed, seed + count):
        with tempfile.TemporaryDirectory() as folder:
            text = file_text(random.Random(number), f"{folder}/t")
            state, about = compared(program, text, f"{folder}/t")
        results[state] += 1
        if state == "equal":
            sums.update(dict(zip(("made", "calls"), map(int, re.findall("[0-9]+", about)), strict=True)))
        elif results[state] <= shown:
            print(f"seed {number}: {state}: {about}\n{text if state == 'differs' else ''}", flush=True)
    print(dict(results), dict(sums))
    return results["differs"]


def count_files(folder: str) -> None:
    """Print how many files of a folder are accepted, and why the others are not; equal contents count once."""
    seen: set[str] = set()
    results: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    for path in sorted(pathlib.Path(folder).rglob("*.f")):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest in seen or "define" not in path.read_text(errors="replace"):
            continue
        seen.add(digest)
        try:
            filebench.Workload(file=str(path), flowops=10)
        except ScmsimError as error:
            results["refused"] += 1
            said = str(error).partition(": ")[2] or str(error)
            reasons[re.sub(r"; .*", "", said)[:90]] += 1
            print(f"{path}: {str(error)[:200]}")
        else:
            results["accepted"] += 1
    for reason, times in reasons.most_common():
        print(f"{times:5d}  {reason}")
    print(dict(results))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["random", "files"])
    parser.add_argument("path", help="the program, or the folder of files")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shown", type=int, default=5, help="differences to print")
    args = parser.parse_args()
    if args.what == "files":
        count_files(args.path)
        return 0
    return int(bool(try_random(args.path, args.count, args.seed, args.shown)))


if __name__ == "__main__":
    raise SystemExit(main())
