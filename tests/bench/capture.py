"""What capture costs the captured program, alone and under each back end.

Run: python tests/bench/capture.py    200,000 random pwrite of 4 KiB in C, then whole programs; about ten minutes
"""

import contextlib
import itertools
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator

Line = tuple[str, str]

PROGRAM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **words)
{
    static char unit[4096];
    int file = open(words[1], O_RDWR | O_CREAT, 0600), calls = atoi(words[2]);
    unsigned place = 1;
    for (long i = 0; i < 16384; i++)
        pwrite(file, unit, 4096, i * 4096);
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < calls; i++) {
        place = place * 1664525 + 1013904223;
        pwrite(file, unit, 4096, (long)(place >> 18) * 4096);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    FILE *out = fopen(words[3], "w");
    fprintf(out, "%ld\n", (end.tv_sec - start.tv_sec) * 1000000000L + end.tv_nsec - start.tv_nsec);
    return fclose(out);
}
"""


# name -> tools that it needs, what to run in an empty directory in memory; each takes 0.1 to 1 s alone
PROGRAMS = {
    "git init, add, commit of 300 files": (
        ("git",),
        """for i in $(seq 300); do echo "file $i" > f$i; done
        git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm one""",
    ),
    "sqlite3, 20,000 inserts in 100 transactions": (
        ("sqlite3",),
        """{ echo "pragma synchronous = full; create table t (a integer primary key, b text);"
        for i in $(seq 100); do
          echo "begin; with recursive n(i) as (select 1 union all select i + 1 from n where i < 200)
            insert into t (b) select hex(zeroblob(60)) from n; commit;"
        done; } | sqlite3 load.db > /dev/null""",
    ),
    "Postmark, 500 files, 10,000 transactions": (
        ("postmark",),
        "printf 'set location .\\nset transactions 10000\\nrun\\nquit\\n' | postmark > /dev/null",
    ),
    "fio psync, 100,000 random writes of 4 KiB": (
        ("fio",),
        "fio --name=a --directory=. --rw=randwrite --bs=4k --size=400m --ioengine=psync --output=/dev/null",
    ),
    "four threads, 50,000 pwrite each": (
        ("python3",),
        """python3 -c "
import os, threading
file = os.open('f', os.O_RDWR | os.O_CREAT)
unit = bytes(4096)
def work(i):
    for k in range(50000): os.pwrite(file, unit, (i * 1000 + k % 1000) * 4096)
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for t in threads: t.start()
for t in threads: t.join()
"
        """,
    ),
}


def slowdowns(calls: int, repeats: int) -> Iterator[Line]:
    """(what, figure): ns of a call and slow-down of the loop, medians of runs in turns; the file lies in memory."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        yield "capture: slow-down", "no C compiler here"
        return
    with _folder() as root:
        (root / "loop.c").write_text(PROGRAM)
        subprocess.run([compiler, "-O2", "-w", "-o", root / "loop", root / "loop.c"], check=True)
        argv = [str(root / "loop"), str(root / "data"), str(calls), str(root / "took")]
        for name, told in _compare(argv, root, repeats, calls):
            yield f"capture: {calls:,} pwrite of 4 KiB, {name}", told


def programs(repeats: int) -> Iterator[Line]:
    """(what, figure): seconds and slow-down of whole programs."""
    for program, (tools, script) in PROGRAMS.items():
        if not all(map(shutil.which, tools)):
            yield program, f"no {' or '.join(tools)} here"
            continue
        with _folder() as root:
            steps = 'rm -rf "$1/w" && mkdir "$1/w" && cd "$1/w" && begin=$(date +%s%N)\n'
            steps += f'{script}\necho $(($(date +%s%N) - begin)) > "$1/took"'
            for name, told in _compare(["sh", "-ec", steps, "sh", str(root)], root, repeats, None):
                yield f"{program}, {name}", told


@contextlib.contextmanager
def _folder() -> Iterator[pathlib.Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None) as folder:
        yield pathlib.Path(folder)


def _compare(argv: list[str], root: pathlib.Path, repeats: int, calls: int | None) -> Iterator[Line]:
    """Run a command that writes its nanoseconds to `took`, alone and under each back end, in turns."""
    from scmsim.core import registry
    from scmsim.core.errors import EnvironmentProblem

    took: dict[str, list[float]] = {name: [] for name in ("", *registry.names("capture"))}
    problems: dict[str, str] = {}
    for _ in range(repeats):
        for name in took:
            try:
                if name:
                    registry.load("capture", name).capture(argv, root / "trace.parquet", under=str(root))
                else:
                    subprocess.run(argv, check=True)
                took[name].append(int((root / "took").read_text()))
            except EnvironmentProblem as problem:
                problems[name] = str(problem)
    base = statistics.median(took[""])
    for name, values in took.items():
        one = statistics.median(values) if name not in problems else 0.0
        time = f"{one / calls:>14,.0f} ns a call" if calls else f"{one / 1e9:>14.2f} s"
        yield name or "not captured", problems.get(name, f"{time}, {one / base:.1f} times")


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
    for what, figure in itertools.chain(slowdowns(200_000, 5), programs(5)):
        print(f"{what:<66}{figure}", flush=True)
