"""Lines of Valgrind's --trace-syscalls=yes as lines of strace, by hand for every kind of argument."""

import pytest

from scmsim.trace.formats.addresses._valgrind_calls import BEGUN, CHILD, FORKED, LONE, SCHEDULER, Calls
from scmsim.trace.reading.lines import BadLine
from scmsim.trace.syscalls.as_strace import NOT_A_CALL

CWD = 4294967196  # AT_FDCWD, -100, as an unsigned int
CASES = [
    ('sys_open ( 0x1(/d/a "b), 66 )', "0x3", '7 open("/d/a \\042b", O_RDWR|O_CREAT) = 3'),
    (f"sys_openat ( {CWD}, 0x1(/d/a), 0 )", "0x3", '7 openat(AT_FDCWD, "/d/a", O_RDONLY) = 3'),
    ("sys_openat ( 5, 0x1(a), 1, 420 )", "0x3", '7 openat(5, "a", O_WRONLY) = 3'),
    ("sys_openat ( -100, 0x1(a), 0xffffffff80000001 )", "0x3", None),  # flags that no open has
    ("sys_creat ( 0x1(a), 420 )", "0x3", '7 creat("a", 0) = 3'),
    ("sys_truncate ( 0x1(a), 7 )", "0x0", '7 truncate("a", 7) = 0'),
    ("sys_unlink ( 0x1(a) )", "0x0", '7 unlink("a") = 0'),
    ("sys_unlinkat ( 5, 0x1(a) )", "0x0", '7 unlinkat(5, "a", 0) = 0'),
    ("sys_rename ( 0x1(a), 0x2(b) )", "0x0", '7 rename("a", "b") = 0'),
    ("sys_link ( 0x1(a), 0x2(b) )", "Failure(0x11)", '7 link("a", "b") = -1 EEXIST (failed)'),
    (f"sys_renameat2 ( 5, 0x1(a), {CWD}, 0x2(b), 1 )", "0x0", '7 renameat(5, "a", AT_FDCWD, "b") = 0'),
    ("sys_newstat ( 0x1(a), 0x5 )", "0x0", '7 access("a", 0) = 0'),
    ("sys_newfstatat ( 5, 0x1(), 0x7 )", "0x0", "7 fstat(5, 0x0) = 0"),
    ("sys_newlstat ( 0x1(), 0x5 )", "0x0", NOT_A_CALL),
    ("sys_statx ( 5, 0x1(a), 0, 4095, 0x7 )", "0x0", '7 faccessat(5, "a", 0, 0) = 0'),
    ("sys_chdir ( 0x1(/d) )", "0x0", '7 chdir("/d") = 0'), ("sys_chdir ( 0x1(/d) )", "Failure(0x2)", NOT_A_CALL),
    ("sys_newfstat ( 3, 0x5 )", "0x0", "7 fstat(3, 0x0) = 0"),
    ("sys_newfstat ( 0xffffffff, 0x5 )", "0x0", "7 fstat(-1, 0x0) = 0"),
    ("sys_read ( 3, 0x5, 10 )", "0xa", '7 read(3, "", 10) = 10'),
    ("sys_read ( 3, 0x5, 10 )", "Failure(0x4)", "7 read(3, \"\", 10) = -1 EINTR"),
    ("sys_pread64 ( 3, 0x5, 10, 0x14 )", "0xa", '7 pread64(3, "", 10, 20) = 10'),
    ("sys_lseek ( 3, -5, 1 )", "0x7", "7 lseek(3, -5, SEEK_CUR) = 7"),
    ("sys_lseek64 ( 3, 5 )", "0x7", "7 lseek(3, 5, SEEK_SET) = 7"),
    ("sys_mmap2 ( 0x0, 8192, 3, 1, 3, 0 )", "0x7000", "7 mmap(0x0, 8192, PROT_READ|PROT_WRITE, MAP_SHARED, 3, 0x0) = 0x7000"),
    ("sys_close[sync=='x'] ( 3 )", "0x0", "7 close(3) = 0"), ("sys_sync ( )", "0x0", "7 sync() = 0"),
    ("sys_sync ()", "0x0", "7 sync() = 0"),
    ("close ( 3 )", "0x0", "7 close(3) = 0"), ("sys_fcntl ( 3, 1 )", "0xffffffffffffffff", "7 fcntl(3, F_GETFD) = -1 EPERM"),
    ("sys_lseek ( 3, 5, 0 )", "0x7fffffffffffffff", f"7 lseek(3, 5, SEEK_SET) = {(1 << 63) - 1}"),
    ("sys_lseek ( 3, 5, 0 )", "0x8000000000000000", f"7 lseek(3, 5, SEEK_SET) = {-(1 << 63)}"),
    ("sys_sendfile ( 3, 4, 0, 5 )", "0x5", NOT_A_CALL), ("sys_close ( x )", "0x0", NOT_A_CALL),
    ("nothing", "0x0", NOT_A_CALL),
    ("sys_open ( 0x1, 66 )", "0x3", None),
]  # fmt: skip


@pytest.mark.parametrize(("call", "result", "text"), CASES)
def test_calls(call: str, result: str, text: str | None) -> None:
    """Each in one line, and in the two lines of a call that may block."""
    ends = result if result.startswith("Failure") else f"Success({result})"
    whole, halves = Calls(), Calls()
    line = f"SYSCALL[7,1](  2) {call}[sync] --> {ends} "
    first, second = f"SYSCALL[7,1](  2) {call} --> [async] ... ", f"SYSCALL[7,1](  2) ... [async] --> {ends} "
    assert halves.take(first) == BEGUN
    if text is None:
        for calls, last in ((whole, line), (halves, second)):
            with pytest.raises(BadLine):
                calls.take(last)
    else:
        assert whole.take(line) == halves.take(second) == text
    assert halves.take(second) == LONE


def test_threads_and_children() -> None:
    calls = Calls()
    assert calls.task() == "1" and calls.take("--7-- SCHED[2]:  acquired lock (x)") == SCHEDULER and calls.thread == "1"
    assert calls.take("SYSCALL[7,1](3) sys_close ( 3 ) --> [pre-success] Success(0x0)") == "7 close(3) = 0"
    assert calls.take("--8-- SCHED[3]:  acquired lock (x)") == SCHEDULER and calls.thread == "1"
    assert calls.take("--7-- SCHED[2]:  acquired lock (x)") == SCHEDULER and calls.task() == "5000002"
    assert calls.take("SYSCALL[7,3](3) sys_close ( 3 ) --> [pre-success] Success(0x0)") == "5000003 close(3) = 0"
    assert calls.take("SYSCALL[9,1](3) sys_close ( 3 ) --> [pre-success] Success(0x0)") == CHILD
    assert calls.take("SYSCALL[9,1](56) sys_clone ( 0 ) --> [pre-success] Success(0x5)") == CHILD
    assert (calls.children, calls.started, calls.process) == (2, 0, "7")


def test_a_half_waits_for_its_own_thread() -> None:
    calls = Calls()
    assert calls.take("SYSCALL[7,1](0) sys_read ( 3, 0x5, 1 ) --> [async] ... ") == BEGUN
    assert calls.take("SYSCALL[7,2](0) sys_read ( 4, 0x5, 2 ) --> [async] ... ") == BEGUN
    assert calls.take("SYSCALL[7,1](0) ... [async] --> Success(0x1) ") == '7 read(3, "", 1) = 1'
    assert calls.take("SYSCALL[7,2](0) ... [async] --> Success(0x2) ") == '5000002 read(4, "", 2) = 2'


def test_forks_are_counted_if_they_worked() -> None:
    calls = Calls()
    for name, end in (
        ("clone", "Success(0x0)"),
        ("execve", "Failure(0x2)"),
        ("fork", "Success(0x9)"),
        ("vfork", "Failure(0x1)"),
    ):
        assert calls.take(f"SYSCALL[7,1](56) sys_{name} ( 0 ) --> [pre-success] {end}") == FORKED
    assert calls.started == 2


def test_lines_that_are_no_calls() -> None:
    calls = Calls()
    for line in ("--7-- x", "==7== x", " --> [pre-fail] Failure(0x9)", "", "   "):
        assert calls.take(line) == SCHEDULER
    assert calls.take("7 close(3) = 0") == "7 close(3) = 0"
    for line in ("SYSCALL[7](3) sys_close", "what", " L 10,4"):
        with pytest.raises(BadLine):
            calls.take(line)
