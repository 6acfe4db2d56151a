"""Real programs under strace: the files that the imported trace leaves have the sizes of those on the disk."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.trace.formats_helper import Case, convert

SQLITE = """
import sqlite3, sys
for mode in ("DELETE", "WAL", "TRUNCATE"):
    db = sqlite3.connect(mode + ".db")
    db.execute("PRAGMA journal_mode=" + mode)
    db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)")
    for i in range(60):
        db.execute("INSERT INTO t(b) VALUES (?)", (str(i) * 400,))
        if i % 7 == 0:
            db.commit()
    db.execute("DELETE FROM t WHERE a % 3 = 0")
    db.commit()
    db.execute("VACUUM")
    db.close()
"""
GIT = """
set -e
git init -q . && git config user.email a@b && git config user.name a && git config gc.auto 0
for i in 1 2 3; do mkdir -p d$i; seq $i 3000 > d$i/f; cp d$i/f g$i; git add -A; git commit -q -m $i; done
git mv g1 h1; rm g2; git add -A; git commit -q -m last; git checkout -q HEAD~1; git repack -q -a -d
"""
TAR = """
set -e
mkdir a; for i in 1 2 3 4 5; do head -c ${i}7000 /dev/urandom > a/f$i; done
tar cf x.tar a; tar czf x.tgz a; mkdir b; tar xf x.tar -C b; cp -r a c; mv c/f1 c/f2; truncate -s 100 c/f3; cat a/f1 >> c/f4
"""
NEEDS = {"sqlite": [], "git": ["git"], "tar": ["tar", "gzip"]}
pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")]


def left(case: Case) -> Counter[int]:
    """Sizes of the files that are there at the end, worked out row by row."""
    size = {i: max(int(first), 0) for i, first in enumerate(case.trace.files.first_size)}
    links = {i: int(first >= 0) for i, first in enumerate(case.trace.files.first_size)}
    opened: set[int] = set()
    for (op, _, offset, length), record in zip(case.rows, case.records, strict=True):
        file, other, flag = int(record["file"]), int(record["file2"]), int(record["flag"])
        opened.add(file)
        if op == "create":
            size[file], links[file] = 0, 1
        elif op == "write" or (op == "fallocate" and not flag & 128):
            size[file] = max(size[file], offset + length)
        elif op == "truncate":
            size[file] = offset
        elif op == "unlink":
            links[file] -= 1
        elif op == "link":
            links[file] += 1
        elif op == "rename" and other >= 0:
            links[other] -= 1
    return Counter(size[i] for i in opened if links[i] > 0 and not case.trace.files.is_dir[i])


@pytest.mark.parametrize("name", ["sqlite", "git", "tar"])
def test_sizes_at_the_end_are_those_on_the_disk(tmp_path: Path, name: str) -> None:
    for tool in NEEDS[name]:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    work = tmp_path / "work"
    work.mkdir()
    program = [sys.executable, "-c", SQLITE] if name == "sqlite" else ["sh", "-c", {"git": GIT, "tar": TAR}[name]]
    strace = ["strace", "-f", "-ttt", "-T", "-y", "-s", "0", "-o", str(tmp_path / "text"), "--"]
    environment = {**os.environ, "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run([*strace, *program], cwd=work, env=environment, capture_output=True, text=True, timeout=120)
    if "ermitted" in done.stderr:
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    case = convert(tmp_path / "text", tmp_path, under=str(work))
    disk = {
        path.stat().st_ino: path.stat().st_size for path in work.rglob("*") if path.is_file() and not path.is_symlink()
    }
    assert case.report.bad == 0
    assert left(case) == Counter(disk.values())
