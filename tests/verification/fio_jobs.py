"""fio jobs against the fio of this machine, call by call, and how many public job files are accepted.

    python -m tests.verification.fio_jobs random --count 100 --seed 1     random jobs, under strace (or fio's own log)
    python -m tests.verification.fio_jobs several --count 100 --seed 1    random files of several jobs, thread by thread
    python -m tests.verification.fio_jobs files FOLDER                    job files: accepted, refused by reason

Exit code 1 if a job differs.  fio 3.33 is what the model follows; another version is named in the output.
"""

import argparse
import collections
import pathlib
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable

import numpy as np

from scmsim.core.errors import ScmsimError
from scmsim.core.records import DATA_ONLY, KEEP_SIZE, OPS, PUNCH_HOLE, SETUP, SYNCHRONOUS
from scmsim.trace.formats.tracers import strace
from scmsim.trace.store import TraceWriter, open_trace
from scmsim.workload import fio

KEPT = SYNCHRONOUS | DATA_ONLY | KEEP_SIZE | PUNCH_HOLE
BY_LOG = ("libaio", "io_uring", "posixaio", "mmap")  # engines whose transfers strace does not show
FOREIGN = """
    cpuio cpp_null dev-dax dfs exec gfapi gfapi_async http ime_aio ime_psync ime_psyncv io_uring_cmd libblkio libcufile libhdfs
    libhipfile libiscsi libpmem libzbc mtd nbd net netsplice nfs null page_fault pmemblk rados rbd rdma sg xnvme
""".split()
LOG_OPS = {"read": "read", "write": "write", "sync": "fsync", "datasync": "fsync", "open": "open", "close": "close"}


def job_text(draw: random.Random) -> str:
    """Return a random job file with one job."""
    bs = draw.choice([512, 1024, 2048, 4096, 6144, 8192])
    size = bs * draw.randint(3, 90) + draw.choice([0, 0, 0, 1, 700])
    rw = draw.choice(["read", "write", "rw", "randread", "randwrite", "randrw"])
    nrfiles = draw.choice([1, 1, 1, 2, 3])
    lines = [f"rw={rw}", f"nrfiles={nrfiles}"]
    is_random = rw.startswith("rand")
    blocks = draw.choice(["bs"] * 4 + ["pair", "bsrange", "bssplit", "bssplit2"])
    lines.append(
        {
            "bs": f"bs={bs}",
            "pair": f"bs={bs},{2 * bs}",
            "bsrange": f"bsrange={bs}-{4 * bs}",
            "bssplit": f"bssplit={bs}/{draw.randint(1, 60)}:{2 * bs}/{draw.randint(1, 39)}:{4 * bs}",
            "bssplit2": f"bssplit={bs}/30:{3 * bs}/70,{bs}/50:{2 * bs}/50",
        }[blocks]
    )
    lines.append(draw.choice([f"size={size * nrfiles}"] * 4 + [f"filesize={size}", f"filesize={size}-{3 * size}"]))
    one_block = blocks == "bs"
    if draw.random() < 0.3:
        lines.append(draw.choice(["rw_sequencer=identical", f"rwmixread={draw.randint(0, 100)}"]))
    if draw.random() < 0.25:
        lines[0] += f":{draw.randint(1, 9)}" if is_random else draw.choice([f":{bs}", f":-{2 * bs}", f":{3 * bs}"])
    elif is_random and draw.random() < 0.3:
        lines.append(f"percentage_random={draw.randint(0, 100)}")
    if is_random:
        more = ["norandommap", "randrepeat=1", "allrandrepeat=1", "file_service_type=random:3"]
        more += [
            "random_distribution=zipf:1.1",
            "random_distribution=pareto:0.3",
            "random_distribution=zoned:60/10:30/20:10/70",
        ]
        more += [f"ba={2 * bs}"] + ["random_generator=lfsr"] * one_block
        lines += draw.sample(more, draw.choice([0, 0, 1, 1, 2]))
    if draw.random() < 0.25:
        lines.append(f"offset={bs * draw.randint(1, 5)}")
    for option in (f"loops={draw.randint(2, 3)}", f"io_size={draw.randint(1, 3) * size}", "end_fsync=1", "overwrite=1",
                   f"fsync={draw.randint(1, 9)}", f"fdatasync={draw.randint(1, 9)}", f"number_ios={draw.randint(1, 40)}",
                   f"randseed={draw.randint(1, 999)}", "fallocate=none", "file_service_type=sequential", "sync=1",
                   "verify=crc32c", "verify=md5\ndo_verify=0", "unlink=1", "bs_unaligned=1", "fallocate=keep"):  # fmt: skip
        if draw.random() < 0.12:
            lines.append(option)
    if draw.random() < 0.2:
        lines.append(
            f"zonemode=strided\nzonesize={8 * bs}\nzonerange={draw.choice([8, 12]) * bs}\nzoneskip={draw.choice([0, 4]) * bs}"
        )
    engines = ["psync"] * 6 + [
        "sync",
        "vsync",
        "pvsync",
        "pvsync2",
        "libaio",
        "posixaio",
        "mmap",
        "ftruncate",
        "falloc",
    ]
    engine = draw.choice(engines + ["filecreate", "filestat", "filedelete"])
    lines += [f"ioengine={engine}", f"iodepth={draw.choice([1, 4])}"]
    return "[job]\n" + "\n".join(lines) + "\n"


def jobs_text(draw: random.Random) -> str:
    """Return a random job file with several jobs, clones, shared files and walls."""
    text = "[global]\nfilename_format=job.$jobname.$jobnum.$filenum ; names\n" if draw.random() < 0.2 else "[global]\n"
    shared = draw.random() < 0.3
    text += f"bs=4k\nsize={draw.choice([64, 100, 200])}k\n" + "filename=jobfile # one for all\n" * shared
    for number in range(draw.randint(1, 3)):
        rw = draw.choice(["read", "write", "rw", "randread", "randwrite", "randrw"])
        text += f"[job{number}]\nrw={rw}\nnumjobs={draw.randint(1, 4)}\n"
        for option in ("stonewall", f"offset_increment={draw.randint(1, 4) * 4096}", f"randseed={draw.randint(1, 99)}",
                       "loops=2", "norandommap", "allrandrepeat=1", "end_fsync=1", "nrfiles=2", "bsrange=1k-8k",
                       "random_distribution=zipf:0.9", "new_group", f"offset={draw.randint(1, 9)}%", "startdelay=0",
                       "runtime=100", "random_generator=lfsr", f"size={draw.randint(10, 100)}%", "filesize=80k",
                       "directory=.") + (("wait_for=job0",) * bool(number)):  # fmt: skip
            text += f"{option}\n" * (draw.random() < 0.12)
    return text


def by_thread(rows: np.ndarray, paths: list[str]) -> list[list[tuple]]:
    """Return the calls of each thread, and those of the set-up first."""
    found: dict[int, list[tuple]] = collections.defaultdict(list)
    for row in rows:
        found[-1 if row["flag"] & SETUP else int(row["thread"])] += rows_of(row.reshape(1), paths, False)
    return sorted([[r for r in each if r[0] != "stat"] for each in found.values()], key=str)


def made(path: pathlib.Path, by_log: bool) -> list[tuple]:
    """Return the rows that the workload makes."""
    work = fio.Workload(job=str(path))
    return rows_of(np.concatenate(list(work.batches())), work.files.path, by_log)


def rows_of(batch: np.ndarray, paths: list[str], by_log: bool) -> list[tuple]:
    """Return the (call, file, offset, length, flags) of the rows of job files."""
    found = []
    for r in batch:
        name = paths[r["file"]].rpartition("/")[2] if r["file"] >= 0 else ""
        if not name.startswith(("job", "file")) or name.endswith((".fio", ".strace", ".log", ".parquet", ".state")):
            continue
        op, flag = OPS[r["op"]], int(r["flag"]) & KEPT
        if by_log:
            if r["flag"] & SETUP or op in ("mmap", "munmap", "unlink"):
                continue
            op = {"load": "read", "store": "write", "msync": "fsync"}.get(op, op)
            if op == "fsync" or op == "close" or op == "open":
                found.append((op, name, 0, 0))
            else:
                found.append((op, name, int(r["offset"]), int(r["length"])))
        else:
            flag &= ~SYNCHRONOUS if OPS[r["op"]] != "write" else -1
            found.append((op, name, int(r["offset"]), int(r["length"]), flag))
    return found


def real(path: pathlib.Path, by_log: bool, thread: bool = True) -> list[tuple] | str:
    """Return the rows that fio makes, or what it says when it fails."""
    folder = path.parent
    command = [
        "fio",
        *["--thread"] * thread,
        "--disk_util=0",
        *(["--write_iolog=the.log"] if by_log else []),
        path.name,
    ]
    if not by_log:
        command = ["strace", "-f", "-s", "0", "-y", "-o", "t.strace", *command]
    try:
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return "fio does not end"
    if ran.returncode:
        return (ran.stderr + ran.stdout).strip().splitlines()[0] if ran.stderr + ran.stdout else "fio failed"
    if by_log:
        return logged(folder / "the.log")
    with TraceWriter(str(folder / "t.parquet"), {}) as writer:
        strace.convert(str(folder / "t.strace"), writer)
    stored = open_trace(str(folder / "t.parquet"))
    return rows_of(np.concatenate(list(stored.batches())), stored.files.path, False)


def logged(path: pathlib.Path) -> list[tuple]:
    """Return the rows of fio's own log (version 3: time, file, action, offset, length)."""
    found = []
    for line in path.read_text().splitlines()[1:]:
        _, name, action, *rest = line.split()
        if action in LOG_OPS:
            moves = action in ("read", "write")
            found.append((LOG_OPS[action], name.rpartition("/")[2], *(map(int, rest) if moves else (0, 0))))
    return found


def compared_jobs(text: str) -> tuple[str, str]:
    """Compare a job file of several jobs thread by thread; the order between threads is the scheduler's."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = pathlib.Path(folder) / "j.fio"
        path.write_text(text)
        try:
            work = fio.Workload(job=str(path))
            ours = by_thread(np.concatenate(list(work.batches())), work.files.path)
        except ScmsimError as error:
            return "refused", str(error)
        theirs = real(path, False, thread=False)
        if isinstance(theirs, str):
            return "fails", theirs
        stored = open_trace(str(path.parent / "t.parquet"))
        theirs = by_thread(np.concatenate(list(stored.batches())), stored.files.path)
    # jobs that open one file at the same time may open it twice
    dropped = ("open", "close") if "filename=" in text else ()
    theirs, ours = (
        sorted(([row for row in each if row[0] not in dropped] for each in found if each), key=str)
        for found in (theirs, ours)
    )
    for a, b in zip(ours, theirs, strict=False):
        if a != b:
            at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
            return "differs", f"row {at} of {len(a)}, {len(b)}: {a[at : at + 2]} and {b[at : at + 2]}"
    return (
        ("equal", f"{len(ours)} threads")
        if len(ours) == len(theirs)
        else ("differs", f"{len(ours)} and {len(theirs)} threads")
    )


def compared(text: str) -> tuple[str, str]:
    """Return ("equal", ...), ("differs", where), ("refused", why) or ("fails", why) for a job."""
    by_log = any(f"ioengine={engine}\n" in text for engine in BY_LOG)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = pathlib.Path(folder) / "j.fio"
        path.write_text(text)
        try:
            ours = made(path, by_log)
        except ScmsimError as error:
            return "refused", str(error)
        theirs = real(path, by_log)
    if isinstance(theirs, str):
        return "fails", theirs
    if "ioengine=filestat" not in text:
        theirs = [row for row in theirs if row[0] != "stat"]  # it looks at its files in between
    if ours == theirs:
        return "equal", f"{len(ours)} calls"
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    return "differs", f"row {at} of {len(ours)}, {len(theirs)}: {ours[at : at + 2]} and {theirs[at : at + 2]}"


def try_random(count: int, seed: int, shown: int, several: Callable[[random.Random], str] | None = None) -> int:
    """Compare `count` random jobs; return the number that differ."""
    results: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    for number in range(seed, seed + count):
        text = several(random.Random(number)) if several else job_text(random.Random(number))
        state, about = compared_jobs(text) if several else compared(text)
        results[state] += 1
        if state == "differs" and results[state] <= shown:
            print(f"seed {number}: {about}\n{text}")
        elif state != "equal":
            reasons[f"{state}: {about[:110]}"] += 1
    for reason, times in reasons.most_common():
        print(f"{times:5d}  {reason}")
    print(dict(results))
    return results["differs"]


def engines_of(text: str) -> set[str]:
    """Return the engines that a job file names; one that names none uses psync."""
    return set(re.findall(r"^\s*ioengine\s*=\s*([\w-]+)", text, re.M)) or {"psync"}


def count_files(folder: str, changed: str) -> None:
    """Print how many job files of a folder are accepted, and why the others are not."""
    results: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    for path in sorted(pathlib.Path(folder).rglob("*.fio")):
        if engines_of(path.read_text(errors="replace")) & set(FOREIGN):
            results["other engines"] += 1
            continue
        state, said = "accepted", ""
        try:
            fio.Workload(job=str(path))
        except ScmsimError as error:
            state, said = "refused", str(error)
            try:
                text = path.read_text(errors="replace")
                asked = [word for word in changed.split() if word[0].islower() or word.partition("=")[0] in text]
                fio.Workload(job=str(path), set=" ".join(asked))
                state = "accepted with what the refusal names"
            except ScmsimError as error:
                said = str(error)
        results[state] += 1
        if said:
            lines = said.splitlines()
            print(f"{path.name}: {state}: {' / '.join(lines[1:] or lines)[:230]}")
            if state == "refused":
                reasons.update({re.sub(r"^[^:]*: |^[^:]*:\d+: |'[^']*'", "", line)[:70] for line in lines[1:] or lines})
    for reason, times in reasons.most_common():
        print(f"{times:5d}  {reason}")
    print(dict(results))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["random", "several", "files"])
    parser.add_argument("folder", nargs="?", default=".")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tail", type=int, default=2, help="rows of a difference to print")
    parser.add_argument("--shown", type=int, default=5, help="differences to print")
    parser.add_argument("--set", default="size=1g time_based=0", help="options for files that are refused without them")
    args = parser.parse_args()
    if args.what == "files":
        count_files(args.folder, args.set)
        return 0
    several = jobs_text if args.what == "several" else None
    return int(bool(try_random(args.count, args.seed, args.shown, several)))


if __name__ == "__main__":
    sys.exit(main())
