"""The SQLite workload against the real library: a stored capture of another schema, and live captures of the stated one."""

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from scmsim.core.records import OPS, joined
from scmsim.workload import _btree, sqlite
from scmsim.workload._sqlite_calls import RollbackCalls, WalCalls
from tests.trace.strace_helper import DATA, convert

# Runs the schema and the transactions that scmsim/workload/sqlite.py states: JOURNAL OP TRANSACTIONS ROWS RECORDS BLOB
# SYNCHRONOUS CHECKPOINT build|run
PROGRAM = """
import sqlite3, sys
import numpy as np
path, journal, op, transactions, rows, records, blob, synchronous, checkpoint, step = sys.argv[1:]
transactions, rows, records, blob = map(int, (transactions, rows, records, blob))
db = sqlite3.connect(path, isolation_level=None)
if step == "build":
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB)")
    db.execute("BEGIN")
    db.executemany("INSERT INTO t VALUES (?, ?)", ((i, bytes(blob)) for i in range(1, records + 1)))
    db.execute("COMMIT")
    db.execute(f"PRAGMA journal_mode={journal}")
else:
    db.execute(f"PRAGMA synchronous={synchronous}")
    db.execute("PRAGMA cache_size=1000000")
    db.execute(f"PRAGMA wal_autocheckpoint={checkpoint}") if journal == "wal" else None
    ids = np.random.default_rng(1).integers(1, records + 1, (transactions, rows)).tolist()
    for number, chosen in enumerate(ids, 1):
        db.execute("BEGIN" if op == "read" else "BEGIN IMMEDIATE")
        value = (number.to_bytes(4, "little") * (blob // 4 + 1))[:blob]  # a row that stays equal is not written
        for row in chosen:
            if op == "insert":
                db.execute("INSERT INTO t (v) VALUES (?)", (value,))
            elif op == "update":
                db.execute("UPDATE t SET v = ? WHERE id = ?", (value, row))
            else:
                db.execute("SELECT v FROM t WHERE id = ?", (row,)).fetchone()
        db.execute("COMMIT")
db.close()
"""


def made(*given):
    """(operation, file, offset, length, flags) of every call of the workload."""
    work = sqlite.Workload(*given)
    names = [os.path.basename(path) for path in work.files.path]
    return [
        (OPS[op], names[file], offset, length, flag)
        for batch in work.batches()
        for op, file, offset, length, flag in zip(
            *(batch[c].tolist() for c in ("op", "file", "offset", "length", "flag")), strict=True
        )
    ]


def captured(folder, *given):
    """The same of the real library."""
    (folder / "db").mkdir()
    command = [sys.executable, "-c", PROGRAM, str(folder / "db" / "a.db"), *map(str, given)]
    subprocess.run([*command, "build"], check=True, timeout=60)
    trace = "strace -f -ttt -T -y -s 0 -e trace=file,desc,ftruncate -o".split()
    done = subprocess.run([*trace, folder / "t.strace", *command, "run"], capture_output=True, text=True, timeout=120)
    if done.returncode:
        pytest.skip(f"strace does not work here: {done.stderr.strip()[-200:]}")
    case = convert(folder / "t.strace", folder, under=str(folder / "db"))
    return [(row.op, os.path.basename(row.path), row.offset, row.length, row.flag) for row in case.rows]


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.skipif(
    sqlite3.sqlite_version_info[:2] != (3, 40), reason=f"stated for SQLite 3.40, not {sqlite3.sqlite_version}"
)
@pytest.mark.parametrize(
    "given",
    [
        ("delete", "update", 20, 2, 1000, 100, "full", 1000),
        ("delete", "update", 5, 8, 1000, 1500, "normal", 1000),
        ("delete", "update", 5, 3, 200, 10, "off", 1000),
        ("delete", "insert", 20, 50, 1000, 100, "full", 1000),
        ("delete", "insert", 30, 3, 1, 1500, "normal", 1000),
        ("delete", "read", 20, 4, 1000, 100, "full", 1000),
        ("wal", "update", 120, 2, 1000, 100, "full", 100),
        ("wal", "update", 100, 1, 1000, 100, "full", 100),
        ("wal", "update", 30, 2, 1000, 100, "normal", 1000),
        ("wal", "update", 40, 3, 1000, 100, "off", 50),
        ("wal", "insert", 100, 3, 600, 1000, "full", 60),
        ("wal", "read", 5, 3, 1000, 1000, "full", 1000),
        ("delete", "insert", 60, 20, 1850, 1000, "full", 1000),  # the root overflows
        ("wal", "insert", 60, 20, 1850, 1000, "full", 60),
        ("delete", "insert", 25, 5, 1900, 4000, "full", 1000),  # an interior page asks its sibling for room
        ("delete", "read", 30, 5, 500, 500, "full", 1000),
        ("delete", "update", 30, 3, 60_000, 100, "full", 1000),  # four interior pages below the root
    ],
)
def test_every_call_is_that_of_the_real_library(tmp_path: Path, given):
    expected = captured(tmp_path, *given)
    assert made(*given) == expected and len(expected) > 20


def shape(calls):
    return [(OPS[row["op"]], int(row["offset"]), int(row["length"]), int(row["flag"])) for row in calls]


def test_a_stored_rollback_transaction(tmp_path: Path):
    """The second transaction of the stored capture changes page 2 of a table that is one leaf."""
    case = convert(DATA / "sqlite_delete.strace", tmp_path, under="/data")
    rows = [row for row in case.rows if row.path.startswith(("/data/s.db", "/data/w")) and row.op != "stat"]
    begin = next(i for i, row in enumerate(rows) if row.op == "read" and (row.offset, row.length) == (24, 16))
    end = next(i for i, row in enumerate(rows[begin:], begin) if row.op == "unlink")
    real = [row[:1] + row[2:] for row in rows[begin : end + 1]]
    none = np.zeros((0, 3), np.int64)
    calls = joined(list(RollbackCalls("full").transactions(1, none, np.array([[0, 0, 2]]))))
    assert [row for row in shape(calls) if row[0] != "stat"] == real and len(real) > 20


def test_a_stored_log(tmp_path: Path):
    """Four transactions of 2, 1, 4 and 1 frames, and the checkpoint at the close."""
    case = convert(DATA / "sqlite_wal.strace", tmp_path, under="/data")
    rows = [row for row in case.rows if row.path.startswith(("/data/s.db", "/data/w")) and row.op != "stat"]
    begin = next(i for i, row in enumerate(rows) if row.op == "write" and row.length == 32)
    calls = WalCalls("full", 1000, 1)
    changes = [(0, 0, 1), (0, -1, 2), (1, 0, 2), (2, 0, 1), (2, 0, 2), (2, -1, 3), (2, -1, 4), (3, 0, 2)]
    parts = [*calls.transactions(4, np.zeros((0, 3), np.int64), np.array(changes)), calls.closing()]
    mine = [row for row in shape(joined(parts)) if row[0] != "stat"]
    assert mine == [row[:1] + row[2:] for row in rows[begin:]]


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_each_page_has_its_place_in_memory(journal):
    """A page is read, journalled or logged, and written from the same memory; only checkpoints copy through one buffer."""
    batch = joined(list(sqlite.Workload(journal, transactions=40).batches()))
    pages = batch[(batch["length"] == 4096) & (batch["buffer"] > 0)]
    direct = pages[pages["file"] == 1]
    assert len(direct) and (direct["buffer"] == direct["offset"] + 4096).all()
    side = pages[pages["file"] == 2]
    assert set(side["buffer"]) <= {4096} | set(direct["buffer"]) and len(set(side["buffer"])) > 50
    assert not batch["buffer"][batch["length"] < 4096].any()


def test_varints():
    assert [_btree.varint(n) for n in (0, 127, 128, 16383, 16384, 2**56 - 1, 2**56, 2**64 - 1)] == [
        1,
        1,
        2,
        2,
        3,
        8,
        9,
        9,
    ]


def pages_of(path):
    """({leaf page: first row id}, {interior page: children}, number of pages) of a real file."""
    data = path.read_bytes()
    leaves, interior = {}, {}
    for page in range(2, len(data) // 4096 + 1):
        body = data[(page - 1) * 4096 : page * 4096]
        cells = int.from_bytes(body[3:5], "big")
        if body[0] == 13:  # a leaf of a table: varint payload length, varint row id
            _, at = varint_at(body, int.from_bytes(body[8:10], "big"))
            leaves[page], _ = varint_at(body, at)
        elif body[0] == 5:  # an interior page: the rightmost child in its header, a child at the start of each cell
            at = [int.from_bytes(body[i : i + 2], "big") for i in range(12, 12 + 2 * cells, 2)]
            interior[page] = [int.from_bytes(body[i : i + 4], "big") for i in (*at, 8)]
    return leaves, interior, len(data) // 4096


def varint_at(body, at):
    value = 0
    while True:
        value = value << 7 | body[at] & 0x7F
        at += 1
        if not body[at - 1] & 0x80:
            return value, at


@pytest.mark.parametrize(
    ("rows", "blob"),
    [(1, 10), (60, 57), (61, 58), (1000, 100), (2000, 1900), (17_000, 90), (30, 4000), (60_000, 100), (5000, 4000)],
)
def test_pages_are_those_of_the_real_file(tmp_path: Path, rows, blob):
    database = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB)")
    database.execute("BEGIN")
    database.executemany("INSERT INTO t VALUES (?, ?)", ((i, bytes(blob)) for i in range(1, rows + 1)))
    database.execute("COMMIT")
    database.close()
    tree = _btree.Tree(blob)
    tree.insert(rows)
    leaves, interior, pages = pages_of(tmp_path / "a.db")
    assert dict(zip(tree.leaves, tree.first, strict=True)) == leaves and tree.pages == pages
    assert kids(tree.root) == interior
    assert tree.pages_of(np.array([1, rows])).tolist() == [tree.leaves[0], tree.leaves[-1]]
    for leaf in (tree.leaves[0], tree.leaves[len(leaves) // 2], tree.leaves[-1]):
        above = tree.above(leaf)
        assert all(below in interior[page] for page, below in zip(above, [*above[1:], leaf], strict=False))
        assert bool(above) == bool(interior)


def kids(node):
    """{interior page: children} of a node and below it."""
    if node is None:
        return {}
    found = {node.page: [kid if isinstance(kid, int) else kid.page for kid in node.kids]}
    for kid in node.kids:
        found |= {} if isinstance(kid, int) else kids(kid)
    return found


def test_transactions_in_one_go_or_one_by_one():
    """The tree after many inserts does not depend on how they are grouped."""
    one, many = _btree.Tree(1900), _btree.Tree(1900)
    one.insert(3000)
    for _ in range(1000):
        many.insert(3)
    assert (one.leaves, one.first, one.pages, kids(one.root)) == (many.leaves, many.first, many.pages, kids(many.root))
