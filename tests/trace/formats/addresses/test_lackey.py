"""Loads and stores joined with mappings: by hand, against an accounting access by access, and against real programs."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.errors import UsageError
from scmsim.core.records import OPS, joined
from scmsim.trace import open_trace
from scmsim.trace.capture import lackey as backend
from scmsim.trace.formats.addresses._valgrind_calls import Calls
from tests.trace.capture_helper import can_trace, capture
from tests.trace.formats_helper import convert, convert_text

NAME = "/data/map, (1)"
ROWS = [
    ("create", NAME, -1, 0), ("truncate", NAME, 16384, 0), ("mmap", NAME, 0, 16384), ("store", NAME, 0, 24),
    ("load", NAME, 4096, 4), ("store", NAME, 4096, 4), ("load", NAME, 8192, 16), ("msync", NAME, 0, 16384),
    ("load", NAME, 16380, 4), ("load", NAME, 0, 8),
    ("write", NAME, 4096, 100), ("munmap", NAME, 0, 16384), ("stat", NAME, -1, 0), ("close", NAME, -1, 0),
]  # fmt: skip


needs_valgrind = pytest.mark.skipif(not can_trace(backend), reason="valgrind is missing or does not work here")


def test_calls_and_accesses_of_one_text(tmp_path: Path) -> None:
    case = convert("lackey.txt", tmp_path, under="/data")
    assert [row for row in case.rows if row[1] == NAME] == ROWS
    assert case.trace.header["accesses"] == {
        "accesses to other memory": 3, "accesses to files": 8, "bytes of files": 60,
    }  # fmt: skip
    assert case.report.left_out["goes on with the run of the access above"] == 3
    by_thread = {row: int(record["thread"]) for row, record in zip(case.rows, case.records, strict=True)}
    assert by_thread["load", NAME, 16380, 4] != by_thread["load", NAME, 0, 8] == by_thread["store", NAME, 0, 24]
    assert case.report.bad == 0 and "1 forks and execs" in case.trace.header["blind_spots"][1]


def test_a_text_without_calls_says_what_to_record(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has accesses but no calls.*--trace-syscalls=yes"):
        convert_text(tmp_path, "I  0401a0,3\n S 1fff000608,8\n", "lackey")


@pytest.mark.parametrize("call", ["sys_open{}x --> Success(0x0) y", "sys_open({}x", "a({}b) --> {}"])
def test_a_line_of_blanks_is_read_in_one_pass(call: str) -> None:
    """A pattern that goes over them from each blank takes hours."""
    blanks = " " * 500_000
    Calls().take(f"SYSCALL[7,1](2) {call.format(blanks, blanks)}")


def test_numbers_of_calls_may_begin_with_zeros() -> None:
    assert Calls().take("SYSCALL[7,1](3) sys_close ( 007 ) --> [pre-success] Success(0x0)") == "7 close(7) = 0"


def test_addresses_and_lengths_of_accesses(tmp_path: Path) -> None:
    """From one digit to 16, of which the highest is no program's; lengths up to 4096."""
    call = "SYSCALL[7,1](9) sys_mmap ( 0x0, 8192, 3, 34, -1, 0 ) --> [pre-success] Success(0x1000) \n"
    good = ["5,4", "0,1", "7fffffffffff,32", "abcdef,8", "00000000000000005,4"]
    bad = [",4", "5,", "5,0", "g,4", "5;4", "5,4x", "5 ,4", "5,-4", "5,1000000000", ""]
    case = convert_text(tmp_path, call + "".join(f" L {line}\n" for line in [*good[:4], *bad]), "lackey")
    assert case.report.left_out["access to memory that is not a file"] == 4 and case.report.bad == len(bad)


HAND = [
    '7 openat(AT_FDCWD</>, "/data/f", O_RDWR) = 3</data/f>',
    "7 mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_SHARED, 3</data/f>, 0) = 0x5000000",
    '7 write(1027</tmp/run.lackey>, ""..., 33) = 33',
    '7 pwrite64(3</data/f>, ""..., 10, 0) = 10',
    '7 write(1027</tmp/run.lackey>, ""..., 14) = 14',
]


def test_a_strace_of_the_same_run_says_where_the_calls_are(tmp_path: Path) -> None:
    log, strace = tmp_path / "run.lackey", tmp_path / "run.strace"
    log.write_text("I  0401a0,3\n S 05000000,8\n L 1fff,8\n L 05001000,4\n"[: 33 + 16])
    text = log.read_text()
    first = text.index(" L 05001")
    lines = [line.replace("33", str(first)).replace("14", str(len(text) - first)) for line in HAND]
    strace.write_text("\n".join(lines) + "\n")
    case = convert(log, tmp_path, "lackey", calls=str(strace))
    assert case.rows == [
        ("open", "/data/f", -1, 0), ("mmap", "/data/f", 0, 8192), ("store", "/data/f", 0, 8),
        ("write", "/data/f", 0, 10), ("load", "/data/f", 4096, 4),
    ]  # fmt: skip
    log.write_text(text + " L 05001000,4\n")
    with pytest.raises(UsageError, match="'run.lackey' is longer than the .* bytes whose writes .* recorded"):
        convert(log, tmp_path, "lackey", calls=str(strace))
    log.write_text(text[:-5])
    with pytest.raises(UsageError, match="is shorter than what strace recorded"):
        convert(log, tmp_path, "lackey", calls=str(strace))


BASE = 0x5000000
access = st.tuples(
    st.sampled_from("ILSM"), st.integers(BASE - 16, BASE + 3 * 4096 + 16), st.sampled_from([1, 4, 8, 32])
)


@given(accesses=st.lists(access, max_size=60), sequential=st.booleans())
@settings(max_examples=80, deadline=None)
def test_every_byte_is_in_one_row(
    tmp_path_factory: pytest.TempPathFactory, accesses: list[tuple[str, int, int]], sequential: bool
) -> None:
    """The bytes touched, in order, are those that a loop over the accesses finds; two files lie side by side."""
    if sequential:
        accesses = [(kind, BASE + 8 * i, 8) for i, (kind, _, _) in enumerate(accesses)]
    text = "".join(
        f"SYSCALL[7,1](257) sys_openat ( 4294967196, 0x1(/data/{name}), 2 )[sync] --> Success(0x{fd}) \n"
        f"SYSCALL[7,1](9) sys_mmap ( 0x0, {length}, 3, 1, {fd}, {offset} ) --> [pre-success] Success({at:#x}) \n"
        for name, fd, at, length, offset in (("a", 3, BASE, 4096, 8192), ("b", 4, BASE + 4096, 8192, 0))
    )
    text += "".join(f"{kind}  {at:x},{n}\n" if kind == "I" else f" {kind} {at:08x},{n}\n" for kind, at, n in accesses)
    expected = []
    for kind, at, n in accesses:
        spot = (
            ("/data/a", at - BASE + 8192, BASE + 4096)
            if BASE <= at < BASE + 4096
            else ("/data/b", at - BASE - 4096, BASE + 12288)
        )
        if kind != "I" and BASE <= at < BASE + 12288:
            n = min(n, spot[2] - at)
            expected += [
                (op, spot[0], spot[1], n) for op in {"L": ["load"], "S": ["store"], "M": ["load", "store"]}[kind]
            ]
    if not any(kind != "I" for kind, _, _ in accesses):
        return
    case = convert_text(tmp_path_factory.mktemp("t"), text, "lackey")
    bytes_of = [(op, path, at) for op, path, offset, n in expected for at in range(offset, offset + n)]
    rows = [row for row in case.rows if row[0] in ("load", "store")]
    assert [(op, path, at) for op, path, offset, n in rows for at in range(offset, offset + n)] == bytes_of
    assert all(one[:2] != two[:2] or one[2] + one[3] != two[2] for one, two in zip(rows, rows[1:], strict=False))


TOUCH = """
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
  if (ftruncate(fd, 65536)) return 1;
  volatile char *p = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  for (int i = 0; i < 16; i++) p[i * 4096 + i] = i;
  msync((void *)p, 65536, MS_SYNC);
  for (int i = 0; i < 100; i++) (void)p[8192 + i];
  munmap((void *)p, 65536);
  return 3;
}
"""


@needs_valgrind
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_program_whose_touches_are_known(tmp_path: Path) -> None:
    (tmp_path / "touch.c").write_text(TOUCH)
    subprocess.run(["cc", "-O1", "-o", tmp_path / "touch", tmp_path / "touch.c"], check=True)
    options = ["-o", "t.parquet", "--backend", "lackey", "--keep-raw", "raw.txt", "--under", "."]
    done = capture(*options, "--", "./touch", "f", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    path = str(tmp_path / "f")
    wanted = [("store", 4097 * i, 1) for i in range(16)] + [("msync", 0, 65536), ("load", 8192, 100)]
    case = convert(tmp_path / "raw.txt", tmp_path, "lackey", under=str(tmp_path), cwd=str(tmp_path))
    assert [(op, at, n) for op, name, at, n in case.rows if name == path and op in ("load", "store", "msync")] == wanted
    trace = open_trace(tmp_path / "t.parquet")
    (batch,) = trace.batches()
    assert [OPS[row.op] for row in batch] == [row[0] for row in case.rows] and trace.header["instructions"] > 10_000


def pages_in_use(data: bytes) -> set[int]:
    """Pages that a walk over an LMDB file's trees must touch, by its format (lmdb.h, mdb.c: MDB_meta, MDB_page, MDB_node)."""
    metas = [struct.unpack_from("<IIQQ96sQQ", data, 4096 * i + 16) for i in range(2)]
    meta = max(metas, key=lambda one: one[6])
    used, roots = {0, 1}, [struct.unpack_from("<IHHQQQQQ", meta[4], 48)[7]]
    while roots:
        page = roots.pop()
        used.add(page)
        flags, lower = struct.unpack_from("<HH", data, 4096 * page + 10)
        for i in range((lower - 16) // 2 if flags & 1 else 0):
            node = 4096 * page + struct.unpack_from("<H", data, 4096 * page + 16 + 2 * i)[0]
            low, high, top = struct.unpack_from("<HHH", data, node)
            roots.append(low | high << 16 | top << 32)
    return used


@needs_valgrind
@pytest.mark.skipif(shutil.which("mdb_dump") is None, reason="no lmdb-utils")
def test_a_dump_of_a_database_touches_the_pages_of_its_tree(tmp_path: Path) -> None:
    rows = "".join(f" {i * 79 % 60:08}\n {'x' * 200}\n" for i in range(60))
    head = "VERSION=3\nformat=print\ntype=btree\nmapsize=1048576\nHEADER=END\n"
    (tmp_path / "db").mkdir()
    subprocess.run(["mdb_load", tmp_path / "db"], input=head + rows + "DATA=END\n", text=True, check=True)
    command = ["mdb_dump", "-f", str(tmp_path / "dump.txt"), str(tmp_path / "db")]
    backend.capture(command, tmp_path / "t.parquet", under=str(tmp_path / "db"))
    trace = open_trace(tmp_path / "t.parquet")
    batch = joined(list(trace.batches()))
    data = trace.files.path.index(str(tmp_path / "db" / "data.mdb"))
    loads = batch[(batch["op"] == OPS.index("load")) & (batch["file"] == data)]
    read = batch[(batch["op"] == OPS.index("read")) & (batch["file"] == data)]
    touched = set((loads["offset"] // 4096).tolist()) | set((read["offset"] // 4096).tolist())
    content = (tmp_path / "db" / "data.mdb").read_bytes()
    assert touched == pages_in_use(content) and len(touched) > 4
    assert trace.files.first_size[data] == len(content)
