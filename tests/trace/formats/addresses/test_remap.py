"""A real program that makes its mapping longer, elsewhere, and shorter: its rows, and a replay of them beside its own faults."""

import shutil
import subprocess
from pathlib import Path

import pytest

import scmsim
from scmsim.trace import open_trace
from scmsim.trace.capture import lackey as backend
from tests.trace.formats.addresses.test_lackey import needs_valgrind
from tests.trace.formats_helper import convert

PROGRAM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static long faults(void) { struct rusage u; getrusage(RUSAGE_SELF, &u); return u.ru_minflt; }

int main(int argc, char **argv)
{
    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (ftruncate(fd, 2 * 4096)) return 1;
    faults();
    long before = faults();
    volatile uint64_t *p = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    mmap((char *)p + 2 * 4096, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0); /* in the way */
    p[0] = 1;
    p[512] = 2;
    if (ftruncate(fd, 32 * 4096)) return 1;
    p = mremap((void *)p, 2 * 4096, 32 * 4096, MREMAP_MAYMOVE);
    p[1] = 3;
    p[512 + 1] = 4;
    p[9 * 512] = 5;
    uint64_t sum = p[0] + p[31 * 512];
    p = mremap((void *)p, 32 * 4096, 4096, 0);
    p[2] = sum;
    munmap((void *)p, 4096);
    printf("%ld\n", faults() - before);
    return 0;
}
"""
PAGE = 4096
ROWS = [
    ("mmap", 0, 2 * PAGE), ("store", 0, 8), ("store", PAGE, 8), ("truncate", 32 * PAGE, 0), ("mmap", 0, 32 * PAGE),
    ("store", 8, 8), ("store", PAGE + 8, 8), ("store", 9 * PAGE, 8), ("load", 0, 8), ("load", 31 * PAGE, 8),
    ("munmap", PAGE, 31 * PAGE), ("store", 16, 8), ("munmap", 0, PAGE),
]  # fmt: skip


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("remap")
    (folder / "remap.c").write_text(PROGRAM)
    subprocess.run(["cc", "-O1", "-o", folder / "remap", folder / "remap.c"], check=True)
    return folder / "remap"


@needs_valgrind
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize(("fs", "wanted"), [("tmpfs", 4), ("ext4-dax", 6)])  # there ftruncate unmaps pages 0 and 1
def test_a_mapping_that_grows_keeps_its_bytes_and_entries(program: Path, tmp_path: Path, fs: str, wanted: int) -> None:
    name = str(tmp_path / "f")
    backend.capture([str(program), name], tmp_path / "t.parquet", under=str(tmp_path))
    trace = open_trace(tmp_path / "t.parquet")
    (batch,) = trace.batches()
    rows = [(scmsim.core.records.OPS[row.op], int(row.offset), int(row.length)) for row in batch]
    assert rows[rows.index(ROWS[0]) :][: len(ROWS)] == ROWS
    run = scmsim.replay(trace, fs, footprints="none").runs[0]
    assert not run.errors and run.payload == {"written": 6 * 8, "read": 2 * 8}
    faults = run.counters["page_faults_pte"]
    assert faults == wanted  # pages 0, 1, 9 and 31; mremap takes those of the first two along
    if fs == "tmpfs" and Path("/dev/shm").is_dir():
        there, counted = Path(f"/dev/shm/{tmp_path.name}-f"), []
        for _ in range(5):  # a machine that is short of memory may take a page of the program between: a fault more
            counted.append(int(subprocess.run([program, there], capture_output=True, text=True, check=True).stdout))
            there.unlink()
        assert min(counted) == faults


@pytest.mark.skipif(shutil.which("cc") is None or shutil.which("strace") is None, reason="no C compiler, or no strace")
def test_strace_tells_the_same_calls(program: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        ["strace", "-f", "-y", "-o", tmp_path / "s.txt", program, tmp_path / "f"], capture_output=True
    )
    if done.returncode:
        pytest.skip(f"strace does not work here: {done.stderr[-80:]!r}")
    case = convert(tmp_path / "s.txt", tmp_path, "strace", under=str(tmp_path))
    calls = [(op, at, length) for op, name, at, length in case.rows if name == str(tmp_path / "f")]
    wanted = [row for row in ROWS if row[0] not in ("load", "store")]
    assert [row for row in calls if row in wanted] == wanted
