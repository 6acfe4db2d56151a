"""The events of a trace of all kinds of calls, a short digest a call or some: any change of a model's events shows, and where.

Compiled or not, the same in a second.  `python -m tests.golden.make [FS ...]` writes them.
"""

import json
import pathlib
import random
import zlib
from collections.abc import Iterator, Sequence

from scmsim.core import registry
from scmsim.core.records import DATA_ONLY, KEEP_SIZE, PUNCH_HOLE, SYNCHRONOUS, WRITABLE_SHARED
from tests.fs import drive

PATH = pathlib.Path(__file__).with_suffix(".txt")
FILES = 40  # 0, 8, 16, 24 and 32 are directories; 38 and 39 existed before
FOLDERS = range(0, FILES, 8)
SIZES = [0, *[-1] * (FILES - 3), 1, 70_000]
PATHS = [
    "/" + "d" * (1 + file) if file in FOLDERS else "/d/" + chr(97 + file % 26) * (1 + 6 * file) for file in range(FILES)
]
KINDS = (
    ["write"] * 16 + ["read"] * 8 + ["create"] * 8 + ["unlink", "rename", "truncate", "fallocate", "fsync"] * 3
    + ["link", "mkdir", "rmdir", "open", "close", "stat", "readdir", "sync", "mmap", "mmap", "munmap"]
)  # fmt: skip
FLAGS = {"write": (0, 0, 0, SYNCHRONOUS), "fsync": (0, DATA_ONLY), "fallocate": (0, KEEP_SIZE, KEEP_SIZE | PUNCH_HOLE)}
LENGTHS = (1, 60, 512, 4095, 4096, 5000, 16_384, 70_000, 300_000)
WAITS = (1000, 1000, 1000, 1_000_000, 3_000_000_000)  # ns


def rows(seed: int, count: int) -> Iterator[tuple]:
    """Calls on few files at a time, so that they meet; random.random() gives the same in every version of Python."""
    draw = random.Random(seed).random

    def one_of(what):
        return what[int(draw() * len(what))]

    for number in range(count):
        op, file = one_of(KINDS), 1 + int(number / count * 32 + draw() * 8) % (FILES - 1)
        parent, at, flag = (
            one_of(FOLDERS),
            int(draw() * 20) * 4096 + one_of((0, 0, 1, 100, 4095)),
            one_of(FLAGS.get(op, (0,))),
        )
        file += file in FOLDERS
        if op in ("mkdir", "rmdir", "readdir"):
            yield op, one_of(FOLDERS[1:]), 0, 0, 0
        elif op == "sync":
            yield op, -1
        elif op == "rename":
            yield op, file, 0, 0, one_of((-1, -1, 1 + file % (FILES - 1), file - 1))
        elif op in ("create", "unlink", "link"):
            yield op, file, 0, 0, parent
        elif op == "mmap":
            yield op, file, 0, 1 << 17, -1, one_of((0, WRITABLE_SHARED))
            yield from ((kind, file, at, one_of((8, 64, 5000))) for kind in ("load", "store", "store", "msync"))
        elif op == "munmap":
            yield op, file, 0, 1 << 17
        else:
            yield op, file, at, one_of(LENGTHS), -1, flag


def small_writes() -> Iterator[tuple]:
    """A log that is long enough to be collected, two files whose pages alternate, and a directory of many names."""
    yield from (("create", file, 0, 0, 8 * (file % 2)) for file in range(1, FILES - 2) if file not in FOLDERS)
    for i in range(130):
        yield from (("write", 1, 1000 * at, 1000) for at in (2 * i, 2 * i + 1))
        yield from ((("write", 2, 8192 * i, 4096), ("write", 3, 4096 * (130 - i), 4096)))
    for file in (4, 5):  # large enough that some models move it
        yield from (("write", file, 100, 5 << 20), ("fallocate", file, 4096, 8192), ("write", file, 3 << 20, 3 << 20))
        yield from (
            ("close", file),
            *[("stat", 1)] * 6,
            ("read", file, 1 << 20, 3 << 20),
            ("write", file, 5000, 2 << 20),
        )
    yield from (("read", file, 0, 1 << 20) for file in (1, 2, 3))
    yield from (("truncate", file, 100_100) for file in (1, 2, 3))
    yield from (("readdir", 0), ("sync", -1))
    yield from (("unlink", file, 0, 0, 8 * (file % 2)) for file in range(1, FILES - 2) if file not in FOLDERS)


def pieces() -> list[list[tuple]]:
    """The calls of each digest."""
    small = list(small_writes())
    return [[row] for row in rows(1, 500)] + [small[i : i + 32] for i in range(0, len(small), 32)]


def digests(fs: str) -> Iterator[tuple[str, str]]:
    """(Where, four hexadecimal digits) of each piece, and at the end those of the space report."""
    steps, now = random.Random(2).random, 0
    model = drive.Model(fs, drive.files(*SIZES, dirs=FOLDERS, names=PATHS), capacity="16GiB")
    for piece in pieces():
        batch = drive.ops(*piece)
        for row in batch:
            now += WAITS[int(steps() * len(WAITS))]
            row.time_ns, row.buffer = now, int(steps() * 9000)
        yield str(piece[0]), digest(model.feed(batch).tobytes())
    yield "the space report", digest(json.dumps(model.space()).encode())


def digest(what: bytes) -> str:
    """Four hexadecimal digits."""
    return f"{zlib.crc32(what) & 0xFFFF:04x}"


def stored() -> dict[str, list[str]]:
    """File system -> its digests, as written."""
    lines = PATH.read_text(encoding="utf-8").splitlines()
    return {fs: digests for fs, *digests in map(str.split, lines)}


def write(names: Sequence[str]) -> None:
    """Write the digests of these file systems, or of all, and keep the others'."""
    table = {
        **(stored() if PATH.exists() else {}),
        **{fs: [each for _, each in digests(fs)] for fs in names or registry.names("fs")},
    }
    lines = [f"{fs} {' '.join(table[fs])}\n" for fs in sorted(table)]
    PATH.write_text("".join(lines), encoding="utf-8")
