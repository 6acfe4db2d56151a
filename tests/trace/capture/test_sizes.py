"""Captures of real programs: the rows explain the length of every file that is on the disk in the end."""

import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from scmsim.core.errors import EnvironmentProblem
from scmsim.core.records import CREATE, LINK, MKDIR, OPS, READ, RENAME, RMDIR, TRUNCATE, UNLINK, WRITE
from scmsim.core.registry import load
from scmsim.trace import open_trace
from scmsim.trace.capture import Options
from scmsim.trace.summary import all_problems

THREADS = """
import os, sys, threading
os.chdir(sys.argv[1])
shared = os.open("shared", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
def work(i):
    for k in range(40):
        name = f"{i}-{k % 9}"
        with open(name, "ab") as file:
            file.write(bytes(k * 131 % 5000)); file.flush()
            if k % 7 == 3: file.truncate(k * 50)
        os.write(shared, bytes(i + k))
        if k % 5 == 4: os.replace(name, f"{i}-new{k % 3}")
        if k % 11 == 10: os.unlink(f"{i}-new{k % 3}") if os.path.exists(f"{i}-new{k % 3}") else None
        file = os.open(f"{i}-holes", os.O_RDWR | os.O_CREAT, 0o644)
        os.pwritev(file, [b"abc", b"defg"], k * 1000); os.pread(file, 100, 0); os.lseek(file, 7, 0); os.write(file, b"z")
        os.close(file)
pool = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for thread in pool: thread.start()
for thread in pool: thread.join()
if os.fork() == 0:
    os.write(shared, b"child"); os.ftruncate(shared, 12345); os.write(shared, b"more"); os._exit(0)
os.wait()
"""

PROGRAMS: dict[str, tuple[list[str], str]] = {
    "git": (
        ["git", "sh"],
        """cp -r "$2" tree && cd tree && export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
        git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm one
        echo change >> one.py && git rm -q --cached two.py && git -c user.name=a -c user.email=a@b commit -qam two
        git gc -q""",
    ),
    "sqlite3": (
        ["sqlite3", "sh"],
        """for mode in delete wal truncate; do
          { echo "pragma journal_mode = $mode; create table if not exists t (a integer primary key, b text);"
            for i in 1 2 3 4 5 6 7 8; do echo "insert into t (b) values (hex(zeroblob($i * 300)));"; done
            echo "delete from t where a % 3 = 0; vacuum;"; } | sqlite3 load.db >/dev/null
        done""",
    ),
    "tar and cp": (
        ["tar", "cp", "sh"],
        """tar cf tree.tar -C "$2" . && mkdir out && tar xf tree.tar -C out && cp -r out copy && cp tree.tar again.tar
        gzip again.tar && rm -r out && mv copy out && truncate -s 777 out/one.py && cat out/two.py >> out/one.py""",
    ),
    "postmark": (
        ["postmark"],
        """printf 'set location .\nset number 40\nset transactions 150\nrun\nset transactions 0\nquit\n' | postmark >/dev/null
        cp "$2/one.py" left""",
    ),
    "threads": ([], 'exec "$3" -c "$4" .'),
}


def can(backend: str) -> bool:
    module = load("capture", backend)
    try:
        if backend == "strace":
            module.probe()
        else:
            from scmsim.trace.capture import _perf

            return shutil.which("perf") is not None and _perf.has_event("raw_syscalls:sys_enter")
    except EnvironmentProblem:
        return False
    return True


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small source tree, the same at every run."""
    root = tmp_path_factory.mktemp("tree")
    for number, name in enumerate(("one.py", "two.py", "a/three.txt", "a/b/four.c", "a/empty", "big.bin")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"line of text %d\n" % number * (number * number * 97))
    return root


def sizes_left(path: Path) -> tuple[list[int], int]:
    """Lengths of the files that the rows leave, sorted, and how many directories they leave."""
    trace = open_trace(path)
    assert all_problems(trace) == []
    length = np.maximum(trace.files.first_size, 0).tolist()
    links = [0 if size < 0 else -10 for size in trace.files.first_size]  # what was there before is not compared
    for batch in trace.batches():
        for row in batch.view(np.ndarray):
            op, file, file2, offset = int(row["op"]), int(row["file"]), int(row["file2"]), int(row["offset"])
            if op == WRITE and row["length"]:
                length[file] = max(length[file], offset + int(row["length"]))
            elif op == READ and row["length"]:
                assert offset + row["length"] <= length[file], f"{OPS[op]} behind the end of {trace.files.path[file]}"
            elif op == TRUNCATE:
                length[file] = offset
            elif op in (CREATE, MKDIR, LINK):
                links[file] += 1
            elif op in (UNLINK, RMDIR):
                links[file] -= 1
            elif op == RENAME and file2 >= 0:
                links[file2] -= 1
    is_dir = trace.files.is_dir
    left = [i for i, count in enumerate(links) if count > 0]
    return sorted(length[i] for i in left if not is_dir[i]), sum(bool(is_dir[i]) for i in left)


def on_disk(root: Path) -> tuple[list[int], int]:
    files = {
        path.stat().st_ino: path.stat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink()
    }
    return sorted(files.values()), sum(path.is_dir() for path in root.rglob("*"))


def capture(backend: str, root: Path, out: Path, argv: Sequence[str]) -> None:
    if not can(backend):
        pytest.skip(f"{backend} cannot record here")
    shell = ["sh", "-ec", 'cd "$1"\n' + argv[0], "sh", str(root), *argv[1:]]
    captured = load("capture", backend).capture(shell, out, under=str(root), options=Options())
    assert captured.status == 0 and captured.report.bad == 0


@pytest.mark.parametrize("backend", ["strace", "hybrid"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_lengths_in_the_end_are_those_on_disk(tmp_path: Path, tree: Path, backend: str, program: str) -> None:
    tools, script = PROGRAMS[program]
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    root = tmp_path / "data"
    root.mkdir()
    argv = [textwrap.dedent(script), str(tree), sys.executable, THREADS]
    capture(backend, root, tmp_path / "t.parquet", argv)
    found, directories = sizes_left(tmp_path / "t.parquet")
    expected, folders = on_disk(root)
    assert found == expected and directories == folders and len(found) > 0
    header = open_trace(tmp_path / "t.parquet").header
    assert header["lost_events"] == 0 and header["notes"] == []


@pytest.mark.parametrize("program", ["sqlite3", "tar and cp", "postmark"])
def test_both_back_ends_see_the_same_operations(tmp_path: Path, tree: Path, program: str) -> None:
    tools, script = PROGRAMS[program]
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    root, found = tmp_path / "data", []
    for backend in ("strace", "hybrid"):
        root.mkdir()
        capture(backend, root, tmp_path / "t.parquet", [textwrap.dedent(script), str(tree)])
        trace = open_trace(tmp_path / "t.parquet")
        names = trace.files.path
        fields = ["op", "offset", "length", "thread", "flag"]
        rows = [(names[r.file] if r.file >= 0 else "", *r[fields].tolist()) for batch in trace.batches() for r in batch]
        sizes = list(zip(names, trace.files.first_size.tolist(), strict=True))
        # cp goes through a directory in the order of inode numbers, which the file system draws anew
        found.append((sorted(rows), sorted(sizes)) if "cp" in tools else (rows, sizes))
        shutil.rmtree(root)
    assert len(found[0][0]) > 100
    assert found[0] == found[1]
