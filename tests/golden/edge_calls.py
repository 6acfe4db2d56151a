"""Calls for the stored events (events.py) at the edges of a kind.

Processes at the same addresses, logs that are collected, directories that need a block of a full device, pieces of 2 MiB that are
scarce, files that change after their last close.
"""

import random
from collections.abc import Iterator

from scmsim.core.records import KEEP_SIZE, OWN_PROCESS, PRIVATE, PUNCH_HOLE, WRITABLE_SHARED
from tests.golden.more_calls import NAMES, PAGE, SUPER, fill


def processes() -> Iterator[tuple]:
    """Mappings of three processes at the same few addresses, over each other in part; files that grow to an edge of 2 MiB."""
    draw = random.Random(9).random

    def one_of(what):
        return what[int(draw() * len(what))]

    yield from (("create", file, 0, 0, 0) for file in (1, 2, 3))
    yield from (("write", 1, 0, SUPER - PAGE), ("fallocate", 2, 0, 2 * SUPER), ("truncate", 3, 2 * SUPER + PAGE))
    for at in (0, SUPER):  # zeros of 2 MiB that are stored to, from one process and from another
        yield from (
            ("mmap", 3, 0, 2 * SUPER, -1, WRITABLE_SHARED, 0),
            ("mmap", 3, 0, 2 * SUPER, -1, WRITABLE_SHARED | OWN_PROCESS, 0, 1),
        )
        yield from (("load", 3, at, 8), ("load", 3, at + 9 * PAGE, 8, -1, 0, 0, 1), ("store", 3, at + PAGE, 8))
        yield from (
            ("load", 3, at + 7 * PAGE, 8),
            ("store", 3, at + 8 * PAGE, PAGE, -1, 0, 0, 1),
            ("load", 3, at, 5 * PAGE),
            ("msync", 3, 0, 2 * SUPER),
        )
    for number in range(150):
        file, thread, at = 1 + int(draw() * 3), int(draw() * 3), one_of((0, 1, 2, 510, 511, 512)) * PAGE
        flag = one_of(
            (WRITABLE_SHARED | OWN_PROCESS, WRITABLE_SHARED | OWN_PROCESS, WRITABLE_SHARED, PRIVATE | OWN_PROCESS)
        )
        where = (1 << 33) + at + one_of((0, 0, PAGE, SUPER))
        yield "mmap", file, at, one_of((1, 2, 3, 511, 512, 513)) * PAGE, -1, flag, where, thread
        for op in one_of((("store",), ("load", "store"), ("store", "munmap"), ("store", "msync", "store"))):
            yield op, file, at + one_of((0, PAGE - 8, PAGE)), one_of((8, PAGE, PAGE + 1)), -1, 0, 0, thread
        if number % 10 == 9:
            end = (number // 10 % 3 + 1) * SUPER
            yield from (
                ("write", 3, end - PAGE, PAGE),
                ("store", 3, end - PAGE, 8),
                ("write", 3, end, 1),
                ("load", 3, end, 1),
            )
            yield from (
                ("truncate", 3, one_of((end, end - PAGE, end + 1))),
                ("write", 1, SUPER - PAGE, PAGE * one_of((1, 2))),
            )
            yield from (
                ("write", 1, SUPER, PAGE),
                ("truncate", 1, 100),
                ("write", 1, 0, one_of((SUPER - 1, SUPER, SUPER + 1))),
            )
    yield from (("unlink", file, 0, 0, 0) for file in (1, 2, 3))


def churn() -> Iterator[tuple]:
    """Names that come and go in a directory that mkdir made, and changes of one file's inode, until logs are long and collected."""
    yield from (("mkdir", 8, 0, 0, 0), ("create", 1, 0, 0, 8), ("create", 2, 0, 0, 8), ("write", 2, 0, 3 * PAGE))
    for number in range(300):
        file = 3 + number % 4
        yield from (
            ("create", file, 0, 0, 8),
            ("rename" if number % 3 == 0 else "stat", file),
            ("unlink", file, 0, 0, 8),
        )
        yield from (("truncate", 2, PAGE * (number % 5)), ("write", 2, PAGE * (number % 3), 64 * (number % 60) + 1))
        if number % 50 == 49:
            yield from (("create", 9 + number // 50, 0, 0, 8), ("readdir", 8), ("fsync", 2), ("link", 2, 0, 0, 8))
            yield from (("read", 2, 0, 5 * PAGE), ("unlink", 2, 0, 0, 8), ("sync", -1))
            yield from (
                ("close", 2),
                ("write", 2, 3 * SUPER, 0),
                ("fallocate", 2, 3 * SUPER, 0),
                ("truncate", 2, 6 * PAGE),
                ("open", 2),
            )
    yield from (("unlink", file, 0, 0, 8) for file in (1, 2, 10, 11, 12, 13, 14, 9))
    yield from (("rmdir", 8, 0, 0, 0), ("sync", -1))


def names_full() -> Iterator[tuple]:
    """Long names in two directories of a device that is full to the block, or has room for one, two, ... more blocks."""
    other = NAMES - 1
    yield from (("mkdir", other, 0, 0, 0), ("create", 1, 0, 0, 0), ("create", 2, 0, 0, 0), ("write", 2, 0, 14 * PAGE))
    yield from fill(1, 0, 8 << 20)
    at, file = 0, 3
    for room in range(14):
        for _ in range(14 if room % 3 else 28):
            yield "create", file, 0, 0, (0, other)[file % 2]
            file += 1
        yield from (("mkdir", file, 0, 0, other), ("rename", 3 + room, 0, 0, file + 1), ("link", 4 + room, 0, 0, other))
        yield from (("rename", 5 + room, 0, 0, 6 + room), ("fsync", 5 + room), ("write", 7 + room, 0, 1))
        if room % 4 == 3:
            yield from (("unlink", 30 + 9 * room + each, 0, 0, (0, other)[each % 2]) for each in range(9))
        yield from (("sync", -1), ("truncate", 2, (13 - room) * PAGE), ("write", 1, (64 << 20) + at, PAGE))
        at += PAGE * (room % 2)
    yield from (("unlink", each, 0, 0, (0, other)[each % 2]) for each in range(1, file + 2))
    yield from (("rmdir", other, 0, 0, 0), ("sync", -1))


def huge_full() -> Iterator[tuple]:
    """Pieces of 2 MiB, whole and in part, of a device that has few of them, which fill up, are cut and fall apart."""
    yield from (("create", file, 0, 0, 0) for file in range(1, 7))
    yield from (("fallocate", 1, 0, SUPER), ("write", 2, 0, SUPER), ("write", 3, 100, PAGE), ("write", 4, SUPER - 1, 2))
    for number in range(16):
        file, at = 1 + number % 6, number % 4 * SUPER
        yield from (
            ("write", file, at + number * 100, SUPER),
            ("fallocate", file, at + PAGE, SUPER, -1, KEEP_SIZE * (number % 2)),
        )
        yield from (("truncate", file, at + SUPER), ("read", file, 0, 9 * SUPER), ("fsync", file))
        yield from (
            ("mmap", file, 0, 2 * SUPER, -1, WRITABLE_SHARED, 0),
            ("store", file, at % (2 * SUPER), 8),
            ("load", file, SUPER - PAGE, 2 * PAGE),
        )
        if number % 3 == 2:
            yield from (
                ("fallocate", file, number * PAGE, SUPER, -1, KEEP_SIZE | PUNCH_HOLE),
                ("truncate", 1 + file % 6, SUPER + 5),
            )
            yield from (("write", file, number * PAGE, 3 * PAGE), ("close", file), ("write", file, 4 * SUPER, PAGE))
        if number % 5 == 4:
            yield from (
                ("unlink", file, 0, 0, 0),
                ("create", file, 0, 0, 0),
                ("truncate", file, 2 * SUPER),
                ("write", file, PAGE, 1),
            )
    yield from (("unlink", file, 0, 0, 0) for file in range(1, 7))


def closed() -> Iterator[tuple]:
    """Files that were closed, by sizes at an edge, get the length of their last page, a byte less or more, or nothing."""
    ends = (1, PAGE - 1, PAGE, PAGE + 1, 11 * PAGE, SUPER - PAGE, SUPER, SUPER + 1, 2 * SUPER - 1)
    for number, end in enumerate(end for end in ends for _ in range(3)):
        file, page = 1 + number % 7, -(-end // PAGE) * PAGE
        op = ("write", "fallocate", "truncate")[number % 3]
        yield from (("create", file, 0, 0, 0), ("write", file, 0, end), ("close", file))
        for stop in (end, page - 1, page, page + 1):
            at, length = (stop, 0) if op == "truncate" else (stop - 1, 1)
            yield from (
                (op, file, stop + PAGE, 0) if op != "truncate" else ("stat", file),
                (op, file, at, length),
                ("read", file, at, PAGE),
            )
        yield from (
            ("open", file),
            ("write", file, page - 1, 2),
            ("close", file),
            ("close", file),
            ("unlink", file, 0, 0, 0),
        )
    yield "sync", -1


def patterns() -> Iterator[tuple]:
    """Every second page of a file, then all; 2 MiB that two mappings have; names of which most go, so that logs are thin."""
    yield from (("create", file, 0, 0, 0) for file in (1, 2, 3))
    for file, step in ((1, 2), (2, 3)):
        yield from (("write", file, page * PAGE, PAGE) for page in range(0, 24, step))
        yield from (("read", file, 0, 30 * PAGE), ("write", file, 100, 26 * PAGE), ("fsync", file))
        yield from (("fallocate", file, page * PAGE, PAGE) for page in range(30, 50, step))
        yield from (
            ("fallocate", file, 29 * PAGE, 20 * PAGE, -1, KEEP_SIZE),
            ("write", file, 31 * PAGE, 9 * PAGE),
            ("sync", -1),
        )
    yield from (("fallocate", 3, 0, 2 * SUPER), ("write", 3, 0, 2 * SUPER), ("fsync", 3))
    for thread in (0, 1):
        yield "mmap", 3, 0, 2 * SUPER, -1, WRITABLE_SHARED | OWN_PROCESS, 0, thread
    for op in ("load", "store", "load"):
        yield from ((op, 3, at, 8, -1, 0, 0, thread) for at in (0, SUPER, SUPER + 7 * PAGE) for thread in (0, 1))
    yield from (
        ("msync", 3, 0, 2 * SUPER),
        ("store", 3, PAGE, 8, -1, 0, 0, 1),
        ("truncate", 3, SUPER + 1),
        ("munmap", 3, 0, 2 * SUPER),
    )
    yield "mkdir", 8, 0, 0, 0
    plain = [file for file in range(4, 38) if file % 8]
    for keep in (5, 3, 7, 4):
        for _ in range(3):
            yield from (("create", file, 0, 0, 8) for file in plain)
            yield from (("unlink", file, 0, 0, 8) for file in plain if file % keep)
        yield from (("truncate", 1, (keep + k % 3) * PAGE) for k in range(90))
    yield from (("readdir", 8), ("sync", -1))


def larger_than_left() -> Iterator[tuple]:
    """Writes that are larger than what is left of a device, with room for one block, two, ... of it."""
    yield from (("create", file, 0, 0, 0) for file in (1, 2, 3))
    yield from (("write", 2, 0, 40 * PAGE), ("write", 1, 0, 200 << 20), *fill(1, 300 << 20, 8 << 20))
    for room in range(1, 15):
        yield from (("truncate", 2, (40 - room) * PAGE), ("sync", -1), ("write", 3, room * 13 * PAGE + 5, 300 * PAGE))
        yield from (("fsync", 3), ("truncate", 3, room * PAGE), ("write", 2, (40 - room) * PAGE, (room + 3) * PAGE))
        yield from (
            ("truncate", 3, 0),
            ("write", 1, (400 << 20) + room * (9 << 20), 2 << 20),
            ("truncate", 1, 300 << 20),
        )
    yield from (("unlink", file, 0, 0, 0) for file in (1, 2, 3))
