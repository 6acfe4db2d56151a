"""Forms of lines that public straces have: old names, numbers in place of names, output of the program inside a call's line."""

from pathlib import Path

import pytest

from scmsim.trace.syscalls import mixed
from scmsim.trace.syscalls.importer import LOST_FD, NOT_A_FILE_OPERATION, UNKNOWN_FD
from scmsim.trace.syscalls.text import OUTPUT, OUTPUT_LINE
from tests.trace.strace_helper import Case, convert

F = 'open("/d/f", O_RDWR|O_CREAT|O_EXCL, 0644) = 3'
W = 'write(3, "ab", 2)                       = 2'


def case_of(folder: Path, *lines: str) -> Case:
    """Convert lines without a process and a time."""
    source = folder / "in.txt"
    source.write_text("\n".join(lines) + "\n")
    return convert(source, folder)


@pytest.mark.parametrize(
    "line",
    [
        "set_tls(0xb6f334c0, 0xb6f33bb8, 0xb6f3b048) = 0",
        'send(4, "GET /", 5, MSG_NOSIGNAL)       = 5',
        'recv(4, "200", 16, 0)                   = 3',
        "ipc_subcall(0xffffffff, 0x1f5, 0, 0)    = 0",
        "SYS_199(0x4019, 0, 0x4019, 0x4019, 0)   = 501",
        "_exit(0)                                = ?",
    ],
)
def test_harmless_calls_of_i386_arm_and_old_straces(tmp_path: Path, line: str) -> None:
    report = case_of(tmp_path, F, line, W).report
    assert (report.bad, report.lost_rows, report.uncertain_rows, report.blind_spots) == (0, 0, 0, [])


def test_old_mmap_is_a_mapping(tmp_path: Path) -> None:
    private = "old_mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3, 0) = 0x40015000"
    memory = "old_mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x40019000"
    case = case_of(tmp_path, F, private, memory, "munmap(0x40015000, 8192) = 0")
    assert [(row.op, row.length) for row in case.rows[1:]] == [("mmap", 8192), ("munmap", 8192)]
    assert case.report.lost_rows == 0 and case.report.blind_spots == []


def test_numbers_in_place_of_names(tmp_path: Path) -> None:
    """Below 280 every strace for x86-64 knows the name, so the number is one of i386; above, another call tells."""
    cut = case_of(tmp_path, F, "SYS_194(0x3, 0, 0x100000, 0, 0x3)       = 0", W)
    assert cut.report.bad_lines == [
        (2, "the arguments or the result of ftruncate64 are not complete or not of a known form")
    ]
    assert cut.report.uncertain_rows == 1
    event = "SYS_328(0, 0x80800, 0x269ff4)           = 4"
    on_event = 'write(4, "12345678", 8)                 = 8'
    assert case_of(tmp_path, "mmap2(NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x40019000", F, event,
                   on_event, W).report.lost_rows == 0  # fmt: skip
    assert case_of(tmp_path, F, event, W).report.bad == 1  # x86-64: pwritev2


WROTE = 'write(1, "one\\ntwo\\n", 8'


def test_output_of_the_program_inside_its_call(tmp_path: Path) -> None:
    lines = [F, WROTE + "one", "two", ")              = 8", 'write(2, "three", 5three)               = 5', W]
    report = case_of(tmp_path, *lines).report
    assert (report.bad, report.lost_rows, report.uncertain_rows) == (0, 0, 0)
    assert report.left_out[OUTPUT] == 2 and report.left_out[UNKNOWN_FD] == 2 and report.calls == 2
    to_file = case_of(
        tmp_path, F, 'write(3, "mkdir(0, 7) "..., 30mkdir(0, 7) and more text', "and yet more", ") = 30", W
    )
    assert [(row.op, row.offset, row.length) for row in to_file.rows[1:]] == [("write", 0, 30), ("write", 30, 2)]


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ('write(1, "one\\r\\ntwo\\r\\n", 10one', ") = 10"),
        ('writev(2, [{iov_base="one ", iov_len=4}, {iov_base="two\\n", iov_len=4}], 2one two', ")              = 8"),
        ('writev(2, [{iov_base="7 one", iov_len=5}, {iov_base="\\n", iov_len=1}], 27 one', ")              = 6"),
        ('write(1, "\\nnext"..., 40', ") = 40"),
        ('write(1</dev/pts/0>, ""..., 17any text', ")    = 17"),
        ('[pid    7] write(1, "\\303\\251\\n", 3\u00e9', ")    = 3"),
    ],
)
def test_forms_of_output(first: str, last: str) -> None:
    encoded = first.encode().decode("latin-1")
    assert mixed.joined([encoded, "more", last])[1:] == [OUTPUT_LINE] * 2


def test_old_forms_around_output(tmp_path: Path) -> None:
    lines = [F, "shmat(255, 0xbffff700, 0x2ptrace: umoven: Input/output error", ")             = ?",
             "wait4(-1, a line", "another", "[WIFEXITED(s) && WEXITSTATUS(s) == 0], 0, NULL) = 2246", W]  # fmt: skip
    report = case_of(tmp_path, *lines).report
    assert (report.bad, report.lost_rows, report.uncertain_rows, report.left_out[OUTPUT]) == (0, 0, 0, 3)


def test_output_of_a_child_and_typed_text(tmp_path: Path) -> None:
    lines = [F, "wait4(-1, sh: no such file", "[{WIFEXITED(s) && WEXITSTATUS(s) == 1}], 0, NULL) = 70160",
             "read(0, hello", '"hello\\n", 1024)                 = 6', "poll([{fd=4, events=POLLIN}], 1, -1", "a line",
             ") = 1 ([{fd=4, revents=POLLIN}])", W]  # fmt: skip
    report = case_of(tmp_path, *lines).report
    assert (report.bad, report.lost_rows, report.uncertain_rows) == (0, 0, 0)
    assert report.left_out[OUTPUT] == 4 and report.left_out[NOT_A_FILE_OPERATION] == 2


@pytest.mark.parametrize(
    "lines",
    [
        [WROTE + "one", W, ") = 8"],  # a call between the two
        [WROTE + "another", ") = 8"],  # not what it wrote
        [WROTE + "one", "two", ") = 7"],  # not as much
        ["fsync(3", ") = 0"],
        ['pwrite64(1, "one\\n", 4, 0', ") = 4"],  # its last number is the offset
        ["not a call", ") = 8"],
        [") = 8"],
        ['"hello", 10) = 5'],
    ],
)
def test_what_is_not_output_stays(lines: list[str]) -> None:
    assert mixed.joined(lines) == lines


@pytest.mark.parametrize(
    "text",
    [
        "pwritev2(10, [...], 2, -1, 0x10) = 8",
        'pwrite64(3, ""..., 100, 4096) = 100',
        'write(3, "ab", 2) = 2',
        'write(3, "ab", 7xy) = 2',
    ],
)
def test_complete_calls_have_no_output(text: str) -> None:
    assert mixed.without_output(text, text.index("(") + 1) == text


def test_output_that_has_the_form_of_calls() -> None:
    lines = ['write(1, "f(\\ng(\\n"..., 99f(', "g(", "h(1)", ")  = 99"]
    assert mixed.joined(lines) == ['write(1, "f(\\ng(\\n"..., 99)  = 99', *[OUTPUT_LINE] * 3]


def test_lines_before_the_first_call_put_nothing_in_doubt(tmp_path: Path) -> None:
    report = case_of(tmp_path, "# strace ./program", F, W).report
    assert (report.bad, report.lost_rows, report.uncertain_rows, report.left_out[LOST_FD]) == (1, 1, 0, 0)


def test_processes_that_are_not_followed_are_a_blind_spot(tmp_path: Path) -> None:
    clone = "clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD, child_tidptr=0x7f) = 102"
    said = "1 processes or threads that were started and not followed (strace -f follows them)"
    assert case_of(tmp_path, F, "fork()                                  = 2246", W).report.blind_spots == [said]
    assert case_of(tmp_path, "Process 7 attached", F, clone, W).report.blind_spots == [said]
    followed = [F, clone, '[pid   102] write(3, "abc", 3)      = 3', W]
    assert case_of(tmp_path, *followed).report.blind_spots == []
    assert case_of(tmp_path, F, clone, "strace: Process 102 attached", W).report.blind_spots == []
    numbered = ["7 " + F, "7 " + clone, "7 " + W]  # -f -o: the child may have made no call
    assert case_of(tmp_path, *numbered).report.blind_spots == []


def test_a_stat_says_what_a_received_descriptor_is(tmp_path: Path) -> None:
    message = (
        "recvmsg(9, {msg_control=[{cmsg_len=20, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, cmsg_data=[8]}]}, 0) = 1"
    )
    device, regular = (
        f'newfstatat(8, "", {{st_mode={kind}|0660, st_size=0}}, AT_EMPTY_PATH) = 0' for kind in ("S_IFCHR", "S_IFREG")
    )
    on_it = [
        W,
        'write(8, "ab", 2)                       = 2',
        "fcntl(8, F_DUPFD_CLOEXEC, 3) = 10",
        'write(10, "ab", 2) = 2',
    ]
    assert case_of(tmp_path, F, message, device, *on_it).report.lost_rows == 0
    assert case_of(tmp_path, F, message, regular, *on_it).report.lost_rows == 3


def test_a_damaged_line_after_a_finished_split_call_is_a_bad_line(tmp_path: Path) -> None:
    start, rest, damaged = "7 futex(0x1, FUTEX_WAIT <unfinished ...>", "7 <... futex resumed>) = 0", '7 "ab", 2) = 2'
    assert case_of(tmp_path, "7 " + F, start, rest, damaged).report.bad_lines == [(4, "this is not a line of strace")]
    assert case_of(tmp_path, "7 " + F, start, "7 ) = 0").report.bad == 0  # -z can leave out the head of the second half


def test_a_message_before_the_first_time_stamp_is_no_jump(tmp_path: Path) -> None:
    case = case_of(tmp_path, "strace: Process 7 attached", "", "12:00:00.500000 " + F, "12:00:01.000000 " + W)
    assert case.records["time_ns"].tolist() == [0, 500_000_000] and "jumped" not in str(case.report.notes)


def test_a_grandchild_that_runs_before_its_fork_returns(tmp_path: Path) -> None:
    """The first process has no number and waits, in a call without a row: a number that is new is not its own."""
    lines = [F, "clone(flags=SIGCHLD)                    = 7", "wait4(7,  <unfinished ...>",
             "[pid     7] clone(flags=SIGCHLD <unfinished ...>", '[pid     8] write(3, "abc", 3)      = 3',
             "[pid     7] <... clone resumed>)        = 8", "[pid     8] exit_group(0)           = ?",
             "[pid     7] exit_group(0)           = ?", "<... wait4 resumed>NULL, 0, NULL)       = 7", W]  # fmt: skip
    case = case_of(tmp_path, *lines)
    assert [(row.op, row.offset, row.length) for row in case.rows[1:]] == [("write", 0, 3), ("write", 3, 2)]
    assert case.records["thread"].tolist() == [0, 1, 0] and case.report.unknown_offsets == 0
