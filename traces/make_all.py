"""Make the traces of this folder again: run each program in a directory of its own and record what it does there.

Run as `python3 make_all.py [NAME ...] [--backend hybrid]` in an environment that has scmsim; without names, all of them.
Needs strace, git, tar, gcc, make, Debian's postmark and fio, and pip (which loads one wheel); hybrid needs perf and
root.  The operations are the same at every run with the same versions of the programs, except where threads meet.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from typing import NamedTuple

HERE = pathlib.Path(__file__).parent
WORK = pathlib.Path("/var/tmp/scmsim-traces")  # neutral: the names in a trace say nothing about a machine
WHEEL = "packaging==24.1"
DATE = "2024-01-01T00:00:00Z"

GIT = """
git init -q . && git add -A && git commit -qm 'first' && git checkout -qb work
for name in json email wsgiref; do
  echo '# changed' >> $name/__init__.py && git commit -qam "change $name"
done
git rm -rq wsgiref && git commit -qm 'remove' && git checkout -q main && git merge -q work
git gc -q && git status -s && git log --oneline | wc -l
"""
TAR_CP = """
tar cf tree.tar tree && mkdir out && tar xf tree.tar -C out && cp -r out/tree copy
cp tree.tar again.tar && mv out/tree/email out/mail && rm -r copy/asyncio copy/json && sync -f .
"""
POSTMARK = """
printf 'set location .\\nset transactions 2000\\nset number 500\\nrun\\nquit\\n' | postmark > /dev/null
"""
FIO = """
fio --directory=. --ioengine=psync --bs=4k --size=8m --group_reporting --output-format=terse --output=/dev/null \\
  --name=fill --rw=write --bs=64k --end_fsync=1 \\
  --name=mixed --stonewall --rw=randrw --rwmixread=70 --numjobs=2 --fsync=32 \\
  --name=log --stonewall --rw=write --bs=700 --size=512k --fdatasync=1
"""
COMPILE = """
make -s -j2 CC=gcc && touch part7.c && make -s CC=gcc && strip -o program.small program && make -s clean
"""
PACKAGE = """
TMPDIR=. venv/bin/python -m pip install -q --no-index --no-cache-dir --disable-pip-version-check packaging-*.whl
"""


class Trace(NamedTuple):
    """How one trace is made: what it is, what prepares its directory (not recorded), what is recorded."""

    what: str
    prepare: Callable[[pathlib.Path], None]
    command: tuple[str, ...]


def source_tree(folder: pathlib.Path) -> None:
    """Copy a real source tree: five packages of Python's standard library."""
    library = pathlib.Path(sysconfig.get_path("stdlib"))
    for name in ("json", "email", "wsgiref", "asyncio", "xml"):
        shutil.copytree(library / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))


def git_tree(folder: pathlib.Path) -> None:
    source_tree(folder)
    settings = "[user]\n\tname = someone\n\temail = someone@example.org\n[init]\n\tdefaultBranch = main\n"
    (folder / ".config").write_text(settings)


def below(name: str) -> Callable[[pathlib.Path], None]:
    return lambda folder: source_tree(folder / name)


def nothing(folder: pathlib.Path) -> None:
    pass


def c_project(folder: pathlib.Path) -> None:
    """Thirty C files with shared headers and a Makefile that builds objects, a library and a program."""
    parts = range(30)
    for i in range(6):
        lines = [f"int part{k}(int x);" for k in parts if k % 6 == i] + [
            f"struct shape{i} {{ int a[{i + 2}]; long b; }};"
        ]
        (folder / f"head{i}.h").write_text("#pragma once\n" + "\n".join(lines) + "\n")
    heads = "".join(f'#include "head{i}.h"\n' for i in range(6))
    for k in parts:
        steps = "\n".join(f"    x = x * {k + s + 3} + (x >> {s % 5 + 1});" for s in range(4 + 7 * k % 40))
        call = f"part{k - 1}(x)" if k else "x"
        (folder / f"part{k}.c").write_text(f"{heads}int part{k}(int x)\n{{\n{steps}\n    return {call};\n}}\n")
    (folder / "main.c").write_text(f"{heads}int main(int n, char **v)\n{{\n    return part29(n) & 1;\n}}\n")
    (folder / "Makefile").write_text(
        "PARTS := $(patsubst %.c,%.o,$(wildcard part*.c))\n"
        "program: main.o libparts.a\n\t$(CC) -o $@ main.o -L. -lparts\n"
        "libparts.a: $(PARTS)\n\tar rcs $@ $^\n"
        "%.o: %.c $(wildcard *.h)\n\tTMPDIR=. $(CC) -O1 -c -o $@ $<\n"
        "clean:\n\trm -f *.o *.a program\n"
    )


def wheel(folder: pathlib.Path) -> None:
    """Make a virtual environment with pip, which is read while it works, and the wheel to install."""
    venv.create(folder / "venv", with_pip=True)
    argv = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--disable-pip-version-check",
        "-d",
        folder,
        WHEEL,
    ]
    subprocess.run(argv, check=True)


TRACES = {
    "git": Trace("git: import of a source tree, commits, a branch, merge and gc", git_tree, ("sh", "-ec", GIT)),
    "tar-cp": Trace("tar and cp of a source tree, mv, rm", below("tree"), ("sh", "-ec", TAR_CP)),
    "postmark": Trace(
        "Postmark 1.53, 500 files, 2,000 transactions, else its defaults", nothing, ("sh", "-ec", POSTMARK)
    ),
    "fio": Trace(
        "fio: sequential fill; two jobs of random 70:30 reads and writes; a synchronous log",
        nothing,
        ("sh", "-ec", FIO),
    ),
    "compile": Trace(
        "make and gcc: 31 C files, a library, a program; headers of the system not recorded",
        c_project,
        ("sh", "-ec", COMPILE),
    ),
    "pip-install": Trace(
        f"pip install of a wheel ({WHEEL.replace('==', ' ')}) into a virtual environment, pip's own modules included",
        wheel,
        ("sh", "-ec", PACKAGE),
    ),
    "varmail": Trace(
        "mail server after Filebench's varmail: 8 threads deliver, read, answer and delete mail (our own script)",
        nothing,
        ("python3", "make_varmail.py", str(WORK / "varmail")),
    ),
}


def make(name: str, backend: str) -> None:
    """Record one trace."""
    trace, folder = TRACES[name], WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    trace.prepare(folder)
    script = trace.command[0] == "sh"
    environment = {**os.environ, "HOME": str(folder), "LC_ALL": "C", "PATH": "/usr/bin:/bin"}
    environment |= {"GIT_CONFIG_GLOBAL": str(folder / ".config"), "GIT_CONFIG_SYSTEM": os.devnull}
    environment |= {"GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE}  # part of what the hashes cover
    scmsim = [sys.executable, "-m", "scmsim", "capture", "--backend", backend, "--under", str(folder)]
    command = [*scmsim, "-o", str(HERE / f"{name}.parquet"), "--", *trace.command]
    subprocess.run(command, check=True, cwd=folder if script else HERE, env=environment)
    shutil.rmtree(folder)


def table() -> None:
    """Print the lines of the table in README.md."""
    from scmsim.trace import open_trace
    from scmsim.trace.summary import totals

    for path in sorted(HERE.glob("*.parquet")):
        trace = open_trace(path)
        found = totals(trace)
        what = TRACES[path.stem].what if path.stem in TRACES else "SQLite (`make_sqlite.py`)"
        moved = f"{found['bytes_read'] / 1e6:.1f} / {found['bytes_written'] / 1e6:.1f}"
        print(f"| `{path.name}` | {what} | {trace.rows:,} | {len(trace.files):,} | {moved} | {path.stat().st_size:,} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TRACES))
    parser.add_argument("--backend", default="strace", help="how to record (default: strace)")
    options = parser.parse_args()
    for name in options.names or TRACES:
        if name not in TRACES:
            parser.error(f"no trace {name!r}; choose from {', '.join(TRACES)}")
        make(name, options.backend)
    table()


if __name__ == "__main__":
    main()
