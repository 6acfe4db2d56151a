"""Pairing of strace and perf, on text: needs neither of them."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.errors import EnvironmentProblem
from scmsim.trace.capture._merge import Merge, StraceCalls
from scmsim.trace.capture.perf import Nameless
from scmsim.trace.syscalls.from_numbers import NEEDS_MEMORY, arguments, result
from scmsim.trace.syscalls.handlers import CALLS, SPECS
from scmsim.trace.syscalls.numbers import names
from tests.trace.strace_helper import Row, convert

NAMES = names("x86_64")
NUMBER = {name: number for number, name in NAMES.items()}
FD_FLAGS = 0o102


class Events:
    """Writes events as `perf script` prints them, a microsecond apart."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, tid: int, text: str, pid: int = 10) -> None:
        self.lines.append(f"{pid:>6}/{tid} {100 + len(self.lines) // 10**6}.{len(self.lines):06d}123: {text}\n")

    def enter(self, tid: int, name: str, *args: int, pid: int = 10) -> None:
        registers = ", ".join(f"{value:x}" for value in (*args, *[0] * (6 - len(args))))
        self.add(tid, f"raw_syscalls:sys_enter: NR {NUMBER[name]} ({registers})", pid)

    def leave(self, tid: int, name: str, value: int, pid: int = 10) -> None:
        self.add(tid, f" raw_syscalls:sys_exit: NR {NUMBER[name]} = {value}", pid)

    def call(self, tid: int, name: str, value: int, *args: int, pid: int = 10) -> None:
        self.enter(tid, name, *args, pid=pid)
        self.leave(tid, name, value, pid)


def merged(events: Events, strace: Sequence[str], root: int = 10) -> tuple[list[str], Merge]:
    """The text without its times, and the merge."""
    calls = StraceCalls(f"{line.split(' ', 1)[0]} 1700000000.000000 {line.split(' ', 1)[1]}\n" for line in strace)
    merge = Merge(NAMES, calls, 1_700_000_000, [root])
    lines = list(merge.lines(events.lines))
    stamps = [line.split(" ")[1] for line in lines]
    assert stamps == sorted(stamps)
    merge.report.unpaired += calls.left()
    return [re.sub(r"^(\d+) \S+ ", r"\1 ", line.rstrip("\n")) for line in lines], merge


def rows(folder: Path, lines: Sequence[str]) -> list[Row]:
    text = folder / "merged.txt"
    text.write_text("".join(f"{line.split(' ', 1)[0]} 1700000000.000000 {line.split(' ', 1)[1]}\n" for line in lines))
    return convert(text, folder).rows


def test_data_calls_between_opens_get_the_right_file(tmp_path: Path) -> None:
    events = Events()
    events.leave(10, "execve", 0)  # its beginning still had the name strace and was filtered
    events.call(10, "openat", -2, 0xFFFFFF9C, 1, 0)
    events.call(10, "openat", 3, 0xFFFFFF9C, 1, FD_FLAGS)
    events.call(10, "pwrite64", 4096, 3, 0x7F00, 4096, 8192)
    events.call(10, "close", 0, 3)
    events.call(10, "openat", 3, 0xFFFFFF9C, 1, FD_FLAGS)
    events.call(10, "write", 10, 3, 0x7F00, 10)
    lines, merge = merged(
        events,
        [
            '10 execve("/bin/x", ["x"], 0x7ffd /* 9 vars */) = 0 <0.000100>',
            '10 openat(AT_FDCWD</d>, "no", O_RDONLY) = -1 ENOENT (No such file or directory) <0.000100>',
            '10 openat(AT_FDCWD</d>, "one", O_RDWR|O_CREAT, 0644) = 3</d/one> <0.000100>',
            '10 openat(AT_FDCWD</d>, "two", O_RDWR|O_CREAT, 0644) = 3</d/two> <0.000100>',
            "10 +++ exited with 0 +++",
        ],
    )
    assert (merge.report.paired, merge.report.plain, merge.report.unpaired) == (4, 3, 0)
    writes = [(row.path, row.offset, row.length) for row in rows(tmp_path, lines) if row.op == "write"]
    assert writes == [("/d/one", 8192, 4096), ("/d/two", 0, 10)]


def test_a_child_is_known_before_its_first_call_and_strangers_are_left_out() -> None:
    events = Events()
    events.call(99, "write", 5, 1, 0x7F00, 5, pid=99)  # another process
    events.enter(10, "clone3", 0x7F00, 88)
    events.leave(11, "clone3", 0, pid=11)  # the child returns first
    events.call(11, "fsync", 0, 3, pid=11)
    events.leave(10, "clone3", 11)
    events.add(11, "sched:sched_process_exit: comm=x pid=11 prio=120", 11)
    events.call(11, "fsync", 0, 4, pid=11)  # a new process with the old number
    lines, merge = merged(events, ["10 clone3({flags=CLONE_VM|CLONE_FILES}, 88) = 11 <0.000100>"])
    assert lines == [
        "10 clone3({flags=CLONE_VM|CLONE_FILES}, 88) = 11 <0.000100>",
        "11 fsync(3) = 0",
        "11 +++ exited with 0 +++",
    ]
    assert merge.report.unpaired == 0


def test_a_close_is_split_only_where_something_happens_in_it() -> None:
    events = Events()
    events.enter(10, "clone", 0x50F00)
    events.leave(10, "clone", 12)
    events.call(10, "close", 0, 3)
    events.enter(10, "close", 4)
    events.call(12, "fsync", 0, 5)
    events.leave(10, "close", -9)
    lines, _ = merged(events, ["10 clone(child_stack=0x7f, flags=CLONE_FILES) = 12 <0.000100>"])
    assert lines[1:] == [
        "10 close(3) = 0",
        "10 close(4 <unfinished ...>",
        "12 fsync(5) = 0",
        "10 <... close resumed>) = -1 EBADF",
    ]


def test_split_calls_of_strace_are_joined_and_found_out_of_order() -> None:
    events = Events()
    events.enter(10, "clone", 0)
    events.leave(10, "clone", 12)
    events.call(12, "unlink", 0, 1)
    events.call(10, "unlink", -2, 1)
    events.call(10, "mkdir", 0, 1)
    lines, merge = merged(
        events,
        [
            "10 clone(child_stack=NULL, flags=SIGCHLD) = 12 <0.000100>",
            '10 unlink("a" <unfinished ...>',
            "10 <... unlink resumed>) = -1 ENOENT (No such file or directory) <0.000100>",
            '10 symlink("x", "y") = 0 <0.000100>',  # perf lost this one
            '10 mkdir("m", 0777 <unfinished ...>',
            '12 unlink("b") = 0 <0.000100>',
            "10 <... mkdir resumed>) = 0 <0.000100>",
        ],
    )
    assert [line.split(" <0")[0] for line in lines[1:]] == [
        '12 unlink("b") = 0',
        '10 unlink("a") = -1 ENOENT (No such file or directory)',
        '10 mkdir("m", 0777) = 0',
    ]
    assert merge.report.unpaired == 1


def test_the_results_tell_which_of_two_calls_was_lost() -> None:
    events = Events()
    events.call(10, "mkdir", 0, 1)
    lines, merge = merged(
        events, ['10 mkdir("there", 0777) = -1 EEXIST (File exists) <0.0>', '10 mkdir("new", 0777) = 0 <0.0>']
    )
    assert lines == ['10 mkdir("new", 0777) = 0 <0.0>'] and merge.report.unpaired == 1


def test_an_execve_of_a_thread_ends_under_the_number_of_the_process() -> None:
    events = Events()
    events.enter(10, "clone", 0)
    events.leave(10, "clone", 12)
    events.enter(12, "execve", 1, 2, 3)
    events.leave(10, "execve", 0)
    strace = [
        "10 clone(flags=CLONE_VM|CLONE_THREAD) = 12 <0.000100>",
        '12 execve("/bin/y", ["y"], 0x7f <unfinished ...>',
        "12 +++ superseded by execve in pid 10 +++",
        "10 <... execve resumed>) = 0 <0.000100>",
    ]
    lines, merge = merged(events, strace)
    assert lines[-1] == '10 execve("/bin/y", ["y"], 0x7f) = 0 <0.000100>' and merge.report.unpaired == 1 - 1


def test_a_32_bit_program_is_refused() -> None:
    events = Events()
    events.call(10, "unlink", 0, 1)
    with pytest.raises(EnvironmentProblem, match="32-bit"):
        merged(events, ["10 [ Process PID=10 runs in 32 bit mode. ]"])


def test_page_faults_and_dax_faults() -> None:
    events = Events()
    events.add(10, "exceptions:page_fault_user: address=0x7f5b2b2f7000 ip=0x7f5b2bbaf8bb error_code=0x6")
    events.add(10, "exceptions:page_fault_user: address=0x7f5b2b30c024 ip=0x7f5b2bbaf670 error_code=0x4")
    events.add(
        10, "fs_dax:dax_pmd_fault_done: dev 259:0 ino 0xc shared WRITE address 0x7f vm_start 0x7f pgoff 0x0 NOPAGE"
    )
    lines, merge = merged(events, ["10 unlink(1) = 0 <0.000100>"])
    assert lines == ["10 page_fault(0x7f5b2b2f7000, FAULT_WRITE) = 0", "10 page_fault(0x7f5b2b30c024, FAULT_READ) = 0"]
    assert merge.report.dax == {"pmd NOPAGE": 1}


def test_a_page_fault_is_tied_to_its_file_and_a_private_page_is_only_read(tmp_path: Path) -> None:
    mapping = "PROT_READ|PROT_WRITE, MAP_{}, 3, 0x1000) = 0x{}000"
    case = rows(
        tmp_path,
        [
            '10 openat(AT_FDCWD, "/d/f", O_RDWR) = 3',
            "10 mmap(NULL, 8192, " + mapping.format("SHARED", 10),
            "10 mmap(NULL, 8192, " + mapping.format("PRIVATE", 20),
            "10 page_fault(0x10805, FAULT_WRITE) = 0",
            "10 page_fault(0x11000, FAULT_READ) = 0",
            "10 page_fault(0x20004, FAULT_WRITE) = 0",
            "10 page_fault(0x30000, FAULT_WRITE) = 0",
            "10 munmap(0x10000, 4096) = 0",
            "10 page_fault(0x10805, FAULT_WRITE) = 0",
        ],
    )
    touches = [(row.op, row.offset, row.length) for row in case if row.op in ("load", "store")]
    assert touches == [("store", 0x1805, 1), ("load", 0x2000, 1), ("load", 0x1004, 1)]


@pytest.mark.parametrize(
    ("name", "args", "value", "text"),
    [
        ("pread64", (3, 0x7F, 0x1000, 0x27DC000), 4096, 'pread64(3, "", 4096, 41795584) = 4096'),
        ("preadv2", (3, 0x7F, 2, (1 << 64) - 1, 0, 0), 7, "preadv2(3, 0x7f, 2, -1, 0) = 7"),
        ("pwritev2", (3, 0x7F, 2, 512, 0, 18), 7, "pwritev2(3, 0x7f, 2, 512, RWF_DSYNC|RWF_APPEND) = 7"),
        ("lseek", (3, (1 << 64) - 5, 2), 95, "lseek(3, -5, SEEK_END) = 95"),
        ("mmap", (0, 8192, 3, 1, 4, 4096), 0x7F0000, "mmap(0x0, 8192, PROT_READ|PROT_WRITE, MAP_SHARED, 4, 0x1000) = 0x7f0000"),
        ("mmap", (0, 4096, 0, 0x22, (1 << 32) - 1, 0), -12, "mmap(0x0, 4096, 0, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0x0) = -1 ENOMEM"),
        ("fcntl", (3, 4, 0o2000), 0, "fcntl(3, F_SETFL, O_RDONLY|O_APPEND) = 0"),
        ("fcntl", (3, 3), 0o102001, "fcntl(3, F_GETFL) = 0x8401 (flags O_WRONLY|O_APPEND)"),
        ("fcntl", (3, 1030, 0), 4, "fcntl(3, F_DUPFD_CLOEXEC, 0) = 4"),
        ("fallocate", (3, 3, 0, 65536), 0, "fallocate(3, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 0, 65536) = 0"),
        ("close_range", (3, (1 << 32) - 1, 4), 0, "close_range(3, 4294967295, CLOSE_RANGE_CLOEXEC) = 0"),
        ("dup3", (3, 5, 0o2000000), 5, "dup3(3, 5, O_CLOEXEC) = 5"),
        ("read", (3, 0x7F, 10), -512, 'read(3, "", 10) = ? ERESTARTSYS'),
        ("msync", (0x7F000, 4096, 4), 0, "msync(0x7f000, 4096, MS_SYNC) = 0"),
    ],
)  # fmt: skip
def test_numbers_become_the_words_of_strace(name: str, args: tuple[int, ...], value: int, text: str) -> None:
    registers = [*args, *[0] * (6 - len(args))]
    line = f"{name}({arguments(name, registers)}) = {result(name, value, registers)}"
    assert line == text
    assert value < 0 or SPECS[name].match(line, len(name) + 1) is not None


def test_every_call_that_perf_writes_is_one_that_the_importer_understands() -> None:
    for name in set(CALLS) & set(NUMBER) - NEEDS_MEMORY:
        spec = SPECS.get(name)
        line = f"{name}({arguments(name, [3, 4096, 4096, 0, 0, 0])}) = {result(name, 5, [3, 0, 0, 0, 0, 0])}"
        assert spec is None or spec.match(line, len(name) + 1) is not None, line


def test_perf_alone_reads_a_real_recording(tmp_path: Path) -> None:
    """Real output of perf 6.1: 200,000 random pwrite of 4 KiB began; the first fifty lines or so."""
    text = (Path(__file__).parents[2] / "data" / "perf" / "raw_syscalls.txt").read_text()
    tid = int(text.split("/")[0])
    merge = Merge(NAMES, Nameless(), 1_700_000_000, [tid])
    out = tmp_path / "merged.txt"
    out.write_text("".join(merge.lines(text.splitlines(keepends=True))))
    case = convert(out, tmp_path)
    writes = [(row.offset, row.length) for row in case.rows if row.op == "write"]
    wanted = re.findall(r"sys_enter: NR 18 \(\w+, \w+, (\w+), (\w+),", text)
    assert len(writes) > 5 and case.report.bad == 0
    assert writes == [(int(at, 16), int(length, 16)) for length, at in wanted][: len(writes)]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_interleaving_of_threads_pairs_completely(data: st.DataObject) -> None:
    """Threads make calls of both kinds; the two recordings list them in their own order between threads."""
    tids = [10, 11, 12]
    plans = {tid: data.draw(st.lists(st.sampled_from(["unlink", "mkdir", "fsync"]), max_size=8)) for tid in tids}
    results = {tid: [data.draw(st.sampled_from([0, -2])) for _ in plan] for tid, plan in plans.items()}
    events, strace = Events(), ["10 clone(flags=CLONE_VM) = 11 <0.0>", "10 clone(flags=CLONE_VM) = 12 <0.0>"]
    for child in tids[1:]:
        events.call(10, "clone", child, 0)
    for text in (False, True):  # perf's order, then strace's
        at = dict.fromkeys(tids, 0)
        while left := [tid for tid in tids if at[tid] < len(plans[tid])]:
            tid = data.draw(st.sampled_from(left))
            name, value = plans[tid][at[tid]], results[tid][at[tid]]
            if not text:
                events.call(tid, name, value, 1)
            elif name in NEEDS_MEMORY:
                strace.append(
                    f'{tid} {name}("{tid}-{at[tid]}") = ' + ("0 <0.0>" if value == 0 else "-1 ENOENT (x) <0.0>")
                )
            at[tid] += 1
    lines, merge = merged(events, strace)
    assert merge.report.unpaired == 0 and len(lines) == 2 + sum(map(len, plans.values()))
    for tid in tids:
        mine = [line.split(" ", 1)[1] for line in lines[2:] if line.startswith(f"{tid} ")]
        assert [line.split("(")[0] for line in mine] == plans[tid]
        assert [f"{tid}-{i}" in line for i, line in enumerate(mine)] == [name in NEEDS_MEMORY for name in plans[tid]]


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet='0123456789 .<>()="?-xabnlink\\n', max_size=120), st.integers(0, 200))
def test_damaged_text_of_strace_never_crashes(noise: str, at: int) -> None:
    events = Events()
    for name in ("unlink", "mkdir"):
        events.call(10, name, 0, 1)
    text = '10 1700000000.000000 unlink("a") = 0 <0.000100>\n10 1700000000.000000 mkdir("m", 0777) = 0 <0.0>\n'
    calls = StraceCalls(f"{text[:at]}{noise}{text[at:]}".splitlines(keepends=True))
    assert len(list(Merge(NAMES, calls, 0, [10]).lines(events.lines))) <= 2
    calls.left()


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 300))
def test_damaged_text_of_perf_never_crashes(noise: bytes, at: int) -> None:
    events = Events()
    events.call(10, "openat", 3, 0xFFFFFF9C, 1, FD_FLAGS)
    events.call(10, "pwrite64", 4096, 3, 0x7F00, 4096, 8192)
    text = "".join(events.lines)
    damaged = text[:at] + noise.decode("latin-1") + text[at:]
    merge = Merge(NAMES, Nameless(), 0, [10])
    assert len(list(merge.lines(damaged.splitlines(keepends=True)))) <= 4
