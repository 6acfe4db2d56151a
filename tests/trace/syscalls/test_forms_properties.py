"""Random calls, written by an independent formatter in each form, make the rows of the plain form; also in the compiled twin."""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.trace.formats.tracers import strace
from tests.trace.syscalls.test_bulk_lines_properties import outcome

FLAGS = {
    "O_RDONLY": 0,
    "O_WRONLY": 1,
    "O_RDWR": 2,
    "O_CREAT": 0o100,
    "O_EXCL": 0o200,
    "O_TRUNC": 0o1000,
    "O_APPEND": 0o2000,
}
HOW = ("O_RDONLY", "O_RDWR|O_CREAT", "O_WRONLY|O_CREAT|O_TRUNC", "O_WRONLY|O_CREAT|O_APPEND", "O_RDWR|O_CREAT|O_EXCL")
FORMS = (
    "plain", "raw", "verbose", "time of day", "whole seconds", "relative too", "number", "address", "name", "stack", "dump",
    "stderr", "messages", "injected",
)  # fmt: skip
Call = tuple[str, int, int, str]


def flags(words: str, form: str) -> str:
    value = sum(FLAGS[word] for word in words.split("|"))
    return (
        hex(value)
        if form == "raw" and value
        else "0"
        if form == "raw"
        else f"{value:#x} /* {words} */"
        if form == "verbose"
        else words
    )


def body(call: Call, form: str) -> str:
    name, fd, size, how = call
    here = {"raw": "-100", "verbose": "-100 /* AT_FDCWD */"}.get(form, "AT_FDCWD")
    if name == "openat":
        return f'openat({here}, "/d/f{fd}", {flags(how, form)}{", 0644" if "CREAT" in how else ""}) = {fd}'
    if name == "lseek":
        return (
            f"lseek({fd}, {size}, {({'raw': '0x1', 'verbose': '0x1 /* SEEK_CUR */'}).get(form, 'SEEK_CUR')}) = {size}"
        )
    if name == "pwrite64":
        return f'pwrite64({fd}, "x) = -1 "..., {size}, {size}) = {size}'
    return f"close({fd}) = 0" if name == "close" else f'{name}({fd}, "x"..., {size}) = {size}'


def written(calls: list[Call], form: str, seed: int) -> bytes:
    """Return the text of a process that forks once in the middle; the child writes, too."""
    rng, out = random.Random(seed), []
    for i, call in enumerate(calls):
        pid, seconds, text = 100 + (i > len(calls) // 2 and i % 3 == 0), 1700000000 + i, body(call, form)
        if i == len(calls) // 2:
            out += line(100, seconds, "fork() = 101", form)
        if form == "injected" and rng.random() < 0.3:
            out += line(pid, seconds, f'write({call[1]}, "x", 77) = 77 (INJECTED)', form)
        if form == "messages" and rng.random() < 0.3:
            cut = text.index("(") + 1
            out += [*line(pid, seconds, text[:cut] + f"strace: Process {900 + i} attached", form), text[cut:]]
            continue
        out += line(pid, seconds, text, form)
        if form == "stack":
            out += [" > /lib/libc.so.6(write+0x10) [0x10]"] * rng.randrange(3)
        if form == "dump":
            out += [" * 3 bytes in buffer 0", " | 00000  78 29 20                                          x) |"]
    return "".join(f"{each}\n" for each in out).encode()


def line(pid: int, seconds: int, text: str, form: str) -> list[str]:
    time, process = f"{seconds}.000000 ", f"{pid} "
    if form == "time of day":
        time = f"13:{seconds // 60 % 60:02}:{seconds % 60:02}.000000 "
    elif form == "whole seconds":
        time = f"{seconds} "
    elif form == "relative too":
        time += "(+     1.000000) "
    elif form == "number":
        time += "[   1] "
    elif form == "address":
        time += "[00007f00a4bdfab3] "
    elif form == "name":
        process = f"{pid}<agent> "
    elif form == "stderr":
        process = f"[pid {pid:5}] "
    return [process + time + text]


CALL = st.tuples(
    st.sampled_from(["openat", "openat", "write", "read", "pwrite64", "lseek", "close"]),
    st.integers(3, 5), st.sampled_from([0, 1, 512, 4096]), st.sampled_from(HOW),
)  # fmt: skip


@pytest.mark.parametrize("form", FORMS[1:])
@settings(max_examples=12, deadline=None)
@given(calls=st.lists(CALL, min_size=4, max_size=30), seed=st.integers(0, 99))
def test_each_form_makes_the_same_rows(
    form: str, calls: list[Call], seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder: Path = tmp_path_factory.mktemp("forms")
    calls = [("openat", 3, 0, HOW[1]), *calls]
    plain = outcome(strace, folder, written(calls, "plain", seed), 1 << 30, 1 << 30, 1 << 20)
    assert not isinstance(plain, str)
    for enough, short, block in ((1 << 30, 1 << 30, 1 << 20), (1, 0, 1 << 20), (1, 0, 300)):
        other = outcome(strace, folder, written(calls, form, seed), enough, short, block)
        assert not isinstance(other, str), other
        for column in ("op", "file", "offset", "length", "flag", "thread"):
            assert plain[0][column].tolist() == other[0][column].tolist()
        assert plain[1:4] == other[1:4] and not other[4].get("bad")
