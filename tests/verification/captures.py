"""Do the back ends of `scmsim capture` agree?  The same programs by each, and io_uring of fio beside fio's own log.

    python -m tests.verification.captures [--guest [--kernel 6.12]] [CASE ...]

It needs root.  With --guest all of it runs on a kernel of the lab, with this machine's programs (host_guest.py): for machines whose
kernel forbids BPF.  A minute on a machine, a quarter of an hour in the guest.  Exit code 0: all as they should be.
"""

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from scmsim.core.errors import ScmsimError
from scmsim.core.records import OPS
from scmsim.lab import kernel
from scmsim.trace import open_trace
from tests.trace.formats.tracers.test_bpftrace import WORK
from tests.verification import host_guest

THREADS = """
import os, sys, threading
def work(name):
    f = os.open(name, os.O_RDWR | os.O_CREAT)
    for i in range(50): os.pwrite(f, b"x" * (i + 1), i * 100)
    os.lseek(f, 0, 0)
    while os.read(f, 999): pass
    os.close(f); os.rename(name, name + ".done"); os.stat(name + ".done")
threads = [threading.Thread(target=work, args=(f"t{i}",)) for i in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
"""
MAPPED = """
import mmap, os
f = os.open("m", os.O_RDWR | os.O_CREAT); os.ftruncate(f, 1 << 18)
m = mmap.mmap(f, 1 << 18)
for i in range(0, 1 << 18, 4096): m[i + 7] = i & 255
m.flush(); m[5] = 1; m.close(); os.close(f)
"""
GIT = """export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_DATE=@1 GIT_COMMITTER_DATE=@1
git init -q; i=0; while [ $i -lt 30 ]; do echo $i > f$i; i=$((i+1)); done; touch -d @1 f*
git add .; git -c user.name=a -c user.email=b commit -qm c; git status --short"""
SQLITE = """(echo 'pragma journal_mode=wal; create table t(a);'; seq 1 200 | sed 's/.*/insert into t values(&);/') | sqlite3 d"""
POSTMARK = r"printf 'set location .\nset transactions 200\nset number 50\nrun\nquit\n' | postmark > /dev/null"
THREE = ("strace", "hybrid", "bpf")
ROWS = {  # what runs in a folder of its own -> by what it is recorded; with "--mmap" touches, too, which strace cannot
    "calls": ("python3 -c '$WORK' .", THREE),
    "threads": ("python3 -c '$THREADS'", THREE),
    "sqlite": (SQLITE, THREE),
    "git": (GIT, THREE),
    "tar-cp": ("cp -r $HERE/data in; tar cf a.tar in; cp -r in out; cp a.tar b.tar; rm -r in", THREE),
    "postmark": (POSTMARK, THREE),
    "fio": ("fio --name=j --rw=randrw --bs=4k --size=256k --fsync=8 --output=/dev/null", THREE),
    "mapped": ("python3 -c '$MAPPED'", ("hybrid", "bpf", "--mmap")),
}
RING = {  # further options of fio, whose rows are those of its log
    "uring": "--iodepth=4",
    "uring-direct": "--iodepth=8 --direct=1",
    "uring-fixedbufs": "--iodepth=4 --fixedbufs=1",
    "uring-vectored": "--iodepth=4 --nonvectored=0",
    "uring-sqpoll": "--iodepth=4 --sqthread_poll=1",
    "uring-fsync": "--iodepth=2 --fsync=4",
    "uring-registered": "--iodepth=4 --registerfiles=1",
}
RANDOM = re.compile(r"(tmp_obj_|\bt)\w{6}\b")  # parts of names that no two runs share
Row = tuple[str, str, int, int, int, int]


class Case:
    """A folder in which a command is recorded by back ends in turn."""

    def __init__(self, folder: pathlib.Path, command: str) -> None:
        self.folder, self.data = folder, folder / "data"
        texts = {"$WORK": WORK.replace("'", '"'), "$THREADS": THREADS, "$MAPPED": MAPPED}
        texts["$HERE"] = str(pathlib.Path(__file__).parent)
        for name, text in texts.items():
            command = command.replace(name, text)
        self.command = command

    def by(self, backend: str, *options: str) -> tuple[list[Row], dict[str, int], dict]:
        """(Rows, first sizes by name, header) of the command's files."""
        subprocess.run(["rm", "-rf", self.data], check=True)
        self.data.mkdir()
        out = self.folder / f"{backend}.parquet"
        words = [
            "-o",
            str(out),
            "--backend",
            backend,
            "--under",
            str(self.data),
            *options,
            "--",
            "sh",
            "-c",
            self.command,
        ]
        done = subprocess.run(
            [sys.executable, "-m", "scmsim", "capture", *words], cwd=self.data, capture_output=True, text=True
        )
        if done.returncode:
            raise ScmsimError(f"{backend}: {done.stderr.strip().splitlines()[-1]}")
        trace = open_trace(out)
        names = [RANDOM.sub(r"\1*", os.path.relpath(path, self.data)) for path in trace.files.path]
        rows = [
            (OPS[r.op], names[r.file], int(r.offset), int(r.length), int(r.flag), int(r.thread))
            for batch in trace.batches()
            for r in batch
        ]
        return rows, dict(zip(names, trace.files.first_size.tolist(), strict=True)), trace.header


def of_rows(case: Case, words: tuple[str, ...]) -> tuple[bool, str]:
    """Are the rows of all back ends the same?"""
    backends, options = [word for word in words if word[0] != "-"], [word for word in words if word[0] == "-"]
    found = {each: case.by(each, *options) for each in backends}
    (first, sizes, _), said, good = found[backends[0]], [f"{backends[0]} {len(found[backends[0]][0])} rows"], True
    for name in backends[1:]:
        rows, theirs, _ = found[name]
        verdict = (
            "equal"
            if rows == first
            else "equal but for the order of threads"
            if by_file(rows) == by_file(first)
            else ""
        )
        good &= bool(verdict) and sizes == theirs
        said.append(f"{name} {verdict or different(first, rows)}{'' if sizes == theirs else ', first sizes differ'}")
    return good, "; ".join(said)


def by_file(rows: list[Row]) -> dict[str, list[tuple]]:
    """Rows of each file in their order, without the numbers of threads."""
    found = collections.defaultdict(list)
    for op, name, *rest, _ in rows:
        found[name].append((op, *rest))
    return found


def different(one: list[Row], two: list[Row]) -> str:
    """Which rows only one of two has."""
    left, right = (collections.Counter(row[:5] for row in rows) for rows in (one, two))
    only = [*(f"-{row}" for row in (left - right).elements()), *(f"+{row}" for row in (right - left).elements())]
    return f"differs in {len(only)} of {len(one)} rows {' '.join(only[:6])}" if only else "has another order"


def of_ring(case: Case) -> tuple[bool, str]:
    """Are fio's reads and writes by io_uring those of its own log?"""
    rows, _, header = case.by("bpf")
    lines = [line.split() for line in (case.folder / "log").read_text().splitlines()[1:]]
    log = sorted((parts[2], int(parts[3]), int(parts[4])) for parts in lines if parts[2] in ("read", "write"))
    opened = max(number for number, row in enumerate(rows) if row[:2] == ("open", "f"))  # fio filled the file before
    seen = sorted((op, offset, length) for op, _, offset, length, _, _ in rows[opened:] if op in ("read", "write"))
    said = [
        f"{len(log)} in the log, {len(seen)} rows, {'equal' if seen == log else 'not equal'}",
        *header["blind_spots"],
    ]
    return seen == log and len(log) == 64, "; ".join(said)


def cases(wanted: list[str]) -> Iterator[tuple[str, bool, str]]:
    """(Name, whether it is as it should be, what was found)."""
    for name in wanted or [*ROWS, *RING]:
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            try:
                if name in ROWS:
                    yield name, *of_rows(Case(folder, ROWS[name][0]), ROWS[name][1])
                else:
                    job = "fio --name=j --ioengine=io_uring --rw=randrw --bs=4k --size=256k --filename=f --output=/dev/null"
                    command = f"{job} {RING[name]} --write_iolog={folder}/log"
                    yield name, *of_ring(Case(folder, command))
            except (ScmsimError, OSError, ValueError) as why:
                yield name, False, str(why)


def main() -> int:
    """See the top of this file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--guest", action="store_true")
    parser.add_argument("--kernel")
    parser.add_argument("case", nargs="*", choices=[*ROWS, *RING, []])
    given = parser.parse_args()
    if given.guest:
        found = kernel.named(given.kernel) if given.kernel else kernel.find()
        here = [sys.executable, "-u", "-m", "tests.verification.captures", *given.case]
        lines = host_guest.run(found, here, {"PYTHONPATH": os.getcwd()}, timeout_s=3600)
        for line in lines:
            print(line, flush=True)
        return int(line != "guest: status 0")
    print(f"Linux {os.uname().release}", flush=True)
    bad = 0
    for name, good, said in cases(given.case):
        print(f"{name:18}{'ok' if good else 'NOT SO':8}{said}", flush=True)
        bad += not good
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
