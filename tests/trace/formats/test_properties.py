"""Every importer on damaged samples, and the two fast readers against slow ones that share no code with them."""

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.records import joined
from scmsim.trace import open_trace
from scmsim.trace.formats.benchmarks import fio_iolog
from scmsim.trace.kernels import perf_text
from scmsim.trace.reading import columns
from scmsim.trace.reading.importing import Import
from scmsim.trace.reading.input import Input
from scmsim.trace.store import TraceWriter
from tests.fuzz.mutate import DATA, NUMBERS, SAMPLES, judge, mutated


@pytest.mark.parametrize("name", sorted(SAMPLES))
@given(seed=st.integers(0, 1 << 32), edits=st.sampled_from((1, 2, 5, 20)))
@settings(max_examples=25)
def test_damaged_input_is_counted_or_refused(name: str, seed: int, edits: int) -> None:
    files, options = SAMPLES[name]
    draw = random.Random(seed)
    judge(name, mutated((DATA / draw.choice(files)).read_bytes(), draw, edits), options)


CELLS = st.sampled_from(
    ["0", "7", "12.5", "007", "", " 3", "+1", "0x10", "-0", "1e3", "a", "R", "W", "é", *(n.decode() for n in NUMBERS)]
)
COLUMNS = [
    columns.Column("time", 0, "time", 1000), columns.Column("op", 1, "word", codes={"R": 1, "W": 2}),
    columns.Column("offset", 2, unit=512), columns.Column("name", 3, "word"),
]  # fmt: skip


@given(st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS), min_size=1, max_size=4), st.booleans())
@settings(max_examples=200)
def test_blocks_and_single_lines_give_the_same_columns(tmp_path_factory: Any, rows: list, clean: bool) -> None:
    if clean:
        rows = [(row[0], "R", "5", row[3]) for row in rows]
    text = "".join(",".join(row) + "\n" for row in rows).encode()
    folder = tmp_path_factory.mktemp("columns")
    (folder / "in").write_bytes(text)
    reader = columns.Reader(COLUMNS, 4, ",")
    fast = reader.fast(text)
    with TraceWriter(folder / "out", {}) as writer:
        builder = Import(Input(folder / "in"), writer).builder()
        slow = reader.slow(text, 0, builder)
    if fast is None:
        return
    assert builder.report.bad == 0
    for name in ("time", "op", "offset"):
        assert np.array_equal(fast[name], slow[name])
    assert [fast["name"].values[i] for i in fast["name"].codes] == [slow["name"].values[i] for i in slow["name"].codes]


PERF = re.compile(
    r"(?:.*[ \]])?(?:(\d+)/)?(\d+) +(?:\[[^\]]*\] +)?(\d{1,10})\.(\d{1,9}): +raw_syscalls:sys_"
    r"(?:enter: NR (-?\d{1,18}) \(([0-9a-f, ]+)\)|exit: NR (-?\d{1,18}) = (-?\d{1,18})$)"
)


def perf_twin(line: str) -> list[int] | None:
    """A complete line of raw_syscalls as the kernel's row, or None."""
    m = PERF.fullmatch(line)
    if m is None:
        return None
    pid, tid, seconds, fraction, enter, text, leave, result = m.groups()
    if enter is not None:
        numbers = [int(word, 16) for word in text.split(", ")]
        numbers = [number - (1 << 64 if number >> 63 else 0) for number in numbers]
        kind = perf_text.ENTER
    else:
        kind, numbers = perf_text.EXIT, [int(result), 0, 0, 0, 0, 0]
    time = int(seconds) * 10**9 + int(f"{fraction:0<9}")
    return [kind, -1 if pid is None else int(pid), int(tid), time, int(enter or leave), *numbers, 0]


LINES = st.builds(
    "{}{} {}.{}: {}".format,
    st.sampled_from(["", "  ", "cat ", "a b:c/d [x] "]),
    st.sampled_from(["7", "7/8", " 12/13 [001]", "4194304 [127]"]),
    st.integers(0, 4_000_000_000),
    st.integers(0, 999_999_999),
    st.one_of(
        st.builds(
            "raw_syscalls:sys_enter: NR {} ({})".format,
            st.integers(-1, 500),
            st.lists(st.integers(0, (1 << 64) - 1).map("{:x}".format), min_size=6, max_size=6).map(", ".join),
        ),
        st.builds(" raw_syscalls:sys_exit: NR {} = {}".format, st.integers(0, 500), st.integers(-(10**17), 10**17)),
    ),
)


@given(st.lists(LINES, min_size=1, max_size=6), st.booleans())
@settings(max_examples=150)
def test_kernel_of_perf_agrees_with_its_twin(lines: list[str], ends: bool) -> None:
    text = "\n".join(lines) + ("\n" if ends else "")
    rows = np.zeros((len(lines), perf_text.WIDTH), "i8")
    assert perf_text.take_apart(np.frombuffer(text.encode(), np.uint8), rows) == len(lines)
    assert rows.tolist() == [perf_twin(line) for line in lines]


GOOD = [
    "7 1.5: raw_syscalls:sys_enter: NR 0 (0, 1, 2, 3, 4, 5)",
    "7/8 1.5: raw_syscalls:sys_enter: NR -1 (ffffffffffffffff, a, b, c, d, f0)",
    "x y 7/8 [003] 4000000000.123456789: raw_syscalls:sys_enter: NR 123456789012345678 (8000000000000000, 0, 0, 0, 0, 0)",
    "7 [1023] 1.5: raw_syscalls:sys_exit: NR 1 = 5", "7 [4] 1.5: raw_syscalls:sys_exit: NR 1 = 5",
    "7 [] 1.5: raw_syscalls:sys_exit: NR 1 = 5",
    "7 [000]   0.000000001:   raw_syscalls:sys_exit: NR 17 = -123456789012345678",
    "a:b 0/0 1.999999999:  raw_syscalls:sys_exit: NR 0 = 0",
    "s 9 1.50: raw_syscalls:sys_enter: NR 9 (09, af, 9a, 0, f, 1)", "0 1.5: raw_syscalls:sys_exit: NR 1 = 5",
    "123456789012345678 1.5: raw_syscalls:sys_exit: NR 1 = 5", "0/0 [9] 1.5: raw_syscalls:sys_exit: NR 1 = -1",
    "7 4000000000.000000000: raw_syscalls:sys_exit: NR 1 = 999999999999999999",
]  # fmt: skip
BAD_LINES = [
    "raw_syscalls:sys_exit: NR 1 = 5", "1.5: raw_syscalls:sys_exit: NR 1 = 5", "7 1.5 raw_syscalls:sys_exit: NR 1 = 5",
    "7 .5: raw_syscalls:sys_exit: NR 1 = 5",
    "7 1.: raw_syscalls:sys_exit: NR 1 = 5", "7 1.1234567890: raw_syscalls:sys_exit: NR 1 = 5",
    "7 4000000001.5: raw_syscalls:sys_exit: NR 1 = 5",
    "/7 1.5: raw_syscalls:sys_exit: NR 1 = 5", "7/ 1.5: raw_syscalls:sys_exit: NR 1 = 5",
    "x 1.5: raw_syscalls:sys_exit: NR 1 = 5",
    "7 1:5: raw_syscalls:sys_exit: NR 1 = 5", "7 1.5: raw_syscalls:sys_exit: NR x = 5",
    "7 1.5: raw_syscalls:sys_exit: NR 1 = x",
    "7 1.5: raw_syscalls:sys_exit: NR 1 = ", "7 1.5: raw_syscalls:sys_exit: NR 1 = -", "7 1.5: raw_syscalls:sys_exit: NR 1",
    "7 1.5: raw_syscalls:sys_exit:",
    "7 1.5: raw_syscalls:sys_exit: ", "7 1.5: raw_syscalls:sys_exit NR 1 = 5",
    "7 1.5: raw_syscalls:sys_exit: NR 1 = 1234567890123456789",
    "7 1.5: raw_syscalls:sys_enter: NR 1 (0, 1, 2, 3, 4)", "7 1.5: raw_syscalls:sys_enter: NR 1 (0, 1, 2, 3, 4, ",
    "7 1.5: raw_syscalls:sys_enter: NR 1 (0, 1, 2, 3, 4, 5",
    "7 1.5: raw_syscalls:sys_enter: NR 1 (0, 1, 2, g, 4, 5)",
    "7 1.5: raw_syscalls:sys_enter: NR 1 (0, 1, 00000000000000002, 3, 4, 5)", "7 1.5: syscalls:sys_exit_read: 5",
    "7 1.5: syscalls:sys_exit_read: 0x", "7 1.5: syscalls:sys_exit_read:", "7 1.5: syscalls:sys_exit_read: 0",
    "7 1.5: syscalls:sys_enter_read: fd: 0xg", "7 1.5: raw_syscalls:sys_e", "7 1.5: raw_syscalls:sys_enter",
    "7 1.5: raw_syscalls:sys_enter:", "7 1.5: syscalls:sys_exit", "7 1.5: syscalls:sys_exit_", "7 1.5: syscalls:sys_enter_read",
    "7 1.5: syscalls:sys_exit_read: 0y3", "7 1.5: syscalls:sys_exit_read: 3", "] 1.5: raw_syscalls:sys_exit: NR 1 = 5",
    "x] 1.5: raw_syscalls:sys_exit: NR 1 = 5", "[] 1.5: raw_syscalls:sys_exit: NR 1 = 5",
    "7 1.5: raw_syscalls:sys_exit: NR 1 = 1234567890123456780", "7 1.5: raw_syscalls:sys_exit: NR 1234567890123456780 = 5",
    "7/ [1] 1.5: raw_syscalls:sys_exit: NR 1 = 5", ": raw_syscalls:sys_exit: NR 1 = 5", "1.5: syscalls:sys_exit_read: 0x0",
]  # fmt: skip
NAMED = [
    ("7 1.5: syscalls:sys_enter_read: fd: 0x00000003, buf: 0x7f00, count: 0xff", "ENTER", "read", [3, 0x7F00, 255, 0, 0, 0]),
    ("7 1.5: syscalls:sys_enter_sync: ", "ENTER", "sync", None), ("7 1.5: syscalls:sys_exit_openat: 0x3", "EXIT", "openat",
    [3, 0, 0, 0, 0, 0]),
    ("7 1.5: syscalls:sys_enter_mmap: a: 0x1, b: 0x2, c: 0x3, d: 0x4, e: 0x5, f: 0xffffffffffffffff", "ENTER", "mmap", [1, 2,
    3, 4, 5, -1]),
    ("7 1.5: syscalls:sys_enter_y: a0: 0x1, 0: 0x2, 00x3", "ENTER", "y", [1, 2, 3, 0, 0, 0]),
    ("7 1.5: syscalls:sys_enter_x: a: 0x1, b: 0x2, c: 0x3, d: 0x4, e: 0x5, f: 0x6, g: 0x7", "ENTER", "x", [1, 2, 3, 4, 5, 6]),
]  # fmt: skip


def test_lines_of_perf_of_every_form() -> None:
    others = [
        "",
        "7 1.5: sched:sched_switch: a",
        "# ========",
        "syscalls:sys_",
        "7 1.5: syscall:sys_enter: NR 1 (0, 1, 2, 3, 4, 5)",
    ]
    lines = [*GOOD, *BAD_LINES, *(line for line, *_ in NAMED), *others]
    rows = np.full((len(lines), perf_text.WIDTH), 77, "i8")
    assert perf_text.take_apart(np.frombuffer("\n".join(lines).encode(), np.uint8), rows) == len(lines)
    found = rows.tolist()
    assert found[: len(GOOD)] == [perf_twin(line) for line in GOOD]
    kinds = dict(zip(lines, rows[:, perf_text.KIND].tolist(), strict=True))
    assert [line for line in BAD_LINES if kinds[line] != perf_text.BAD] == []
    assert [line for line in others if kinds[line] != perf_text.OTHER] == []
    for (_, kind, name, numbers), row in zip(NAMED, found[len(GOOD) + len(BAD_LINES) :], strict=False):
        if numbers is None:
            continue
        begun = [getattr(perf_text, kind), -1, 7, 1_500_000_000, perf_text.call_hash(name)]
        assert row == [*begun, *numbers, 0]


def test_names_of_calls_have_different_hashes() -> None:
    from scmsim.trace.formats.tracers._perf_calls import CALLS

    assert len({perf_text.call_hash(name) for name in CALLS}) == len(CALLS)
    row = np.zeros((1, perf_text.WIDTH), "i8")
    line = b"x 1 [000] 5.000001: syscalls:sys_exit_read: 0xfffffffffffffffe"
    perf_text.take_apart(np.frombuffer(line, np.uint8), row)
    assert row[0, perf_text.CALL] == perf_text.call_hash("read") and row[0, perf_text.FIRST] == -2


def test_samples_cover_every_format_that_reads_text_or_records() -> None:
    from scmsim.core import registry

    assert set(registry.names("format")) - set(SAMPLES) == {"darshan", "filebench"}
    assert all((Path(DATA) / file).exists() for files, _ in SAMPLES.values() for file in files)


FIO_LINES = st.sampled_from(
    [
        "{t} /a read 0 4096", "{t} /a read 8192 4096", "{t} /b write 4096 512", "{t} /b write 0 0", "{t} /a trim 0 4096",
        "{t} /c sync 0 0", "{t} /c datasync 5 7", "{t} /d read 1152921504606846975 4096", "{t} /a read 0x10 1",
        "{t} /a read -0 1",
        "{t} /d close", "{t}  read 0 4096", "{t}\t/e read 0 1", "{t}.5 /a read 0 1", "{t} /\xe0 write 1 1", "{t} /f jump 0 1",
        "",
        "1 /a read 0 1", "{t} /g read 0 1 ",
    ]
)  # fmt: skip


@given(st.lists(st.tuples(FIO_LINES, st.sampled_from([1, 1, 64, 130])), max_size=8), st.sampled_from([None, "/a"]))
@settings(max_examples=150)
def test_stretches_of_an_io_log_are_what_its_lines_are(tmp_path_factory: Any, runs: list, under: str | None) -> None:
    """Against the same importer without stretches, which takes every line by itself."""
    folder = tmp_path_factory.mktemp("fio")
    lines = [line.format(t=7 * i) for i, (line, count) in enumerate(runs) for _ in range(count)]
    text = "\n".join(["fio version 3 iolog", "1 /z add", "2 /a open", *lines, "9999 /z close"])
    (folder / "in").write_bytes(text.encode("latin-1") + b"\n")
    told = []
    for name, found in (("fast", fio_iolog.stretches), ("slow", lambda plain: iter(()))):
        with pytest.MonkeyPatch.context() as patch, TraceWriter(folder / name, {}) as writer:
            patch.setattr(fio_iolog, "stretches", found)
            report = fio_iolog.convert(folder / "in", writer, under=under)
        source = open_trace(folder / name)
        rows = joined(list(source.batches()))
        told.append((report, rows.tolist(), source.files.path, source.files.first_size.tolist()))
    assert told[0] == told[1]
