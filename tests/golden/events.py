"""The events of traces of all kinds of calls, a short digest a call or some: any change of a model's events shows, and where.

And what a model asks for meanwhile, events of room and words of tables: it changes no event, but memory and speed.
`TRACES` has them: on a large device with the parameters' defaults or others, on a small one that fills up, of mapped files ...
Compiled or not, the same in some seconds a model.  `python -m tests.golden.make [FS ...]` writes them.
"""

import itertools
import json
import pathlib
import random
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from scmsim.core import registry
from scmsim.core.records import (
    DATA_ONLY,
    KEEP_SIZE,
    MADVISE,
    POPULATE,
    PRIVATE,
    PUNCH_HOLE,
    REMAPPED,
    SYNCHRONOUS,
    WRITABLE_SHARED,
)
from tests.fs import drive, tight
from tests.golden import edge_calls, more_calls
from tests.golden.options import HUGE, LARGER, OTHERWISE, SMALL, THIRD, VARIED

EVENTS, ASKED = (pathlib.Path(__file__).with_name(name) for name in ("events.txt", "asked.txt"))
FILES = 40  # 0, 8, 16, 24 and 32 are directories; 38 and 39 existed before
FOLDERS = range(0, FILES, 8)
SIZES = [0, *[-1] * (FILES - 3), 1, 70_000]
PATHS = [
    "/" + "d" * (1 + file) if file in FOLDERS else "/d/" + chr(97 + file % 26) * (1 + 6 * file) for file in range(FILES)
]
TOUCHES = (
    ["load"] * 6
    + ["store"] * 10
    + ["mmap", "munmap", "msync", "msync", "madvise", "write", "fsync", "truncate", "fallocate"]
)
DONT_NEED = 4  # MADV_DONTNEED
SCARCE = ["write"] * 12 + ["fallocate"] * 4 + ["read"] * 2 + ["truncate", "create", "fsync"]
KINDS = (
    ["write"] * 16 + ["read"] * 8 + ["create"] * 8 + ["unlink", "rename", "truncate", "fallocate", "fsync"] * 3
    + ["link", "mkdir", "rmdir", "open", "close", "stat", "readdir", "sync", "mmap", "mmap", "munmap"]
)  # fmt: skip
FLAGS = {"write": (0, 0, 0, SYNCHRONOUS), "fsync": (0, DATA_ONLY), "fallocate": (0, KEEP_SIZE, KEEP_SIZE | PUNCH_HOLE)}
LENGTHS = (1, 60, 512, 4095, 4096, 5000, 16_384, 70_000, 300_000)
WAITS = (1000, 1000, 1000, 1_000_000, 3_000_000_000)  # ns
# So that calls come at the very tick of a timer, or when a file is just so old.
ON_TIME = (0, 0, 0, 10**9, 10**9, 5 * 10**9, 25 * 10**9)  # ns
# Limits of a state record that short traces would not reach.
LIMITS = {"txn_limit": 5, "cil_limit": 4096}


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
    yield from (("readdir", 0, 0, 1000), ("readdir", 0), ("sync", -1))
    yield from (("unlink", file, 0, 0, 8 * (file % 2)) for file in range(1, FILES - 2) if file not in FOLDERS)


def scarce() -> Iterator[tuple]:
    """Large writes until nothing fits any more, between calls that give room back, and then all goes."""
    draw = random.Random(3).random
    plain = [file for file in range(1, 14) if file not in FOLDERS]
    yield from (("create", file, 0, 0, 8 * (file % 2)) for file in plain)
    for _ in range(170):
        op, file = SCARCE[int(draw() * len(SCARCE))], plain[int(draw() * len(plain))]
        at, length = (
            int(draw() * 8) * 300_000 + int(draw() * 3) * 2048,
            (600_000, 300_000, 20_000, 4096, 100)[int(draw() * 5)],
        )
        if op == "create":
            yield from (("unlink", file, 0, 0, 8 * (file % 2)), (op, file, 0, 0, 8 * (file % 2)))
        elif op == "fallocate":
            yield op, file, at, length, -1, FLAGS[op][int(draw() * 3)]
        else:
            yield op, file, at, length
    yield from (("unlink", file, 0, 0, 8 * (file % 2)) for file in plain)


def mapped() -> Iterator[tuple]:
    """Touches of a written file, of one with blocks without content and of a hole, each of two times 2 MiB and more."""
    draw = random.Random(4).random

    def one_of(what):
        return what[int(draw() * len(what))]

    large = (4 << 20) + 70_000
    yield from (("create", file, 0, 0, 0) for file in (1, 2, 3))
    yield from (("write", 1, 0, large), ("fallocate", 2, 0, large), ("truncate", 3, large))
    for number in range(200):
        file, at = one_of((1, 1, 2, 3)), one_of((0, 15, 16, 500, 511, 512, 513, 1023, 1024, 1040)) * 4096
        op, length = one_of(TOUCHES), one_of((1, 8, 17, 512, 517, 1024)) * 4096
        if number % 50 == 0:
            yield from (
                ("mmap", each, 0, 5 << 20, -1, one_of((WRITABLE_SHARED, PRIVATE | POPULATE, 0))) for each in (1, 2, 3)
            )
        if op in ("load", "store"):
            yield op, file, at + one_of((0, 0, 8, 4090)), one_of((1, 8, 100, 5000, 80_000))
        elif op == "write":
            yield op, file, at, one_of((100, 4096, 70_000))
        elif op == "mmap":
            yield op, file, at, length, -1, one_of((WRITABLE_SHARED, WRITABLE_SHARED | POPULATE, PRIVATE, 0, REMAPPED))
        elif op == "fallocate":
            yield op, file, at, length, -1, one_of(FLAGS[op])
        elif op == "truncate":
            yield from ((op, file, at + 5), (op, file, large))
        else:
            yield op, file, at, length


def pieces(calls: Iterator[tuple], count: int) -> Iterator[list[tuple]]:
    """The calls of each digest, so many each."""
    while piece := list(itertools.islice(calls, count)):
        yield piece


class Trace(NamedTuple):
    """Calls on files, the parameters beside a capacity of 16 GiB, and how many calls a digest is of."""

    calls: Callable[[str], Iterator[list[tuple]]]  # of a file system, in pieces
    files: drive.Files
    params: Callable[[str], Mapping[str, str]] = lambda fs: {}
    waits: Sequence[int] = WAITS  # before a call, ns
    limits: Mapping[str, int] = {}  # fields of a state record that are set


def in_pieces(calls: Callable[[], Iterator[tuple]], count: int) -> Callable[[str], Iterator[list[tuple]]]:
    """The same calls for every file system."""
    return lambda fs: pieces(calls(), count)


FEW = drive.files(*SIZES, dirs=FOLDERS, names=PATHS)
TRACES = {
    "calls": Trace(lambda fs: itertools.chain(pieces(rows(1, 500), 1), pieces(small_writes(), 32)), FEW),
    "full": Trace(in_pieces(scarce, 4), FEW, lambda fs: {"capacity": SMALL[fs], **OTHERWISE.get(fs, {})}),
    "mapped": Trace(in_pieces(mapped, 4), FEW, lambda fs: OTHERWISE.get(fs, {})),
    "varied": Trace(in_pieces(lambda: rows(7, 220), 4), FEW, lambda fs: VARIED.get(fs, {})),
    "known": Trace(
        in_pieces(more_calls.known, 4),
        drive.files(*more_calls.KNOWN, dirs=more_calls.KNOWN_FOLDERS, names=more_calls.KNOWN_PATHS),
    ),
    "forms": Trace(lambda fs: pieces(more_calls.forms(far_page(fs)), 4), FEW),
    "directories": Trace(
        lambda fs: pieces(
            more_calls.directories(540 if fs == "xfs-dax" else 180), 8
        ),  # XFS' have a form for many names
        drive.files(0, *[-1] * (more_calls.NAMES - 1), dirs=more_calls.NAME_FOLDERS, names=more_calls.NAME_PATHS),
    ),
    "to-the-block": Trace(in_pieces(more_calls.to_the_block, 4), FEW, lambda fs: {"capacity": SMALL[fs]}),
    "mapped-full": Trace(in_pieces(more_calls.mapped_full, 4), FEW, lambda fs: {"capacity": SMALL[fs]}),
    "advised": Trace(in_pieces(more_calls.advised, 4), FEW, lambda fs: VARIED.get(fs, {})),
    "appended": Trace(in_pieces(more_calls.appended, 8), FEW, lambda fs: VARIED.get(fs, {})),
    "on-time": Trace(in_pieces(lambda: rows(9, 160), 4), FEW, lambda fs: THIRD.get(fs, {}), ON_TIME),
    "limits": Trace(in_pieces(lambda: rows(10, 160), 4), FEW, lambda fs: THIRD.get(fs, {}), limits=LIMITS),
    "processes": Trace(in_pieces(edge_calls.processes, 4), FEW, lambda fs: THIRD.get(fs, {})),
    "churn": Trace(in_pieces(edge_calls.churn, 16), FEW),
    "names-full": Trace(
        in_pieces(edge_calls.names_full, 8),
        drive.files(0, *[-1] * (more_calls.NAMES - 1), dirs=more_calls.NAME_FOLDERS, names=more_calls.NAME_PATHS),
        lambda fs: {"capacity": SMALL[fs]},
    ),
    "huge-full": Trace(
        in_pieces(edge_calls.huge_full, 4), FEW, lambda fs: {"capacity": LARGER[fs], **HUGE.get(fs, {})}
    ),
    "closed": Trace(in_pieces(edge_calls.closed, 4), FEW, lambda fs: HUGE.get(fs, {})),
    "patterns": Trace(in_pieces(edge_calls.patterns, 16), FEW, lambda fs: HUGE.get(fs, {})),
    "larger": Trace(in_pieces(edge_calls.larger_than_left, 4), FEW, lambda fs: {"capacity": SMALL[fs]}),
    "objects": Trace(in_pieces(more_calls.objects, 4), FEW),
}


def traces_of(fs: str) -> list[str]:
    """Names of the traces that a model takes; files with pages of 1 GiB would soon have no room."""
    if fs.endswith("-1g"):
        return ["calls", "full", "mapped"]
    left_out = {"objects": fs != "scm-manager", "processes": not hasattr(registry.load("fs", fs), "mapped")}
    return [name for name in TRACES if not left_out.get(name)]


def far_page(fs: str) -> int:
    """A page behind the first GiB, or behind 8 MiB where files have no holes."""
    return (1 << 18) + 5 if getattr(registry.load("fs", fs), "HOLES", True) else 1 << 11


def batches(fs: str, trace: str) -> Iterator[tuple[tuple, np.recarray]]:
    """(First row, operations) of each piece of a trace, with times, and with the program's memory where a row does not say."""
    steps, now, waits = random.Random(2).random, 0, TRACES[trace].waits
    for piece in TRACES[trace].calls(fs):
        batch = drive.ops(*(given[:6] for given in piece))
        for row, given in zip(batch, piece, strict=True):
            now += waits[int(steps() * len(waits))]
            drawn = int(steps() * 9000) if row.op != MADVISE else DONT_NEED
            row.time_ns, (row.buffer, row.thread) = now, (*given[6:], *(drawn, 0)[len(given[6:]) :])
        yield piece[0], batch


def params_of(fs: str, trace: str) -> Mapping[str, str]:
    """Parameters of a model for a trace."""
    return {"capacity": "16GiB", **TRACES[trace].params(fs)}


def digests(model: tight.Model, trace: str) -> Iterator[tuple[str, str]]:
    """(Where, four hexadecimal digits) of each piece, and at the end those of the space report.

    The model has no room to spare.  Every second piece goes in as a whole, the others call by call.
    """
    for number, (first, batch) in enumerate(batches(model.fs, trace)):
        parts = [model.feed(batch)] if number % 2 else [model.feed(batch[i : i + 1]) for i in range(len(batch))]
        for i, events in enumerate(parts):
            events.op += i
        yield str(first), digest(b"".join(events.tobytes() for events in parts))
    yield "the space report", digest(json.dumps(model.space()).encode())


def model_for(fs: str, trace: str) -> tight.Model:
    """A fresh model for a trace."""
    model = tight.Model(fs, TRACES[trace].files, **params_of(fs, trace))
    for name, value in TRACES[trace].limits.items():
        if name in model.record.dtype.names:
            model.record[name] = value
    return model


def asked(model: tight.Model) -> list[str]:
    """What a model has asked for, by kind of call: events of room + words of its tables."""
    return [f"{kind}:{events}+{words}" for kind, (events, words) in sorted(model.asked.items())]


def digest(what: bytes) -> str:
    """Four hexadecimal digits."""
    return f"{zlib.crc32(what) & 0xFFFF:04x}"


def stored(path: pathlib.Path) -> dict[str, list[str]]:
    """File system and trace -> what is stored of it."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {name: figures for name, *figures in map(str.split, lines)}


def write(names: Sequence[str]) -> None:
    """Write what is stored of these file systems, or of all, and keep the others'."""
    tables: dict[pathlib.Path, dict[str, list[str]]] = {EVENTS: {}, ASKED: {}}
    for fs in names or registry.names("fs"):
        for trace in traces_of(fs):
            model = model_for(fs, trace)
            tables[EVENTS][f"{fs}/{trace}"] = [each for _, each in digests(model, trace)]
            tables[ASKED][f"{fs}/{trace}"] = asked(model)
    for path, table in tables.items():
        kept = {name: old for name, old in stored(path).items() if name.split("/")[0] not in names} if names else {}
        lines = [f"{name} {' '.join(figures)}\n" for name, figures in sorted((kept | table).items())]
        path.write_text("".join(lines), encoding="utf-8")
