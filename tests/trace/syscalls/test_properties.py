"""Split calls in any order give the rows that the threads made, and damaged text never becomes a traceback."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.errors import UsageError
from scmsim.core.records import OPS
from scmsim.trace.formats.tracers import strace
from scmsim.trace.store import TraceWriter, open_trace
from tests.trace.strace_helper import DATA, convert

# one call of a thread on its own file: kind and a number (bytes, or a position)
STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "pwrite64", "read", "lseek", "fsync", "append"]), st.integers(1, 999))
)
RELEVANT = {"write", "read", "fsync"}


def halves(thread: int, step: tuple[str, int], length: int) -> tuple[str, str]:
    """The text of a call before and after the point where strace splits it; `length` is that of the file so far."""
    kind, number = step
    fd, other = f"{thread}</d/{thread}>", f"{thread + 50}</d/{thread}>"
    return {
        "write": (f'write({fd}, ""..., {number}', f") = {number}"),
        "append": (f'write({other}, ""..., {number}', f") = {number}"),
        "pwrite64": (f'pwrite64({fd}, ""..., 10, {number}', ") = 10"),
        "read": (f"read({fd}, ", f'""..., 4096) = {min(number, length)}'),
        "lseek": (f"lseek({fd}, {number}, SEEK_SET", f") = {number}"),
        "fsync": (f"fsync({fd}", ") = 0"),
    }[kind]


def slow_model(steps: list[tuple[str, int]]) -> tuple[list[tuple[str, int, int]], list[int]]:
    """Rows (operation, offset, length) of one thread, and the length of its file before each step."""
    rows, lengths, position, length = [], [], 0, 0
    for kind, number in steps:
        lengths.append(length)
        if kind == "lseek":
            position = number
        elif kind == "fsync":
            rows.append(("fsync", -1, 0))
        elif kind == "read":
            rows.append(("read", position, min(number, length)))
            position += min(number, length)
        else:
            count = 10 if kind == "pwrite64" else number
            start = {"write": position, "append": length, "pwrite64": number}[kind]
            rows.append(("write", start, count))
            position = start + count if kind == "write" else position
            length = max(length, start + count)
    return rows, lengths


@st.composite
def interleavings(draw) -> tuple[list[list[tuple[str, int]]], list[str]]:
    """Steps of some threads, and the lines of strace in an order in which they could have happened."""
    threads = draw(st.lists(STEPS.filter(bool), min_size=1, max_size=4))
    lines = []
    for thread in range(len(threads)):
        name, end = f'openat(AT_FDCWD</d>, "{thread}", ', f"</d/{thread}> <0.000001>"
        lines.append(f"{thread} 100.000001 {name}O_RDWR|O_CREAT|O_EXCL, 0600) = {thread}{end}")
        lines.append(f"{thread} 100.000001 {name}O_WRONLY|O_APPEND) = {thread + 50}{end}")
    queues = []
    for thread, steps in enumerate(threads):
        queue = []
        for step, length in zip(steps, slow_model(steps)[1], strict=True):
            before, after = halves(thread, step, length)
            name = before.split("(")[0]
            if draw(st.booleans()):
                queue += [f"{before} <unfinished ...>", f"<... {name} resumed>{after} <0.000002>"]
            else:
                queue.append(f"{before}{after} <0.000002>")
        queues.append([f"{thread} 100.000002 {text}" for text in queue])
    while any(queues):
        queue = draw(st.sampled_from([queue for queue in queues if queue]))
        lines.append(queue.pop(0))
    return threads, lines


@given(interleavings())
@settings(max_examples=150)
def test_rows_do_not_depend_on_how_calls_were_split(case: tuple[list[list[tuple[str, int]]], list[str]]) -> None:
    threads, lines = case
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "in.strace"
        text.write_text("".join(f"{line}\n" for line in lines))
        found = convert(text, Path(folder))
    assert found.report.bad == 0
    for thread, steps in enumerate(threads):
        mine = [(r.op, r.offset, r.length) for r in found.rows if r.path == f"/d/{thread}" and r.op in RELEVANT]
        assert mine == slow_model(steps)[0]


TEXTS = [
    "".join((DATA / name).read_text().splitlines(keepends=True)[start : start + 60])
    for name, start in (
        ("tricky.strace", 0),
        ("tricky.strace", 31),
        ("sqlite_wal.strace", 90),
        ("varmail_head.strace", 0),
    )
]
PIECES = st.sampled_from(
    ["", " ", "(", ")", "<", ">", '"', "\\", "= -1 ", "0x", "9" * 25, "-", ", ", "\n", "3", "é", "?", "["]
)
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), PIECES), min_size=1, max_size=12)


@given(st.sampled_from(TEXTS), EDITS)
@settings(max_examples=300)
def test_damaged_text_is_counted_or_refused(text: str, edits: list[tuple[float, int, str]]) -> None:
    for where, removed, added in edits:
        at = int(where * len(text))
        text = text[:at] + added + text[at + removed :]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "in.strace"
        source.write_text(text)
        try:
            case = convert(source, Path(folder))  # checks every row and that every line is accounted for
        except UsageError as error:
            assert "\n" not in str(error)
            return
        assert all(OPS[op] for op in case.records["op"])


@given(st.integers(0, 12000))
@settings(max_examples=60)
def test_text_may_end_anywhere(cut: int) -> None:
    whole = (DATA / "tricky.strace").read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "in", Path(folder) / "out"
        source.write_bytes(whole[:cut])
        try:
            with TraceWriter(out, {}) as writer:
                report = strace.convert(source, writer)
        except UsageError:
            assert not out.exists() and cut < 300
            return
        assert report.bad <= 1 and open_trace(out).rows == report.rows
