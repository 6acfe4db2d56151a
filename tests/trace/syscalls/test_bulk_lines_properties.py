"""Stretches of data calls worked on at once give what the same calls give one by one: strace and perf, sound and damaged."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.errors import UsageError
from scmsim.core.records import joined
from scmsim.trace.formats.tracers import perf_script, strace
from scmsim.trace.reading import lines
from scmsim.trace.store import TraceWriter, open_trace
from scmsim.trace.syscalls import conversion, runs
from tests.fuzz.mutate import DATA, mutated

FAR = 1 << 60
Outcome = tuple[np.ndarray, list[str], list[int], list[bool], dict[str, Any]] | str


def outcome(
    importer: Any, folder: Path, data: bytes, enough: int, short: int, block: int, under: str | None = None
) -> Outcome:
    """Rows, side table and account of a conversion, or the error; `block` bytes at a time."""
    (folder / "in").write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "ENOUGH", enough)
        patch.setattr(conversion, "_SHORT", short)
        patch.setattr(
            importer, "byte_blocks", lambda path, what, progress, *_: lines.byte_blocks(path, what, progress, block)
        )
        try:
            with TraceWriter(folder / "out", {}) as writer:
                report = importer.convert(folder / "in", writer, under=under)
        except UsageError as error:
            return str(error)
    trace = open_trace(folder / "out")
    batches = list(trace.batches())
    rows = joined(batches).view(np.ndarray) if batches else np.zeros(0)
    return rows, trace.files.path, trace.files.first_size.tolist(), trace.files.is_dir.tolist(), report.as_dict()


def same(one: Outcome, other: Outcome) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) and one == other
    return np.array_equal(one[0], other[0]) and one[1:] == other[1:]


FDS = st.sampled_from([3, 3, 3, 4, 5, 60])
COUNTS = st.sampled_from([0, 1, 512, 4096, 4096, 1 << 31, (1 << 31) + 1])
OFFSETS = st.sampled_from([0, 1, 4096, 8192, 1 << 40])
PATHS = {3: "/d/a", 4: "/d/b", 5: "/dev/null", 60: "/d/a"}
NAMES = st.sampled_from(
    [
        "/d/a",
        "/d/b",
        "/d/b",
        "/d/c\\40d",
        "/e",
        "/e/f",
        "/dev/null",
        "/d/link",
        "rel",
        "",
        "..",
        "../up",
        "/d//g",
        "/d/",
        "/d/\u00e9",
    ]
)
HOW = st.sampled_from(
    ["O_RDONLY", "O_RDWR|O_CREAT, 0644", "O_WRONLY|O_CREAT|O_TRUNC, 0644", "O_RDWR|O_CREAT|O_EXCL|O_CLOEXEC, 0600",
     "O_RDWR|O_TRUNC", "O_WRONLY|O_APPEND|O_SYNC", "O_RDONLY|O_DIRECTORY", "O_PATH", "O_RDWR|O_TMPFILE"]
)  # fmt: skip
ERRORS = st.sampled_from(["ENOENT (No such file or directory)", "EACCES (Permission denied)"])
COMMANDS = st.sampled_from(
    [
        "F_GETFD",
        "F_SETFD, FD_CLOEXEC",
        "F_SETLK, {l_type=F_RDLCK}",
        "F_SETFL, O_WRONLY|O_APPEND",
        "F_GETFL",
        "F_setfl",
        "7",
    ]
)
RESULTS = st.sampled_from(
    ["0", "7", "0x9", "-1 EAGAIN (Try again)", "-1 ENOENT (No such file)", "0 (Timeout)", "? ERESTART", "-7", "07"]
)
REQUESTS = st.sampled_from(
    ["TCGETS", "TIOCGWINSZ", "FIONREAD", "FICLONE", "BTRFS_IOC_CLONE or FICLONE", "FS_IOC_ZERO_RANGE", "0x5401"]
)
STATXS = st.sampled_from(
    ["{stx_mask=STATX_ALL|STATX_MNT_ID, stx_attributes=0, stx_mode=S_IFREG|0644, stx_size=4096, ...}", "NULL",
     "{stx_mask=STATX_ALL, stx_attributes=STATX_ATTR_IMMUTABLE, stx_mode=S_IFDIR|0644, stx_size=4096, ...}",
     "{stx_mask=STATX_ALL, stx_attributes=0, stx_mode=S_IFLNK|0644, stx_size=4096, ...}",
     "{st_mode=S_IFREG|0644, st_size=4096, ...}"]
)  # fmt: skip
STRUCTS = st.sampled_from(
    ["{st_mode=S_IFREG|0644, st_size=4096, ...}", "{st_mode=S_IFREG|0644, st_size=0, ...}",
     "{st_mode=S_IFDIR|0755, st_size=9, ...}", "{st_mode=S_IFLNK|0777, st_size=9, ...}",
     "{st_mode=S_IFCHR|0666, st_rdev=makedev(0x1, 0x3), ...}", "0x7ffe", "NULL",
     "{st_mode=S_IFREG|S_ISUID|04755, st_size=7, ...}", "{st_mode=S_IFREG|0644, st_size=1099511627776, ...}"]
)  # fmt: skip


@st.composite
def lines_on_paths(draw: Any) -> str:
    """A line that opens, closes or removes, or that fails to."""
    fd, name, other, how = draw(st.sampled_from([3, 4, 5, 60])), draw(NAMES), draw(NAMES), draw(HOW)
    place = draw(st.sampled_from(["AT_FDCWD</w>", "AT_FDCWD</w>", "AT_FDCWD", "7</d>", "7", "AT_FDCWD</other>"]))
    real = {"/d/link": "/d/target", "rel": "/w/rel"}.get(name, name)
    shown = draw(st.sampled_from([f"<{real}>", f"<{real}>", ""]))
    calls = [
        (f'openat({place}, "{name}", {how})', f"{fd}{shown}"), (f'open("{name}", {how})', f"{fd}{shown}"),
        (f'creat("{name}", 0644)', f"{fd}{shown}"), (f'unlink("{name}")', "0"), (f'unlinkat({place}, "{name}", 0)', "0"),
        (f'unlinkat({place}, "{name}", AT_REMOVEDIR)', "0"), (f"close({fd}{shown})", "0"), (f"close({fd})", "0"),
        (f'mkdir("{name}", 0755)', "0"), (f'rename("/d/b", "{name}")', "0"), (f"pread64({fd}{shown}, \"\"..., 9, 0)", "5"),
        (f'mkdirat({place}, "{name}", 0755)', "0"), (f'rmdir("{name}")', "0"), (f'rename("{name}", "{other}")', "0"),
        (f'renameat({place}, "{name}", 7</d>, "{other}")', "0"), (f'link("{name}", "{other}")', "0"),
        (f'renameat2({place}, "{name}", {place}, "{other}", {draw(st.sampled_from(["0", "RENAME_EXCHANGE"]))})', "0"),
        (f'linkat({place}, "{name}", 7, "{other}", {draw(st.sampled_from(["0", "AT_EMPTY_PATH"]))})', "0"),
        (f'stat("{name}", {draw(STRUCTS)})', "0"), (f'lstat("{name}", {draw(STRUCTS)})', "0"),
        (f'access("{name}", R_OK|W_OK)', "0"),
        (f'newfstatat({place}, "{name}", {draw(STRUCTS)}, AT_SYMLINK_NOFOLLOW)', "0"), (f'faccessat({place}, "{name}", F_OK)', "0"),
        (f'newfstatat({fd}{shown}, "", {draw(STRUCTS)}, AT_EMPTY_PATH)', "0"), (f'chmod("{name}", 0600)', "0"),
        (f'statx({place}, "{name}", AT_STATX_SYNC_AS_STAT, STATX_SIZE, {draw(STATXS)})', "0"),
        (f'statx({fd}{shown}, "", AT_EMPTY_PATH, STATX_SIZE, {draw(STATXS)})', "0"),
        (f'symlink("{other}", "{name}")', "0"), (f'faccessat({fd}{shown}, "", F_OK)', "0"), (f'truncate("{name}", 5)', "0"),
    ]  # fmt: skip
    call, result = draw(st.sampled_from(calls))
    return f"{call} = -1 {draw(ERRORS)}" if draw(st.integers(0, 5)) == 5 else f"{call} = {result} <0.000005>"


@st.composite
def lines_of_strace(draw: Any) -> str:
    """A line about descriptors 3 and 60 (one description), 4 and 5 (no file)."""
    fd, count, at = draw(FDS), draw(COUNTS), draw(OFFSETS)
    who = f"{fd}<{PATHS[fd]}>" if draw(st.booleans()) else f"{fd}"
    asked = count + draw(st.sampled_from([0, 0, 0, 100]))
    data = draw(st.sampled_from(['""...', '"a\\"b, 7) = 3"', "0x7ffe"]))
    return draw(
        st.sampled_from(
            [
                f"read({who}, {data}, {asked}) = {count}", f"write({who}, {data}, {count}) = {count}",
                f"pread64({who}, {data}, {asked}, {at}) = {count}", f"pwrite64({who}, {data}, {count}, {at}) = {count}",
                f"lseek({who}, {at}, SEEK_SET) = {at}", f"lseek({who}, -1, SEEK_CUR)   = {at}", f"fsync({who}) = 0",
                f"lseek({who}, 0, SEEK_END) = {at}", f"fdatasync({who}) = 0", f"ftruncate({who}, {at}) = 0",
                f"read({who}, {data}, {asked}) = -1 EIO (Input/output error)", f"write({who}, {data}, 07) = 7",
                f"lseek({who}, -1, SEEK_END) = {at}", f"fstat({who}, {draw(STRUCTS)}) = 0", f"getdents64({who}, 0x7f, 9) = {count}",
                f"ioctl({who}, {draw(REQUESTS)}, 0x7f) = {draw(RESULTS)}",
                f"fcntl({who}, {draw(COMMANDS)}) = 0", f"fcntl({who}, F_DUPFD, 4) = 60{who[len(str(fd)):]}", "brk(NULL) = 0x55",
                f"fchmod({who}, 0600) = {draw(RESULTS)}", f"futex(0x7f, FUTEX_WAIT, 1) = {draw(RESULTS)}",
                f"prctl(PR_SET_NAME, \"a) = 7\", <x>) = {draw(RESULTS)}", f"utimensat({who}, NULL, [1) = 2], 0) = {draw(RESULTS)}",
                "exit_group(0) = ?", "io_uring_enter(3, 1) = 1", "brk(0 <unfinished ...>", "<... brk resumed>) = 7",
                f"close({who}) = 0", 'openat(AT_FDCWD, "/d/b", O_RDWR|O_CREAT) = 4</d/b>',
                'openat(AT_FDCWD, "/d/b", O_WRONLY|O_APPEND|O_SYNC) = 4</d/b>',
                f"lseek({who}, garbage", f"ftruncate({who}, garbage) = 0", "openat(AT_FDCWD, garbage) = 4", "close(garbage",
                'unlink("/d/b", garbage', "Hello, world!", "frobnicate(3) = 0", f"dup2({who}, 60 garbage",
            ]
        )
    )  # fmt: skip


@given(
    st.lists(
        st.tuples(st.sampled_from(["1", "1", "22"]), st.one_of(lines_of_strace(), lines_on_paths())),
        min_size=4,
        max_size=60,
    ),
    st.booleans(),
    st.sampled_from([None, "/d"]),
    st.integers(100, 4000),
)
@settings(max_examples=200)
def test_strace(
    tmp_path_factory: Any, lines: list[tuple[str, str]], timed: bool, under: str | None, block: int
) -> None:
    head = [
        'openat(AT_FDCWD, "/d/a", O_RDWR) = 3</d/a>',
        "dup2(3, 60) = 60",
        'openat(AT_FDCWD, "/dev/null", O_RDWR) = 5</dev/null>',
    ]
    every = [("1", line) for line in head] + lines
    text = "".join(f"{pid} {f'1700000000.{i:06} ' if timed else ''}{line}\n" for i, (pid, line) in enumerate(every))
    folder = tmp_path_factory.mktemp("strace")
    fast = outcome(strace, folder, text.encode(), 2, 0, block, under)
    assert same(fast, outcome(strace, folder, text.encode(), FAR, FAR, block, under))


@pytest.mark.parametrize(
    "lines",
    [
        ['openat(AT_FDCWD</w>, "a", O_RDWR|O_CREAT) = 3</w/a>', 'open("", O_RDONLY) = -1 ENOENT (No such file or directory)',
         'openat(AT_FDCWD</w>, "b", O_RDWR|O_CREAT) = 4</w/b>'],
        ['openat(AT_FDCWD</w>, "a", O_RDONLY) = 3</w/a>', 'chdir("/w" = 0', 'unlinkat(AT_FDCWD, "b", 0) = 0',
         'unlinkat(AT_FDCWD</w>, "c", 0) = 0', "close(3) = 0"],
        ['open("x", O_RDWR|O_CREAT, 0644) = 3', 'openat(7, "x", O_RDONLY) = 4'],
        ['open("/b/c", O_RDONLY) = 6', 'open("x", O_RDWR|O_CREAT, 0644) = 3', 'openat(7, "/b/x", O_RDONLY) = 4'],
        ['unlink("/sys/dir") = 0', 'open("/sys/dir", O_RDONLY|O_DIRECTORY) = 3', 'openat(3, "a", O_RDWR|O_CREAT, 0600) = 4'],
    ],
    ids=["empty path", "doubt", "no base", "a name without a base", "unlink of a special file"],
)  # fmt: skip
@pytest.mark.parametrize("under", [None, "/w"])
def test_a_later_call_changes_nothing_about_an_earlier_one(tmp_path: Path, lines: list[str], under: str | None) -> None:
    first = f'stat("/{"x" * 900}") = 0'  # a block of its own, which shows the kind of the times
    text = "".join(f"1 1700000000.{i:06} {line}\n" for i, line in enumerate([first, *lines])).encode()
    fast = outcome(strace, tmp_path, text, 1, 0, 950, under)
    assert same(fast, outcome(strace, tmp_path, text, FAR, FAR, 1 << 20, under))


def test_a_path_that_could_not_be_opened_is_not_looked_up(tmp_path: Path) -> None:
    """A look-up would add a remark that process 22 made calls before its fork."""
    failed = '22 {} open("rel", O_RDONLY) = -1 EACCES (Permission denied)'
    lines = [f'1 {{}} stat("/{"x" * 900}") = 0', failed, failed, "1 {} sync() = 0", "1 {} fork() = 22"]
    text = "".join(line.format(f"1700000000.{i:06}") + "\n" for i, line in enumerate(lines)).encode()
    assert same(outcome(strace, tmp_path, text, 1, 0, 950), outcome(strace, tmp_path, text, FAR, FAR, 950))


def test_a_call_on_an_unknown_descriptor_before_the_fork_is_remarked(tmp_path: Path) -> None:
    call = '22 {} read(9, "", 5) = 5'
    lines = [f'1 {{}} stat("/{"x" * 900}") = 0', call, call, "1 {} sync() = 0", "1 {} fork() = 22"]
    text = "".join(line.format(f"1700000000.{i:06}") + "\n" for i, line in enumerate(lines)).encode()
    fast = outcome(strace, tmp_path, text, 1, 0, 950)
    assert same(fast, outcome(strace, tmp_path, text, FAR, FAR, 950)) and "process, late" in fast[4]["blind"]


@pytest.mark.parametrize(
    "line",
    ["lseek(3, 0, SEEK_CUR) = 0 <unfinished ...>", "brk(0) = -1 ENOMEM (No memory) <unfinished ...>",
     "read(3, strace: Process 5 attached", 'open("/d/a", AT_REMOVEDIR) = 4', "chmod(a)\xa0= 0) = -1 EIO (I/O error)"],
)  # fmt: skip
def test_damaged_lines_between_calls(tmp_path: Path, line: str) -> None:
    calls = ['open("/d/a", O_RDWR|O_CREAT, 0600) = 3', "sync() = 0", line, "brk(0) = 0x5", 'write(3, "", 7) = 7']
    text = "".join(f"1 1700000000.{i:06} {call}\n" for i, call in enumerate(calls)).encode("latin-1")
    for block in (40, 130, 200):
        fast = outcome(strace, tmp_path, text, 1, 0, block)
        assert same(fast, outcome(strace, tmp_path, text, FAR, FAR, block))


@pytest.mark.parametrize("name", ["futex", "ioctl"])
def test_calls_without_a_file_operation_are_no_trace(tmp_path: Path, name: str) -> None:
    """A failed ioctl shows that the text is from strace; a call that does nothing to files does not."""
    text = f"1 1.5 {name}(3, TCGETS, 0x7) = -1 EINVAL (Invalid argument)\n".encode() * 99
    fast = outcome(strace, tmp_path, text, 1, 0, 300)
    assert same(fast, outcome(strace, tmp_path, text, FAR, FAR, 300)) and isinstance(fast, str) == (name == "futex")


def test_a_directory_that_is_exchanged_with_itself_keeps_its_files(tmp_path: Path) -> None:
    made = 'open("/a/f", O_RDWR|O_CREAT, 0600) = 3'
    exchanged = 'renameat2(AT_FDCWD, "/a", AT_FDCWD, "/a", RENAME_EXCHANGE) = 0'
    lines = ['mkdir("/a", 0755) = 0', made, 'write(3, "", 7) = 7', "close(3) = 0", exchanged, made]
    text = "".join(f"1 1700000000.{i:06} {line}\n" for i, line in enumerate(["sync() = 0", *lines])).encode()
    for enough, short in ((1, 0), (FAR, FAR)):
        found = outcome(strace, tmp_path, text, enough, short, 40)
        assert found[1].count("/a/f") == 1 and not any("\0" in path for path in found[1])


def test_files_of_earlier_stretches(tmp_path: Path) -> None:
    """Each call on a path finds the files that only their names refer to."""
    calls = [
        'stat("{}", {{st_mode=S_IFREG|0644, st_size=9, ...}}) = 0', 'rename("{}", "/d/new") = 0', 'rename("/d/other", "{}") = 0',
        'link("{}", "/d/new") = 0', 'unlink("{}") = 0', 'open("{}", O_RDWR) = 3', 'open("{}", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3',
        'truncate("{}", 5) = 0', 'rename("/d", "/e") = 0', 'renameat2(7, "{}", 7, "/d/other", RENAME_EXCHANGE) = 0',
        'open("{}", O_RDWR) = -1 ENOENT (No such file or directory)', 'open("{}/below", O_RDWR|O_CREAT) = 3', "garbage(\"{}\"",
        'mkdir("{}", 0755) = 0', 'renameat2(7, "/d", 7, "/d/../d", RENAME_EXCHANGE) = 0',
    ]  # fmt: skip
    made = ['open("{0}", O_RDWR|O_CREAT, 0600) = 3', 'write(3, "", 7) = 7', "close(3) = 0"]
    for first in calls:
        for second in calls:
            lines = [line.format(name) for name in ("/d/a", "/d/other") for line in made]
            lines += [first.format("/d/a"), second.format("/d/a"), *(line.format("/d/a") for line in made[:2])]
            text = "".join(f"1 1700000000.{i:06} {line}\n" for i, line in enumerate(["sync() = 0", *lines])).encode()
            fast = outcome(strace, tmp_path, text, 1, 0, 40, None)
            assert same(fast, outcome(strace, tmp_path, text, FAR, FAR, 1 << 20, None)), (first, second)


@pytest.mark.parametrize("importer", [strace, perf_script], ids=["strace", "perf"])
@given(seed=st.integers(0, 1 << 32), edits=st.sampled_from((0, 1, 4, 20)), block=st.sampled_from((300, 4000)))
@settings(max_examples=40)
def test_damaged_samples(tmp_path_factory: Any, importer: Any, seed: int, edits: int, block: int) -> None:
    draw = random.Random(seed)
    files = {strace: ["tricky.strace", "sqlite_wal.strace", "varmail_head.strace", "iozone_head.strace"],
             perf_script: ["perf_raw.txt", "perf_named.txt"]}[importer]  # fmt: skip
    folder = "strace" if importer is strace else "formats"
    data = mutated((DATA / folder / draw.choice(files)).read_bytes(), draw, edits)
    where = tmp_path_factory.mktemp("samples")
    assert same(outcome(importer, where, data, 2, 0, block), outcome(importer, where, data, FAR, FAR, block))


@pytest.mark.parametrize("seed", range(24))
def test_stretches_of_a_trace_that_begins_with_them(tmp_path: Path, seed: int) -> None:
    """The first object, path and description of a stretch have the number 0."""
    draw = random.Random(seed)
    who = draw.choice(["", "", "0 ", "7 "])
    calls = [
        'openat(AT_FDCWD, "/e", O_RDWR|O_CREAT|O_EXCL, 0644) = 3</e>', 'open("/", O_RDONLY|O_DIRECTORY) = 3</>',
        'creat("/e", 0644) = 3', 'open("/d/a", O_RDWR) = 4</d/a>', 'open("/e", O_RDWR|O_CREAT) = 3</e>', 'unlink("/e") = 0',
        'unlink("/d/a") = 0', 'unlink("/") = 0', "close(3) = 0", "close(4</d/a>) = 0", "fsync(3) = 0", "close(3</e>) = 0",
        'open("/e", O_RDONLY) = -1 ENOENT (No such file or directory)',
        'open("/", O_RDWR) = -1 ENOENT (No such file or directory)',
        'unlink("/e") = -1 EACCES (Permission denied)', 'unlink("/") = -1 EISDIR (Is a directory)',
        'read(3, ""..., 9) = 5', 'write(3, ""..., 5) = 5',
        f'pread64(4, ""..., {1 << 31}, 7) = {1 << 31}', f'write(4, ""..., {(1 << 31) + 1}) = {(1 << 31) + 1}', "fsync(0) = 0",
        'open("/e", O_RDONLY) = 65535', 'open("/e", O_RDONLY) = 65536', 'read(65535, ""..., 9) = 9', 'read(65536, ""..., 9) = 9',
        'open("/dev/null", O_RDWR) = 3', 'open("/e", O_RDONLY) = 0</e>', 'open("/e", O_RDWR|O_CREAT|O_TRUNC, 0600) = 0',
    ]  # fmt: skip
    first = f'{who}stat("/{"x" * 900}") = 0'  # a block of its own, which tells that there are no times
    for _ in range(12):
        lines = draw.choices(calls, k=draw.randint(1, 12))
        text = "".join(f"{line}\n" for line in [first, *(f"{who}{line}" for line in lines)]).encode()
        under = draw.choice([None, None, "/d"])
        fast = outcome(strace, tmp_path, text, 1, 0, len(first) + 1, under)
        assert same(fast, outcome(strace, tmp_path, text, FAR, FAR, 1 << 20, under))


@st.composite
def calls_of_perf(draw: Any) -> list[tuple[str, int, list[int], int]]:
    """Finished calls: (thread, number, arguments, result)."""
    out = []
    for _ in range(draw(st.integers(1, 40))):
        fd, count, at = draw(FDS), draw(COUNTS), draw(OFFSETS)
        number, *args = draw(st.sampled_from([
            (0, fd, 1, count), (1, fd, 1, count), (17, fd, 1, count, at), (18, fd, 1, count, at), (8, fd, at, 0),
            (8, fd, at, 2), (74, fd), (75, fd), (77, fd, at), (3, fd), (257, 0, 1, 0o102), (257, 0, 1, 0o2001),
            (257, 0, 1, 0o1302), (257, 0, 1, 0o1001), (257, 0, 1, 0o20200002), (2, 1, 0o2000102), (2, 1, 0o10000000), (85, 1),
        ]))  # fmt: skip
        result = {
            0: count,
            1: count,
            17: count,
            18: count,
            8: at,
            **dict.fromkeys((2, 85, 257), draw(st.sampled_from([3, 4]))),
        }.get(number, 0)
        result = -5 if draw(st.integers(0, 9)) == 9 else result
        out.append((draw(st.sampled_from(["1/1", "1/2", "3/3"])), number, args, result))
    return out


@given(calls_of_perf())
@settings(max_examples=50)
def test_perf(tmp_path_factory: Any, calls: list[tuple[str, int, list[int], int]]) -> None:
    head = [("1/1", 257, [0, 1, 0o2], 3), ("1/1", 32, [3], 60), ("1/1", 41, [1, 1, 1], 5)]
    lines = []
    for i, (who, number, args, result) in enumerate([*head, *calls]):
        words = ", ".join(f"{a:x}" for a in (*args, *[0] * (6 - len(args))))
        lines.append(f"{who} 5.{2 * i:06}: raw_syscalls:sys_enter: NR {number} ({words})\n")
        lines.append(f"{who} 5.{2 * i + 1:06}: raw_syscalls:sys_exit: NR {number} = {result}\n")
    folder, data = tmp_path_factory.mktemp("perf"), "".join(lines).encode()
    assert same(
        outcome(perf_script, folder, data, 2, 0, 1 << 20), outcome(perf_script, folder, data, FAR, FAR, 1 << 20)
    )
