"""Calls for the stored events (events.py), a kind a function: files from before, forms of files and of directories, full devices,
advice, and memory objects.

A row is (op, file, offset, length, second file, flag), and may have the program's memory (for madvise the advice, for mmap the
address) and the thread besides.
"""

import random
from collections.abc import Iterator

from scmsim.core.records import (
    APPENDS,
    DATA_ONLY,
    KEEP_SIZE,
    MAP_SYNC,
    NON_TEMPORAL,
    OWN_PROCESS,
    POPULATE,
    PRIVATE,
    PUNCH_HOLE,
    REMAPPED,
    SYNCHRONOUS,
    WRITABLE_SHARED,
)

PAGE, SUPER = 4096, 2 << 20
# Files from before the trace: 0 and 16 are directories; those of -1 come in the trace.
KNOWN = (
    0, 1, PAGE - 1, PAGE, PAGE + 1, 12 * PAGE, 12 * PAGE + 1, 300_000, SUPER - 1, SUPER, 2 * SUPER + 5000, 4 * SUPER + 1,
    100, 0, 70_000, 3 * SUPER, 0, -1, -1, -1, 9 * PAGE, 6 * SUPER - 100, PAGE, 5000,
)  # fmt: skip
KNOWN_FOLDERS = (0, 16)
KNOWN_PATHS = [
    f"/{'d' * (1 + file)}" if file in KNOWN_FOLDERS else f"/d/{'x' * (file * 11)}{file}" for file in range(len(KNOWN))
]
FIRST_TOUCH = (
    ("read", 0, 100), ("write", 5, 10), ("truncate", 3000, 0), ("fallocate", PAGE, 9000), ("stat", 0, 0), ("open", 0, 0),
    ("write", 12 * PAGE, 1), ("fsync", 0, 0), ("truncate", SUPER + 1, 0), ("write", SUPER - 1, 2), ("read", SUPER - 5, 9000),
)  # fmt: skip
ADVICE = (4, 14, 14, 15, 15, 22, 23)  # DONTNEED, HUGEPAGE, NOHUGEPAGE, POPULATE_READ and _WRITE


def known() -> Iterator[tuple]:
    """Files from before: each is met first by another call; then transfers, cuts and blocks around the end of each."""
    yield from (("rename", 23, 0, 0, 22), ("unlink", 12, 0, 0, 0), ("link", 13, 0, 0, 16), ("rename", 17, 0, 0, 14))
    for number, (op, at, length) in enumerate(FIRST_TOUCH):
        yield op, 1 + number, at, length
    yield from (("create", 17, 0, 0, 0), ("rename", 17, 0, 0, 14), ("create", 14, 0, 0, 16), ("create", 22, 0, 0, 0))
    for file in (1, 3, 5, 8, 9, 20):
        end = KNOWN[file]
        for edge in (end - 1, end, end + 1, -(-end // PAGE) * PAGE):
            yield from (("read", file, edge, 0), ("read", file, edge, 1), ("write", file, edge, 1))
        yield from (
            ("truncate", file, end + 5000),
            ("read", file, max(end - 10, 0), 9000),
            ("write", file, end + 9000, 100),
        )
        yield from (("truncate", file, end // 2), ("fallocate", file, end, PAGE + 1, -1, KEEP_SIZE))
        yield from (("read", file, 0, end + 10), ("write", file, end // 2, 0), ("truncate", file, end))
        yield "fallocate", file, PAGE, 2 * PAGE, -1, KEEP_SIZE | PUNCH_HOLE
        yield from (
            ("open", file),
            ("unlink", file, 0, 0, 0),
            ("write", file, 10, PAGE),
            ("close", file),
            ("close", file),
        )
    yield from (("stat", 4), *[("close", file) for file in (10, 11, 21)], *[("stat", 4)] * 3)
    for file in (10, 11, 15, 21):
        yield from (
            ("write", file, KNOWN[file] - 7, 5000),
            ("close", file),
            ("stat", 4),
            ("stat", 4),
            ("read", file, SUPER - 9, 5000),
        )
        yield from (
            ("truncate", file, SUPER + 100),
            ("read", file, 0, 5 * SUPER),
            ("write", file, 3000, SUPER),
            ("fsync", file),
        )
    yield from (("unlink", file, 0, 0, 0) for file in (11, 21, 15, 2))
    yield from (("sync", -1), ("stat", 4), ("stat", 4), ("stat", 4))


def forms(far: int) -> Iterator[tuple]:
    """Pages at the edges of what the inode, a node and a tree hold, up to the page `far`; then cuts and holes there."""
    edges = [0, 3, 4, 11, 12, 13, 340, 341, 500, 511, 512, 513, 1023, 1024, 1035, 1036, 1037, 2047, 2048, 2049]
    edges += [far - 2, far - 1, far >> 9, (far >> 9) + 12, far >> 1] if far > 4096 else []
    yield from (("create", file, 0, 0, 0) for file in (1, 2, 3))
    yield "write", 1, 0, 60
    for page in edges:
        yield from (("write", 1, page * PAGE, PAGE), ("read", 1, page * PAGE - 1 if page else 0, PAGE + 2))
    for page in sorted(edges, reverse=True)[::2]:
        yield from (("write", 2, page * PAGE + 7, PAGE), ("write", 2, page * PAGE, 1, -1, SYNCHRONOUS))
    for page in edges[3::3]:
        yield "fallocate", 3, page * PAGE, 3 * PAGE, -1, (0, KEEP_SIZE)[page % 2]
        yield from (("write", 3, page * PAGE + 100, PAGE), ("fsync", 3, 0, 0, -1, DATA_ONLY))
    for page in edges[::4]:
        yield "fallocate", 1, page * PAGE - 5 if page else 0, 2 * PAGE, -1, KEEP_SIZE | PUNCH_HOLE
    for page in sorted(edges, reverse=True):
        for cut in (page * PAGE + 1, page * PAGE):
            yield from (("truncate", file, cut) for file in (1, 2))
        yield "read", 2, max(page - 2, 0) * PAGE, 3 * PAGE
    yield from (("write", 2, 0, 600 * PAGE), ("truncate", 2, 513 * PAGE), ("write", 2, 0, 700 * PAGE), ("sync", -1))
    yield from (("unlink", file, 0, 0, 0) for file in (2, 3, 1))


NAMES = 560
NAME_FOLDERS = (0, NAMES - 1)
NAME_PATHS = [
    f"/{'e' * (1 + file % 7)}" if file in NAME_FOLDERS else
    f"/e/{'n' * (200 + file % 50 if file % 4 else file % 13)}{file}" for file in range(NAMES)
]  # fmt: skip


def directories(count: int) -> Iterator[tuple]:
    """A directory that outgrows its forms and shrinks, by names as long as can be or short, and moves to another directory."""
    plain, other = range(1, count), NAMES - 1
    yield "mkdir", other, 0, 0, 0
    for file in plain:
        yield "create", file, 0, 0, 0
        if file % 5 == 0:
            yield from (("close", file), ("stat", file), ("rename", file, 0, 0, -1))
        if file % 16 == 0:
            yield from (("readdir", 0), ("link", file, 0, 0, other), ("fsync", file))
    yield from (("rename", file, 0, 0, file + 1) for file in plain if file % 10 == 3)
    yield from (("unlink", file, 0, 0, 0) for file in plain if file % 3 == 0)
    yield from (("create", file, 0, 0, (0, other)[file % 2]) for file in plain if file % 6 < 2)
    yield from (("rmdir", other, 0, 0, 0), ("readdir", other), ("sync", -1))
    yield from (("unlink", file, 0, 0, 0) for file in reversed(plain) if file % 3 == 1)
    yield from (("write", file, 0, 50) for file in plain if file % 17 == 0)
    yield from (("unlink", file, 0, 0, 0) for file in plain for _ in (1, 2))
    yield from (("readdir", 0), ("rmdir", other, 0, 0, 0), ("sync", -1))


def fill(file: int, at: int, largest: int) -> Iterator[tuple]:
    """Writes to a file from `at` on, of half as much at every second, until one of a byte."""
    for step in range(26):
        yield "write", file, at, max(largest >> step // 2, 1)
        at += max(largest >> step // 2, 1)


def to_the_block() -> Iterator[tuple]:
    """Writes of half as much each time until not a byte fits; calls of all kinds there; room for one block, two, ... and again."""
    yield from (("create", file, 0, 0, 0) for file in range(1, 6))
    yield from (("write", 3, 0, PAGE), ("write", 4, 0, 2 * PAGE), ("write", 5, 100, 5 * PAGE))

    for number, file in enumerate((3, 4, 5)):
        yield from fill(1, (64 << 20) * number, 8 << 20)
        yield from (
            ("create", 6 + number, 0, 0, 0),
            ("write", 6 + number, 0, 1),
            ("fallocate", 2, 0, PAGE),
            ("mkdir", 24, 0, 0, 0),
        )
        yield from (
            ("write", 3, 1, 100),
            ("write", 3, PAGE - 1, 2),
            ("truncate", 4, 9 * PAGE),
            ("rename", 2),
            ("link", 5, 0, 0, 8),
        )
        yield from (("write", 4, 5 * PAGE, 3 * PAGE), ("fallocate", 5, PAGE, 9 * PAGE), ("fsync", 1), ("sync", -1))
        yield from (
            ("truncate", file, 0),
            ("fallocate", 2, PAGE, PAGE),
            ("write", file, 7, PAGE),
            ("write", 2, 8 * PAGE, 3 * PAGE),
        )
        yield from (("unlink", 6 + number, 0, 0, 0), ("truncate", 1, (64 << 20) * number + (1 << 20)), ("fsync", 1))
        yield from fill(2, 3 * PAGE + number, 1 << 18)
        yield from (("write", 2, 0, 300_000), ("truncate", 2, 0), ("sync", -1))
    yield from (("unlink", file, 0, 0, 0) for file in range(1, 9))


def mapped_full() -> Iterator[tuple]:
    """Stores to holes of a mapped file where the device has room for a few pages, or none, until some come back."""
    yield from (("create", file, 0, 0, 0) for file in range(1, 8))
    yield from (
        ("truncate", 1, 3 * SUPER),
        ("fallocate", 7, 0, 40 * PAGE),
        ("mmap", 1, 0, 3 * SUPER, -1, WRITABLE_SHARED, 0),
    )
    yield from (("write", file, 0, pages * PAGE) for file, pages in ((3, 9), (4, 3), (5, 1), (6, 300)))
    for number, file in enumerate((3, 5, 4, 6, 7)):
        yield from (*fill(2, (64 << 20) * number, 8 << 20), ("fsync", 2), ("sync", -1))
        yield from (("store", 1, (100 * number + page) * PAGE, 8) for page in (0, 1))
        yield from (("truncate", file, 0), ("sync", -1), ("load", 1, (100 * number + 7) * PAGE, 8))
        yield from (("store", 1, (100 * number + page) * PAGE + 4090, 5000) for page in (2, 4, 30, 31))
        yield from (
            ("madvise", 1, (100 * number + 40) * PAGE, 20 * PAGE, -1, 0, 23),
            ("store", 1, SUPER + number * PAGE, 9),
        )
        yield from (
            ("msync", 1, 0, SUPER),
            ("store", 1, (100 * number + 7) * PAGE, 8),
            ("fsync", 1),
            ("truncate", 2, (64 << 20) * number + SUPER),
        )
        yield "store", 1, 2 * SUPER + number * PAGE, 300_000
    yield from (("munmap", 1, 0, 3 * SUPER), *(("unlink", file, 0, 0, 0) for file in range(1, 8)))


def advised() -> Iterator[tuple]:
    """madvise, mremap, mmap at an address, of a process of its own and with MAP_SYNC, between touches of all kinds."""
    draw = random.Random(6).random

    def one_of(what):
        return what[int(draw() * len(what))]

    yield from (("create", file, 0, 0, 0) for file in (1, 2, 3))
    yield from (("write", 1, 0, 2 * SUPER + 70_000), ("fallocate", 2, 0, 3 * SUPER), ("truncate", 3, 3 * SUPER + 5))
    for number in range(190):
        file, at = one_of((1, 2, 3)), one_of((0, 1, 2, 16, 500, 511, 512, 513, 1023, 1024)) * PAGE
        length = one_of((1, 9, 300, 512, 513, 1100)) * PAGE
        if number % 45 == 0:
            yield from (
                ("mmap", each, 0, 4 * SUPER, -1, one_of((WRITABLE_SHARED, MAP_SYNC | WRITABLE_SHARED, PRIVATE)), 0)
                for each in (1, 2, 3)
            )
            yield "mmap", 2, 0, SUPER, -1, WRITABLE_SHARED | OWN_PROCESS, 0, 1
        kind = int(draw() * 12)
        if kind < 4:
            yield "madvise", file, at, length, -1, 0, one_of(ADVICE), 0
        elif kind == 4:
            yield "mmap", file, at, length, -1, REMAPPED, 0
        elif kind == 5:
            yield (
                "mmap",
                one_of((1, 2)),
                at,
                length,
                -1,
                one_of((0, PRIVATE, WRITABLE_SHARED | POPULATE, WRITABLE_SHARED | OWN_PROCESS)),
                (1 << 33) + at,
                number // 20 % 2,
            )
        elif kind == 6:
            yield one_of(("munmap", "msync", "fsync")), file, at, length
        elif kind == 7:
            yield "fallocate", file, at, length, -1, one_of((0, KEEP_SIZE | PUNCH_HOLE))
        else:
            flag = one_of((0, NON_TEMPORAL))
            yield from (
                (
                    one_of(("load", "store", "store", "flush")),
                    file,
                    at + one_of((0, 8, 4090)),
                    one_of((0, 1, 8, 100, 70_000)),
                    -1,
                    flag,
                    0,
                    number // 20 % 2,
                )
                for _ in (1, 2)
            )
            yield "fence", -1
    yield from (("truncate", 3, 0), ("munmap", 1, 0, 4 * SUPER), ("unlink", 2, 0, 0, 0), ("load", 2, 0, 8))


def objects() -> Iterator[tuple]:
    """Memory objects of all orders that are touched, become files, grow and become memory again."""
    draw = random.Random(7).random
    kinds = (
        ["malloc"] * 5
        + ["free"] * 3
        + ["load", "store"] * 3
        + ["mm_to_file", "file_to_mm"] * 2
        + ["create", "write", "read", "unlink", "truncate"]
    )
    for _ in range(260):
        op, file = kinds[int(draw() * len(kinds))], 1 + int(draw() * 7)
        at, length = (
            int(draw() * 3000),
            (0, 1, 63, 64, 65, 511, 512, 513, 3000, 70_000, 128 << 10, (128 << 10) + 1)[int(draw() * 12)],
        )
        yield op, file, at if op in ("load", "store", "write", "read", "truncate") else 0, length, (-1, 0)[draw() < 0.6]


def appended() -> Iterator[tuple]:
    """Small appends and overwrites of few files by several threads, so that logs and journals go round."""
    draw, ends = random.Random(8).random, [0, 0, 0, 0, 0, SUPER + 8192]
    yield from (("create", file, 0, 0, 0) for file in range(1, 6))
    yield "fallocate", 5, 0, ends[5]
    for number in range(640):
        file, length = 1 + int(draw() * 5), (1, 60, 100, 700, PAGE, 5000)[int(draw() * 6)]
        at = ends[file] if draw() < 0.7 else int(draw() * (ends[file] + 1))
        yield "write", file, at, length, -1, (0, APPENDS, SYNCHRONOUS)[int(draw() * 3)], number, int(draw() * 5)
        ends[file] = max(ends[file], at + length)
        if number % 40 == 39:
            ends[file] //= 2
            yield from (
                ("truncate", file, ends[file]),
                ("fsync", file),
                ("rename", file),
                ("read", file, 0, 1 << 20, -1, 0, number, int(draw() * 5)),
            )
    yield from (("unlink", file, 0, 0, 0) for file in range(1, 6))
