"""`scmsim map`: what it says of a file of this machine, of a trace, and of what it cannot look at."""

import ctypes
import errno
import json
import mmap
import os
import pathlib
import tempfile
from collections.abc import Iterator

import numpy as np
import pytest
from click.testing import CliRunner, Result

from scmsim import cli
from scmsim.core.errors import EnvironmentProblem
from scmsim.study.page_size import from_file, from_process

TRACE = str(pathlib.Path(__file__).parents[2] / "traces" / "varmail.parquet")


def run(*words: str) -> Result:
    return CliRunner().invoke(cli.main, ["map", *words])


@pytest.fixture
def file(tmp_path: pathlib.Path) -> str:
    """A file of 5 MiB and a bit, whose file system tells where its blocks lie."""
    path = tmp_path / "data"
    path.write_bytes(os.urandom((5 << 20) + 7))
    descriptor = from_file.opened(path)
    try:
        from_file.extents(descriptor)
    except EnvironmentProblem:
        pytest.skip("no FIEMAP here")
    finally:
        os.close(descriptor)
    return str(path)


def test_the_extents_of_a_file_cover_it(file: str) -> None:
    descriptor = from_file.opened(file)
    found = from_file.extents(descriptor)
    os.close(descriptor)
    assert found.first[0] == 0 and found.pages.sum() == -(-((5 << 20) + 7) // 4096)
    assert (found.first[1:] == (found.first + found.pages)[:-1]).all()


def test_a_file_of_this_machine(file: str) -> None:
    done = run(file, "--as-dax", "--json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert sum(answer["regions"].values()) == 3 and answer["regions"]["edge"] >= 1
    pages = -(-answer["bytes"] // 4096)
    assert answer["all_4k"]["faults"] == pages and answer["all_2m"]["faults"] == 3
    assert 3 <= answer["load_faults"] <= answer["store_faults"] <= pages
    assert "what fixes it" in run(file).stdout


def test_a_name_with_a_terminal_command_is_escaped(file: str) -> None:
    os.rename(file, f"{file}\x1b[2J")
    done = run(f"{file}\x1b[2J", "--as-dax")
    assert done.exit_code == 0 and "\x1b" not in done.stdout and done.stdout.count("\\x1b[2J") >= 2


def test_a_part_of_a_file(file: str) -> None:
    answer = json.loads(run(file, "--as-dax", "--offset", "4KiB", "--length", "1MiB", "--json").stdout)
    assert answer["regions"] == {"edge": 1} and answer["load_faults"] == 256


def test_a_trace(tmp_path: pathlib.Path) -> None:
    answer = json.loads(run(TRACE, "--fs", "tmpfs,simfs", "--json").stdout)["file_systems"]
    assert set(answer["tmpfs"]["regions"]) == {"never"} and answer["tmpfs"]["files"]
    assert "kernel" in answer["simfs"]["not_modelled"]
    text = run(TRACE, "--fs", "tmpfs", "--top", "1").stdout
    assert "files more (--top)" in text and "walks per random load" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["/"], "not a regular file"),
        (["no/such/file"], "cannot read 'no/such/file'"),
        ([TRACE, "--offset", "4KiB"], "for a file of this machine"),
        (["FILE", "--fs", "ext4"], "are for a trace"),
        (["FILE", "--offset", "1KiB"], "not a multiple of 4KiB"),
        (["FILE", "--offset", "1GiB"], "not a multiple of 4KiB within"),
        (["FILE", "--length", "0"], "--length 0 maps nothing"),
        (["FILE", "--pid", "99999999"], "cannot read the mappings of process 99999999"),
    ],
)
def test_what_it_cannot_look_at(words: list[str], said: str, file: str) -> None:
    done = run(*(file if word == "FILE" else word for word in words))
    assert done.exit_code == 2 and done.stdout == "" and said in done.stderr and done.stderr.count("\n") == 1


SMAPS = """7f0000000000-7f0000400000 rw-s 00000000 103:02 12  {path}
Size:               4096 kB
Rss:                4096 kB
FilePmdMapped:      2048 kB
7f0000400000-7f0000500000 rw-p 00000000 00:00 0
Size:               1024 kB
Rss:                   4 kB
"""


def test_the_mappings_of_a_process(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "data"
    path.touch()
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "smaps").write_text(SMAPS.format(path=path))
    text = from_process.smaps_of(7, str(tmp_path))
    assert from_process.sums(text, str(path)) == {"Size": 4096, "Rss": 4096, "FilePmdMapped": 2048}
    assert from_process.sums(text, str(tmp_path / "other")) == {}


HUGE, COLLAPSE = 2 << 20, 25  # MADV_COLLAPSE of Linux 6.1


@pytest.fixture
def mapped() -> Iterator[tuple[str, bool]]:
    """A file of 8 MiB in memory that this process maps: (its path, whether the kernel made its last 2 MiB huge).

    The first 2 MiB have an entry of 4 KiB, the second none, the others all they can have.
    """
    if not os.path.isdir("/dev/shm"):
        pytest.skip("no /dev/shm here")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        os.truncate(file.name, 4 * HUGE)
        reserved = libc.mmap(None, 5 * HUGE, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        at, fixed = -(-reserved // HUGE) * HUGE, 0x10
        libc.mmap(at, 4 * HUGE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | fixed, file.fileno(), 0)
        ctypes.memset(at, 1, 1)
        ctypes.memset(at + 2 * HUGE, 1, 2 * HUGE)
        yield file.name, libc.madvise(at + 3 * HUGE, HUGE, COLLAPSE) == 0
        libc.munmap(reserved, 5 * HUGE)


def test_which_2_mib_this_process_has_by_which_entries(mapped: tuple[str, bool]) -> None:
    path, is_huge = mapped
    answer = json.loads(run(path, "--pid", str(os.getpid()), "--json").stdout)
    if isinstance(answer["process_pages"], str):
        pytest.skip(answer["process_pages"])
    ways = ["4 KiB", "nothing", "4 KiB", "2 MiB" if is_huge else "4 KiB"]
    found = [each["by"] for each in answer["process_pages"] for _ in range(each["bytes"] // HUGE)]
    assert found == ways
    assert [each["offset"] // HUGE for each in answer["process_pages"]][:3] == [0, 1, 2]
    part = json.loads(run(path, "--pid", str(os.getpid()), "--offset", "2MiB", "--length", "2MiB", "--json").stdout)
    assert part["process_pages"] == [{"offset": HUGE, "bytes": HUGE, "by": "nothing"}]
    text = run(path, "--pid", str(os.getpid())).stdout
    assert "1 x 2 MiB  from 2 MiB on: not mapped now" in text
    assert ("1 x 2 MiB  from 6 MiB on: at once" in text) == is_huge


def test_a_kernel_that_does_not_tell_entries_is_a_line_of_the_answer(
    mapped: tuple[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_scan(*_: object) -> int:
        raise OSError(errno.ENOTTY, "")

    monkeypatch.setattr(from_process.fcntl, "ioctl", no_scan)
    done = run(mapped[0], "--pid", str(os.getpid()))
    assert done.exit_code == 0 and "by which entries: needs Linux 6.7 or later (PAGEMAP_SCAN)" in done.stdout


def test_runs_of_2_mib_that_are_mapped_alike() -> None:
    now = np.array([from_process.LARGE, from_process.LARGE, from_process.NOTHING], np.uint8)
    assert from_process.runs(now, 5) == [
        {"offset": 5 * HUGE, "bytes": 2 * HUGE, "by": "2 MiB"},
        {"offset": 7 * HUGE, "bytes": HUGE, "by": "nothing"},
    ]
    assert from_process.runs(now[:0]) == []


def test_a_mount_with_dax_is_seen(tmp_path: pathlib.Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    number = os.fstat(descriptor).st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    mounts = tmp_path / "mountinfo"
    for options, dax in (("rw,dax=always", True), ("rw,dax=never", False), ("rw,dax", True), ("rw", False)):
        mounts.write_text(f"22 1 {device} / /mnt rw,relatime shared:1 - xfs /dev/pmem0 {options}\n")
        place = from_file.place_of(descriptor, str(mounts))
        assert (place.fs, place.source, place.dax) == ("xfs", "/dev/pmem0", dax)
    os.close(descriptor)


def test_where_a_partition_begins(tmp_path: pathlib.Path) -> None:
    (tmp_path / "8:1").mkdir()
    (tmp_path / "8:0").mkdir()
    (tmp_path / "8:1" / "start").write_text("2048\n")
    starts = [from_file.device_start(device, str(tmp_path)) for device in ("8:1", "8:0", "0:33")]
    assert starts == [1 << 20, 0, None]


def test_blocks_without_content_are_written_no_further_than_the_file() -> None:
    from scmsim.study.page_size import fix, rules

    place = from_file.Place("ext4", {"dax": "always"}, "/dev/pmem0", "259:0")
    (line,) = fix.advice(np.array([rules.UNWRITTEN]), place, "a b", 0, 0)
    assert "of='a b'" in line and "count=FILE_SIZE" in line
