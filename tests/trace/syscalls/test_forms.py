"""Every form of strace's text gives the rows of the usual form; the small texts were written after strace 4.6 to 6.1."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.trace.strace_helper import convert

FORK = "clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD, child_tidptr=0x7f00000009d0)"
USUAL = f"""\
100 openat(AT_FDCWD, "/w/out", O_WRONLY|O_CREAT|O_TRUNC, 0644) = 3
100 {FORK} = 101
100 write(3, "abc", 3) = 3
101 write(3, "defg", 4) = 4
101 exit_group(0) = ?
101 +++ exited with 0 +++
100 write(3, "hijkl", 5) = 5
100 lseek(3, -2, SEEK_END) = 10
100 fcntl(3, F_SETFL, O_WRONLY|O_APPEND) = 0
100 write(3, "mn", 2) = 2
100 fallocate(3, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 0, 4096) = 0
100 mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 3, 0) = 0x7f0000001000
100 msync(0x7f0000001000, 4096, MS_SYNC) = 0
100 newfstatat(AT_FDCWD, "/w", {{st_mode=S_IFDIR|0755, st_size=4096, ...}}, 0) = 0
100 openat(AT_FDCWD, "/w/none", O_RDONLY) = -1 ENOENT (No such file or directory)
100 unlinkat(AT_FDCWD, "/w/d", AT_REMOVEDIR) = 0
100 renameat2(AT_FDCWD, "/w/a", AT_FDCWD, "/w/b", RENAME_EXCHANGE) = 0
100 close(3) = 0
"""
NUMBERS = {
    "O_WRONLY|O_CREAT|O_TRUNC": "0x241", "O_WRONLY|O_APPEND": "0x401", "F_SETFL": "0x4", "SEEK_END": "0x2", "O_RDONLY": "0",
    "FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE": "0x3", "PROT_READ|PROT_WRITE": "0x3", "MAP_SHARED": "0x1", "MS_SYNC": "0x4",
    "AT_FDCWD": "-100", "AT_REMOVEDIR": "0x200", "RENAME_EXCHANGE": "0x2",
}  # fmt: skip


def terminal(text: str) -> str:
    """As strace prints it without -o: the first task has a number only while a second one lives."""
    lines, alive = [], 1
    for line in text.splitlines():
        pid, body = line.split(" ", 1)
        lines.append(f"[pid {pid:>5}] {body}" if alive > 1 else body)
        if "clone(" in body:
            alive += 1
            lines.append("strace: Process 101 attached")
        alive -= "+++ exited" in body
    return "\n".join(lines) + "\n"


def leader(form: str) -> Any:
    """Insert `form` between the process and the call of each line; {n} is the number of the line."""

    def insert(text: str) -> str:
        lines = text.splitlines()
        return "".join(
            line.replace(" ", " " + form.format(n=i, m=f"{i:06}") + " ", 1) + "\n" for i, line in enumerate(lines)
        )

    return insert


def raw(text: str) -> str:
    for word, number in NUMBERS.items():
        text = re.sub(rf"(?<![\w|]){re.escape(word)}(?![\w|])", number, text)
    return text.replace("CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD", "0x1200000|17").replace(
        "S_IFDIR|0755", "040755"
    )


def verbose(text: str) -> str:
    for word, number in NUMBERS.items():
        text = re.sub(rf"(?<![\w|]){re.escape(word)}(?![\w|])", f"{number} /* {word} */", text)
    return text.replace("S_IFDIR|0755", "040755 /* S_IFDIR|0755 */")


def in_call(message: str) -> Any:
    """Print a message of strace inside the fork."""
    return lambda text: text.replace("clone(", f"clone({message}\n", 1)


FORMS = {
    "terminal": terminal,
    "strace 4": lambda text: in_call("Process 101 attached (waiting for parent)\nProcess 101 resumed (parent 100 ready)")(
        terminal(text).replace("strace: Process 101 attached\n", "").replace("+++ exited with 0 +++", "Process 101 detached")
    ),
    "message in the fork": in_call("strace: Process 101 attached"),
    "message by path": in_call("/usr/bin/strace: Process 101 attached"),
    "unfinished after a message": lambda text: text.replace(
        FORK, "clone(strace: Process 101 attached\n <unfinished ...>\n100 <... clone resumed>" + FORK[6:]
    ),
    "message after the resumption": lambda text: text.replace(
        FORK, f"{FORK[:-1]} <unfinished ...>\n100 <... clone resumed>strace: Process 101 attached\n)"
    ),
    "pid cut by a message": lambda text: text.replace("101 write", "[pid   101] strace: Process 9 attached\nwrite"),
    "output in a write": lambda text: text.replace("3) = 3", "3abc) = 3").replace("4) = 4", "4defg\nx\n) = 4"),
    "-n -i": leader("[ 257] [00007f542b941011]"),
    "-i of an exit": leader("[????????????????]"),
    "-ttt": leader("1700000000.{m}"),
    "-ttt, seconds": leader("1700000000"),
    "-tt -r": leader("12:00:00.{m} (+     0.000001)"),
    "-t": leader("12:00:00"),
    "-r": leader("     0.{m}"),
    "-r, seconds": leader("     0"),
    "-Y": lambda text: re.sub(r"^(\d+)", r"\1<my prog>", text, flags=re.M).replace(" = 101", " = 101<my prog>"),
    "-Y, terminal": lambda text: re.sub(r"\[pid (.*?)\]", r"[pid \1<p>]", terminal(text)),
    "-X raw": raw,
    "-X raw, terminal": lambda text: terminal(raw(text)),
    "-X verbose": verbose,
    "namespace": lambda text: text.replace(" = 101", " = 2"),
    "namespace, comment": lambda text: text.replace(" = 101", " = 2 /* 101 in strace's PID NS */"),
    "-T": lambda text: re.sub(r"( = \d+)$", r"\1 <0.000012345>", text, flags=re.M),
    "-k": lambda text: re.sub("$", "\n > /lib/libc.so.6(__write+0x14) [0xf7244]\n", text, flags=re.M),
    "-e write": lambda text: text.replace("= 3\n", "= 3\n | 00000  61 62 63                  abc              |\n"),
    "-C": lambda text: text + "% time     seconds  usecs/call     calls    errors syscall\n"
    "------ ----------- ----------- --------- --------- ----------------\n"
    "  0.00    0.000000           0         3           write\n100.00    0.000000           0        17           total\n",
}  # fmt: skip


def rows(text: str, folder: Path) -> tuple[list[Any], Any]:
    (folder / "text").write_text(text)
    case = convert(folder / "text", folder)
    return [(*row, int(thread)) for row, thread in zip(case.rows, case.records["thread"], strict=True)], case.report


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("short", [1, 1 << 20])
def test_a_form_gives_the_usual_rows(form: str, short: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scmsim.trace.syscalls.conversion._SHORT", short)
    wanted, _ = rows(USUAL, tmp_path)
    found, report = rows(FORMS[form](USUAL), tmp_path)
    assert found == wanted and report.bad == 0
    assert [row[2:4] for row in found if row[0] == "write"] == [(0, 3), (3, 4), (7, 5), (12, 2)]


def test_deleted_inside_the_brackets_is_one_file(tmp_path: Path) -> None:
    text = (
        '1 openat(AT_FDCWD, "/t", O_RDWR|O_CREAT|O_EXCL, 0600) = 3</t>\n1 write(3</t>, "x", 4096) = 4096\n'
        '1 unlink("/t") = 0\n1 write(3</t (deleted)>, "x", 4096) = 4096\n'
    )
    found, _ = rows(text, tmp_path)
    assert [row[:4] for row in found if row[0] == "write"] == [("write", "/t", 0, 4096), ("write", "/t", 4096, 4096)]


@pytest.mark.parametrize(
    "socket",
    ["TCP:[1.1.1.1:80->2.2.2.2:5]", 'UNIX-STREAM:[12->45,"/a>b"]', "TCPv6:[[::1]:80->[::1]:50]", "socket:[12]"],
)
def test_the_arrow_of_a_socket_ends_nothing(socket: str, tmp_path: Path) -> None:
    text = (
        f'1 openat(AT_FDCWD, "/a", O_RDONLY) = 4</a>\n1 sendfile(5<{socket}>, 4</a>, [4096] => [8192], 4096) = 4096\n'
        f'1 write(5<{socket}>, "x", 1) = 1\n1 write(6</b->, "x", 1) = 1\n'
    )
    found, report = rows(text, tmp_path)
    assert [row[:4] for row in found] == [("open", "/a", -1, 0), ("read", "/a", 4096, 4096), ("write", "/b-", 0, 1)]
    assert report.bad == 0


def test_a_thread_that_calls_execve_becomes_its_leader(tmp_path: Path) -> None:
    text = (
        '100 openat(AT_FDCWD, "/o", O_WRONLY|O_CREAT|O_EXCL, 0644) = 3\n'
        "100 clone(child_stack=0x7f, flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD) = 101\n"
        '101 execve("/bin/x", ["x"], 0x7f /* 3 vars */ <unfinished ...>\n100 +++ superseded by execve in pid 101 +++\n'
        '100 <... execve resumed>) = 0\n100 write(3, "x", 7) = 7\n'
    )
    found, report = rows(text, tmp_path)
    assert found[-1][:4] == ("write", "/o", 0, 7) and report.bad == 0


def test_an_injected_result_makes_no_row(tmp_path: Path) -> None:
    found, _ = rows('creat("/o", 0644) = 3\nwrite(3, "x", 7) = 7 (INJECTED)\nwrite(3, "x", 2) = 2\n', tmp_path)
    assert [row[2:4] for row in found if row[0] == "write"] == [(0, 2)]


OPTIONS = [
    "", "-o x", "-ttt -T -y -o x", "-yy -tt -r -n -i -Y -X verbose", "-X raw", "-X raw -y -r -o x", "-xx -y", "-k -r",
    "--absolute-timestamps=unix,s", "--absolute-timestamps=unix,ms -r -n", "--relative-timestamps=s -o x", "-v -x -a 1 -o x",
    "--relative-timestamps=ns -ttt -Y -o x", "-C -e write=all -T", "-qqq -y", "--syscall-times=ns -n -s 0 --decode-pids=pidns",
]  # fmt: skip
PROGRAM = """
exec 3>f; echo abc >&3; (echo defg >&3; echo to-stderr >&2); echo hi >&3; cat g >&3; echo end >>f; mv f h; rm h; echo late >&3
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_a_real_program_gives_equal_rows_with_all_options(tmp_path: Path) -> None:
    found = {}
    for options in OPTIONS:
        work = tmp_path / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        (work / "g").write_text("g" * 5000)
        done = subprocess.run(
            ["strace", "-f", *options.split(), "sh", "-c", PROGRAM],
            cwd=work,
            capture_output=True,
            text=True,
            check=False,
        )
        if "ptrace" in done.stderr and done.returncode:
            pytest.skip("strace may not trace here")
        text = (work / "x").read_text() if (work / "x").exists() else done.stderr
        (tmp_path / "text").write_text(text)
        case = convert(tmp_path / "text", tmp_path, cwd=str(work))
        found[options] = [tuple(row[:4]) for row in case.rows if row.path.startswith(str(work))]
        assert case.report.bad == 0, options
    for options in OPTIONS:
        assert found[options] == found["-ttt -T -y -o x"], options
