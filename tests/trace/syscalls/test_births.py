"""A child's lines that come before the line of its fork make the rows that they make after it."""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.trace.formats.tracers import strace
from scmsim.trace.syscalls.births import in_order
from tests.trace.strace_helper import convert, convert_lines

VFORK = [
    '100 open("/d/f", O_RDWR) = 3',
    "101 fsync(3) = 0",
    '101 open("/d/g", O_RDONLY) = 4',
    "100 vfork() = 101",
    "101 fsync(4) = 0",
    "101 fsync(3) = 0",
]


def test_a_child_has_the_descriptors_of_the_fork_that_is_printed_later(tmp_path: Path) -> None:
    case = convert_lines(tmp_path, *VFORK)
    assert [row[:2] for row in case.rows[1:]] == [
        ("fsync", "/d/f"), ("open", "/d/g"), ("fsync", "/d/g"), ("fsync", "/d/f"),
    ]  # fmt: skip
    assert case.report.blind_spots == []


def test_a_child_in_an_earlier_block_than_its_fork_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strace, "_BLOCK", 1)
    case = convert_lines(tmp_path, *VFORK)
    assert [row[:2] for row in case.rows[2:]] == [("fsync", "/d/g"), ("fsync", "/d/f")]
    assert case.report.blind_spots == [
        "1 processes made calls before the line of the call that made them (strace -z); their calls on descriptors and paths of "
        "their parents may be missing or wrong"
    ]


def tree(rng: random.Random) -> list[tuple[int, str, int]]:
    """Return (process, call, child or 0) in true order; each process writes through what it inherits and opens."""
    out, fds, last = [(100, 'open("/d/f", O_RDWR|O_CREAT|O_EXCL, 0644) = 3', 0)], {100: [3]}, 100
    for _ in range(rng.randrange(5, 40)):
        pid = rng.choice(sorted(fds))
        kind = rng.random()
        if kind < 0.25:
            last += 1
            fds[last] = list(fds[pid])
            call = rng.choice(("clone(child_stack=NULL, flags=SIGCHLD)", "fork()", "vfork()"))
            out.append((pid, f"{call} = {last}", last))
        elif kind < 0.5:
            fds[pid].append(max(fds[pid]) + 1)
            name = f"/d/{pid}-{len(fds[pid])}"
            out.append((pid, f'open("{name}", O_RDWR|O_CREAT|O_EXCL, 0644) = {fds[pid][-1]}', 0))
        else:
            out.append((pid, f'write({rng.choice(fds[pid])}, ""..., {rng.randrange(1, 99)}) = 5', 0))
    return out


def delayed(calls: list[tuple[int, str, int]], rng: random.Random) -> list[tuple[int, str, int]]:
    """Return the calls by the time of their line: that of a fork is at a random time before the next call of its parent."""
    when = []
    for at, (pid, _, child) in enumerate(calls):
        end = next((i for i in range(at + 1, len(calls)) if calls[i][0] == pid), len(calls))
        when.append(rng.uniform(at, end) if child else at)
    return [calls[at] for at in sorted(range(len(calls)), key=when.__getitem__)]


def text(calls: list[tuple[int, str, int]], form: str) -> bytes:
    return "".join(form.format(pid, call) + "\n" for pid, call, _ in calls).encode()


@given(st.integers(0, 1 << 30), st.sampled_from(("{} {}", "{}<a b> {}", "{} 1700000000.000000 (+     0) [  56] {}")))
@settings(max_examples=200)
def test_random_trees_make_the_rows_of_the_true_order(
    tmp_path_factory: pytest.TempPathFactory, seed: int, form: str
) -> None:
    rng, folder = random.Random(seed), tmp_path_factory.mktemp("births")
    calls, found = tree(rng), []
    for each in (calls, delayed(calls, rng)):
        source = folder / "in.strace"
        source.write_bytes(text(each, form))
        found.append(convert(source, folder))
    assert found[0].rows == found[1].rows
    assert list(found[0].records["thread"]) == list(found[1].records["thread"])
    assert found[1].report.blind_spots == []


def test_what_is_in_order_stays_the_same_object() -> None:
    """A name, a string, an unfinished fork, and a child of another number move nothing."""
    for lines in (
        b'101 fsync(3) = 0\n100 write(1, "x fork() = 101"..., 20) = 20\n',
        b"100 vfork( <unfinished ...>\n101 fsync(3) = 0\n100 <... vfork resumed>) = 101\n",
        b"1011 fsync(3) = 0\n100 fork() = 101\n101 fsync(3) = 0\n",
        b"100 fork() = -1 EAGAIN (Resource temporarily unavailable)\n1 fsync(3) = 0\n",
    ):
        assert in_order(lines) is lines
