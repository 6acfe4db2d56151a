"""The kernel that takes lines of strace apart: lines made of known values, and lines that it must leave to the patterns."""

import itertools

import numpy as np
import pytest

from scmsim.trace.kernels import strace_text as kernel
from scmsim.trace.kernels.strace_text import NAMES

PREFIXES = [
    ("", -1, -1), ("7 ", 7, -1), ("1234567   ", 1234567, -1), ("1.5 ", -1, 1_500_000_000),
    ("9 1700000000.000001 ", 9, 1_700_000_000_000_001_000), ("0 0.123456789 ", 0, 123_456_789),
    ("10 3999999999.999999999 ", 10, 3_999_999_999_999_999_999),
]  # fmt: skip
ODD_PREFIXES = [
    "07 ", "1 4000000000.1 ", "1 1.1234567890 ", "1 1. ", "1 1.5  ", "1 1.5", "1 1,5 ", "[pid 7] ", "x ",
    "1234567890123456789 ", "12345678 ",
    "1 01.5 ", "1 1234567890123456789.5 ", " ", "1 1.5 1.5 ", "1.", "7",
]  # fmt: skip
DESCRIPTORS = [
    ("3", 3, ""),
    ("0", 0, ""),
    ("3</d/f>", 3, "</d/f>"),
    ("12</a b, \\74) = 1>", 12, "</a b, \\74) = 1>"),
    ("10<>", 10, "<>"),
]
ODD_DESCRIPTORS = ["-1", "03", "3<a<b>>", "3</a", "x", "", "1234567890123456789", "3 ", "3</a>(deleted)", "3>"]
DATA = ['""', '""...', '"a\\"b, 7) = 3"...', '"\\\\"', "0x7f", "0x0123456789abcdef", '"0123456789"']
ODD_DATA = [
    "NULL",
    "'a'",
    '"a',
    "0x",
    "0xG",
    '"".',
    '""..',
    "",
    "x",
    "1x7",
    "0",
    '"\\"',
    "0x7f/",
    "0x7f:",
    "0x7f`",
    "0x7fg",
    "[1]",
]
NUMBERS = [0, 9, 10, 4096, 123456789012345678]
ODD_NUMBERS = ["01", "-1", "", "1 ", "x", "1234567890123456789", "0x10"]
PATHS = ['"/d/a"', '""', '"a\\"b, 1) = 2"', '"\\\\"']
DIRECTORIES = ["AT_FDCWD", "AT_FDCWD</w>", "7", "7</d>"]
ODD_DIRECTORIES = ["AT_FDCW", "AT_FDCWDX", "-100", "07", "", "AT_FDCWD</w", "AT_FDCWD</w>>"]
FLAGS = ["O_RDONLY", "O_RDWR|O_CREAT", "0", "AZ_09|Z"]
ODD_FLAGS = ["", "o_rdonly", "O_RDWR ", "{flags=1}", "A@", "A[", "0x/", "A{", "A:"]
STRUCTS = [
    ("{st_mode=S_IFREG|0644, st_size=0, ...}", 0), ("{st_mode=S_IFREG|04755, st_size=123456789012345678, ...}", 123456789012345678),
    ("{st_mode=S_IFDIR|S_ISVTX, st_size=4096, ...}", None), ("{st_mode=S_IFDIR|0755, st_size=4096, ...}", kernel.IS_DIRECTORY),
    ("0x7ffe", kernel.NO_LENGTH), ("NULL", kernel.NO_LENGTH), ("{st_mode=S_IFLNK|0777, st_size=4, ...}", None),
    ("{st_mode=S_IFREG|0644, st_size=1234567890123456789, ...}", None), ("{st_mode=S_IFREG|0644, st_size=4}", None),
    ("{st_mode=S_IFREG|0644, st_size=04, ...}", None), ("{st_mode=S_IFREG, st_size=4, ...}", None), ("0x", None), ("NUL", None),
    ("{st_mode=S_IFREG|0644, st_rdev=4, ...}", None), ("{st_mode=S_IFREGX|0644, st_size=4, ...}", None), ("", None),
]  # fmt: skip
ENDS = [(")", ""), (")   ", ""), (")", " <0.000005>"), (") ", " <1>")]
ERRORS = [("ENOENT (No such file)", 1), ("EIO (Input)", 2), ("ENOENTX (y)", 2), ("E2BIG (y)", 2), ("EZ09 (y)", 2)]


def apart(lines):
    """Take lines apart; return the joined text, the rows of the lines, the texts in them, and the columns of these texts."""
    text = "\n".join(lines).encode()
    rows, spans = np.full((len(lines), kernel.WIDTH), 77), np.zeros((7 * len(lines) + 2, kernel.TEXT_WIDTH), np.int64)
    heads, known = np.full(2 << (7 * len(lines)).bit_length(), -1), np.zeros(2, np.int64)
    assert kernel.take_apart(np.frombuffer(text, np.uint8), rows, spans, heads, known) == len(lines)
    spans = spans[: known[0]]
    texts = [text[start:end].decode() for start, end in spans[:, :2].tolist()]
    assert len(set(texts)) == len(texts)
    for i, one in enumerate(texts):
        assert kernel.number_of(*(np.frombuffer(each, np.uint8) for each in (one.encode(), text)), spans, heads) == i
    assert kernel.number_of(*(np.frombuffer(each, np.uint8) for each in (b"\n", text)), spans, heads) == -1
    return text, rows, texts, spans


def taken(lines):
    """Rows of the kernel as tuples (call, pid, time,
    fd, path, asked, offset, result, where, error); None: left to the patterns."""
    text, rows, texts, _ = apart(lines)
    found = []
    for line, (call, start, end, pid, time, fd, raw, asked, offset, result, base, path, flags, error, *two) in zip(
        lines, rows.tolist(), strict=True
    ):
        assert text[start:end].decode() == line
        raw, base, base2, flags = (texts[i] if i >= 0 else "" for i in (raw, base, two[0], flags))
        first, second = ([f'"{texts[i]}"'] if i >= 0 else [] for i in (path, two[1]))
        where = ", ".join(
            [base] * (base != "")
            + first
            + [base2] * (base2 != "")
            + second
            + [flags] * (flags != "" and call != kernel.NAMED)
        )
        if call == kernel.NAMED:
            assert line.partition("(")[0].split()[-1] == flags
        found.append(
            None if call == kernel.OTHER else (NAMES[call], pid, time, fd, raw, asked, offset, result, where, error)
        )
    return found


@pytest.mark.parametrize(
    ("path", "above"),
    [("/d/e/f", "/d/e/"), ("/f", "/"), ("f", ""), ("../.f", "../"), ("/d/...", "/d/"), ("/d//f", "/d//"), ("/d\\/f", "/d\\/"),
     ("", None), ("/d/", None), (".", None), ("/d/.", None), ("/d/..", None), ("/d/a\\tb", None), ("/d/\u00e9", None)],
)  # fmt: skip
def test_a_path_is_split_at_its_last_slash_if_a_plain_name_follows(path, above):
    for _, rows, texts, spans in (
        apart([f'unlink("{path}") = 0']),
        apart([f"fsync(3<{path}>) = 0", f'creat("{path}", 0) = 3']),
    ):
        first, last, split, tail = spans[rows[-1, kernel.PATH]].tolist()
        assert (texts[split] if split >= 0 else None) == above
        if above is not None:
            assert (tail - first, last - first) == (len(above), len(path))


def calls():
    """(text up to the bracket, name, fd, path, asked, offset, what a path says) for every kind of argument."""
    for (text, fd, raw), name in itertools.product(DESCRIPTORS, ("fsync", "fdatasync", "close")):
        yield f"{name}({text}", name, fd, raw, 0, 0, ""
    for number, data in enumerate(DATA):
        (text, fd, raw), asked = DESCRIPTORS[number % len(DESCRIPTORS)], NUMBERS[number % len(NUMBERS)]
        for name in ("read", "write"):
            yield f"{name}({text}, {data}, {asked}", name, fd, raw, asked, 0, ""
        for offset, name in itertools.product(NUMBERS, ("pread64", "pwrite64")):
            yield f"{name}({text}, {data}, {asked}, {offset}", name, fd, raw, asked, offset, ""
    for offset, whence in itertools.product((0, -1, 4096), ("SEEK_SET", "SEEK_CUR", "SEEK_END")):
        yield f"lseek(3</d/f>, {offset}, {whence}", "lseek", 3, "</d/f>", int(whence == "SEEK_END"), offset, ""
    for struct, asked in STRUCTS:
        if asked is None:
            continue
        yield f"fstat(3</d/f>, {struct}", "fstat", 3, "</d/f>", asked, 0, ""
        yield f'newfstatat(3</d/f>, "", {struct}, AT_EMPTY_PATH', "newfstatat", 3, "</d/f>", asked, 0, "AT_EMPTY_PATH"
        wide = struct.replace("{st_", "{stx_mask=STATX_ALL, stx_attributes=0, stx_").replace(" st_size", " stx_size")
        yield f'statx(7, "a", 0, STATX_SIZE, {wide}', "statx", 0, "", asked, 0, '7, "a", STATX_SIZE'
        yield f'newfstatat(7, "a", {struct}, 0', "newfstatat", 0, "", asked, 0, '7, "a", 0'
        yield f'stat("/a", {struct}', "stat", 0, "", asked, 0, '"/a"'
        yield f'lstat("", {struct}', "lstat", 0, "", asked, 0, '""'
    yield "ftruncate(3</d/f>, 4096", "ftruncate", 3, "</d/f>", 0, 4096, ""
    yield "getdents64(3</d>, 0x55 /* 2 entries */, 32768", "getdents64", 3, "</d>", 0, 0, ""
    yield "fcntl(3, F_GETFD", "fcntl", 3, "", 0, 0, "F_GETFD"
    yield "ioctl(3, TCGETS, {x", "ioctl", 3, "", 0, 0, "TCGETS"
    yield 'fcntl(3, F_SETLK, {l_type=F_RDLCK, x="a) = 5"}', "fcntl", 3, "", 0, 0, "F_SETLK"
    for arguments in ("", "NULL", '"a) = 5", <b) = 6>', "(), x)", "0x7f /* comment */"):
        yield f"brk({arguments}", "", 0, "", 0, 0, ""
    for number, path in enumerate(PATHS):
        directory, flags = DIRECTORIES[number], FLAGS[number]
        for name, told, more in (
            ("unlink", path, ""), ("creat", path, ", 0644"), ("open", f"{path}, {flags}", ""),
            ("open", f"{path}, {flags}", ", 0777"),
            ("openat", f"{directory}, {path}, {flags}", ""), ("openat", f"{directory}, {path}, {flags}", ", 01"),
            ("unlinkat", f"{directory}, {path}, {flags}", ""), ("rmdir", path, ""), ("mkdir", path, ", 0755"),
            ("mkdirat", f"{directory}, {path}", ", 0755"), ("access", f"{path}, {flags}", ""), ("rename", f'{path}, "/e"', ""),
            ("renameat", f'{directory}, {path}, 9</w>, "e"', ""), ("link", f'"", {path}', ""),
            ("renameat2", f'7, "e", {directory}, {path}, {flags}', ""), ("linkat", f'{directory}, "", 7, {path}, {flags}', ""),
        ):  # fmt: skip
            yield f"{name}({told}{more}", name, 0, "", 0, 0, told


def test_lines_of_known_values():
    lines, expected, number = [], [], 0
    for before, name, fd, raw, asked, offset, where in calls():
        opens = name in ("open", "openat", "creat")
        for end, error in ((None, 0), *((error, 0) for error in ERRORS[number % 5 :][:2])):
            number += 1
            (prefix, pid, time), (bracket, behind) = PREFIXES[number % len(PREFIXES)], ENDS[number % len(ENDS)]
            if end is not None:
                text, error = end
                result, shown, got, path = 0, f"-1 {text}", fd, raw
            elif opens:
                shown, got, path = DESCRIPTORS[number % len(DESCRIPTORS)]
                result = got
            else:
                result = NUMBERS[number % len(NUMBERS)]
                shown, got, path = str(result), fd, raw
            lines.append(f"{prefix}{before}{bracket} = {shown}{behind if end is None else ''}")
            expected.append((name, pid, time, got, path, asked, offset, result, where, error))
    for line, found, known in zip(lines, taken(lines), expected, strict=True):
        assert found == known, line


ODD = [
    *(f"{prefix}fsync(3) = 0" for prefix in ODD_PREFIXES), *(f"fsync({fd}) = 0" for fd in ODD_DESCRIPTORS),
    *(f"read(3, {data}, 5) = 5" for data in ODD_DATA), *(f'read(3, "", {number}) = 5' for number in ODD_NUMBERS),
    *(f'pread64(3, "", 5, {number}) = 5' for number in ODD_NUMBERS),
    *(f'openat({directory}, "a", O_RDWR) = 5' for directory in ODD_DIRECTORIES),
    *(f'open("a", {flags}) = 5' for flags in ODD_FLAGS), *(f'unlinkat(7, "a", {flags}) = 5' for flags in ODD_FLAGS),
    *(f'open("a", O_RDWR, {mode}) = 5' for mode in ("", "8", "0x1", "07 ", "/", "O_RDWR")), 'creat("a") = 3',
    'creat("a", O_RDWR) = 3',
    *(f"unlink({path}) = 0" for path in ('"a', "a", "", "'a'", '"a"...', '"a" ', "0x7f", '"a\\"')), 'unlink("a"',
    'unlinkat(7, "a") = 0',
    *(f"fsync(3{end}" for end in (")= 0", ") =0", ") = ", ") = 0x", ") = ?", ") = 0x0", ") = -5", ") = 00", ") = 0 x",
    ") = 0 <0.1",
                                   ") = 0 (0.1>", ") = 0<0.1>", ") = 0 <", ") 0", "", ")", " = 0", ", 5) = 0", ") = -1",
                                   ") = -1 X (y)",
                                   ") = -1 E (y)", ") = -1 EIO", ") = -1 EI", ") = -2 EIO (x)", ") = -1EIO (x)",
                                   ") = -1 Eio (x)")),
    *(f"lseek(3, {seek}) = 0" for seek in ("0, SEEK_EN", "0, SEEK_DATA", "0, SEEK_SE", "0, SEEK_CU", "--1, SEEK_SET",
    "0,SEEK_SET", ", SEEK_SET",
                                           "0, SEEK_SETX", "01, SEEK_SET", "0")),
    *(f"fstat(3, {struct}) = 0" for struct, asked in STRUCTS if asked is None),
    'stat("a", {stx_mask=0, stx_attributes=0, stx_mode=S_IFREG|0, stx_size=4, ...}) = 0',
    'statx(7, "a", 0, X, {st_mode=S_IFREG|0644, st_size=4, ...}) = 0', "fcntl(3) = 0",
    "fcntl(3, f) = 0", "getdents64(3) = 0", "brk((), x) =5) = 10",
    *(f"brk({rest}" for rest in ("0 = 0", "0) =0", "0) = -7", '"a) = 0', "0) = x", "<a) = 0", "0 <unfinished ...>", "<a->b>) = 0",
                                 "0) = 0 (x)", "\t) = 0", "0)= 0", "0) = 07", "0) = ?")),
    *(f"rename({rest}) = 0" for rest in ('"a"', '"a", "b", "c"', '7, "a", "b"', '"a" "b"', '"a", b')), 'mkdir("a") = 0',
    "Brk(0) = 0", "9rk(0) = 0",
    'renameat(7, "a", "b") = 0', 'renameat2(7, "a", 7, "b") = 0', 'access("a") = 0', 'rmdir("a", 0) = 0', "ftruncate(3, -1) = 0",
    'read(3,"", 5) = 5', 'read(3, "",5) = 5', 'read(3, "") = 5', "read(3) = 5", 'pread64(3, "", 5) = 5',
    'pread64(3, "", 5,6) = 5',
    'read(3, "", 5, 6) = 5', "fsync", "fsync(", "",
    "open(\"a\") = 3",
    'open("a", O_RDWR) = x', 'open("a", O_RDWR) = 3<a<b>>', 'openat(7</d>"a", O_RDWR) = 3', "--- SIGCHLD ---",
    "fsync(3 <unfinished ...>",
]  # fmt: skip


def test_lines_that_are_left_to_the_patterns():
    assert [line for line, found in zip(ODD, taken(ODD), strict=True) if found is not None] == []


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_the_last_line_may_have_an_end_or_not(end):
    text = f"fsync(3) = 0\n\nclose(3) = 0{end}".encode()
    rows, heads = np.zeros((6, kernel.WIDTH), np.int64), np.full(16, -1)
    lines = kernel.take_apart(
        np.frombuffer(text, np.uint8), rows, np.zeros((9, kernel.TEXT_WIDTH), np.int64), heads, np.zeros(2, np.int64)
    )
    assert lines == 3 + max(0, len(end) - 1) and rows[:3, kernel.CALL].tolist() == [
        kernel.FSYNC,
        kernel.OTHER,
        kernel.CLOSE,
    ]


def test_texts_that_meet_in_the_table_are_told_apart():
    """As many texts as the table has places, but one; each comes twice."""
    lines = [f"fsync(3</d/{i % 15}>) = 0" for i in range(30)]
    text = "\n".join(lines).encode()
    rows, spans, heads, known = (
        np.zeros((30, kernel.WIDTH), np.int64),
        np.zeros((15, kernel.TEXT_WIDTH), np.int64),
        np.full(16, -1),
        np.zeros(2, np.int64),
    )
    kernel.take_apart(np.frombuffer(text, np.uint8), rows, spans, heads, known)
    assert known[0] == 15 and rows[:, kernel.RAW].tolist() == [*range(15)] * 2 and sorted(heads) == [-1, *range(15)]
