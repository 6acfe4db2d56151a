"""Every workload of applications keeps the promises of a source, and asks for nothing that no file system could do."""

import inspect
import json

import numpy as np
import pytest

from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.core.records import (
    CLOSE,
    CREATE,
    FALLOCATE,
    FILE_TO_MM,
    FREE,
    FSYNC,
    MALLOC,
    MKDIR,
    MM_TO_FILE,
    MMAP,
    MUNMAP,
    OPEN,
    OPS,
    READ,
    READDIR,
    RENAME,
    STAT,
    TRUNCATE,
    ULOAD,
    UNLINK,
    USTORE,
    WRITE,
    joined,
)
from scmsim.pipeline import model_params
from scmsim.trace.rules import first_problem
from scmsim.workload import _stream

SMALL_LSM = {"records": 3000, "operations": 2000, "write_buffer": 1 << 19, "target": 1 << 19, "level_base": 1 << 20}
CASES = [
    ("andrew", {"repeats": 2}),
    ("andrew", {"phase": "scandir", "files": 5, "total": 60_000, "dirs": 2}),
    ("thesis", {"total": 8 << 20, "size_from": 1 << 20, "size_to": 2 << 20, "unit_to": 48 << 10}),
    ("thesis", {"total": 4 << 20, "size_from": 1 << 20, "size_to": 1 << 20, "unit_from": 4 << 20, "unit_to": 4 << 20}),
    ("sqlite", {"transactions": 50}),
    ("sqlite", {"transactions": 50, "op": "insert", "rows": 30, "synchronous": "normal"}),
    ("sqlite", {"transactions": 600, "journal": "wal", "checkpoint": 300, "synchronous": "off"}),
    ("sqlite", {"transactions": 40, "journal": "wal", "op": "read", "records": 30_000}),
    ("lsm", {"workload": "a", **SMALL_LSM}),
    ("lsm", {"workload": "d", "sync": 1, **SMALL_LSM}),
    ("lsm", {"workload": "e", "bloom": 10, **SMALL_LSM}),
    ("lsm", {"workload": "fill", **SMALL_LSM}),
    (
        "db-bench",
        {
            "command": "--benchmarks=fillrandom,overwrite,readrandom,seekrandom,readseq --num=3000 --write_buffer_size=262144"
        },
    ),
    ("db-bench", {"command": "--benchmarks=fillsync,fillseq,updaterandom,readwhilewriting --num=2000 --threads=2"}),
    ("lsm", {"workload": "d", "records": 1, "operations": 300, "bloom": 10}),
    ("ageing", {"capacity": 8 << 20}),
    ("ageing", {"capacity": 1 << 20, "utilisation": 1, "sizes": "fixed", "mean": 70_000, "churn": 100}),
    ("ageing", {"capacity": 64 << 20, "sizes": "lognormal", "victims": "oldest", "setup": 1, "unit": 4096}),
    ("memory_objects", {"app": "micro"}),
    ("memory_objects", {"app": "cp", "interface": "files"}),
    ("memory_objects", {"app": "cp"}),
    ("memory_objects", {"app": "distillery"}),
    ("memory_objects", {"app": "ftpget"}),
    ("memory_objects", {"app": "churn", "live": 20, "calls": 500}),
    *(("kvcache", {"by": by, "gap": 3, "capacity": 4 << 30}) for by in ("map", "calls", "files")),
]
NAMES = ("andrew", "thesis", "sqlite", "lsm", "ageing", "memory-objects", "kvcache")


def make(name, given):
    return registry.load("workload", name.replace("_", "-")).Workload(**given)


def rows(work, chunk=1 << 14):
    return joined(list(work.batches(chunk)))


@pytest.mark.parametrize(("name", "given"), CASES)
def test_rows_chunks_times_and_rules(name, given):
    work = make(name, {**given, "interval": 7})
    batch = rows(work)
    assert len(batch) == work.rows and first_problem(batch, len(work.files)) is None
    assert (batch["time_ns"] == 7 * np.arange(len(batch))).all()
    for chunk in (97, 5000):
        parts = list(work.batches(chunk))
        assert max(map(len, parts)) <= chunk and (joined(parts) == batch).all()
    assert (rows(make(name, {**given, "interval": 7})) == batch).all()


@pytest.mark.parametrize(("name", "given"), CASES)
def test_no_call_is_impossible(name, given):
    """A file is created once, used while it exists, read within its size, and transfers of one file never start anywhere
    but where the file is."""
    work = make(name, given)
    size = dict(enumerate(work.files.first_size.tolist()))
    for number, (op, file, offset, length) in enumerate(
        zip(*(rows(work)[c].tolist() for c in ("op", "file", "offset", "length")), strict=True)
    ):
        where = f"row {number}: {OPS[op]} of {work.files.path[file]}"
        if op in (CREATE, MKDIR, MALLOC):
            assert size[file] < 0, where
            size[file] = length if op == MALLOC else 0
            continue
        assert op in (CLOSE, FSYNC) or size[file] >= 0, where
        if op in (READ, ULOAD, USTORE):
            assert 0 <= offset and (offset + length <= size[file] or not length), where
        elif op == WRITE:
            assert offset <= size[file] or work.files.path[file].endswith("-shm"), where
            size[file] = max(size[file], offset + length)
        elif op == TRUNCATE:
            size[file] = offset
        elif op in (UNLINK, FREE):
            size[file] = -1
        else:
            known = (OPEN, CLOSE, FSYNC, STAT, READDIR, RENAME, FALLOCATE, MMAP, MUNMAP, MM_TO_FILE, FILE_TO_MM)
            assert op in known, where


@pytest.mark.parametrize("name", NAMES)
def test_parameters_header_and_defaults_agree(name):
    module = registry.load("workload", name)
    declared = registry.literals("workload", name)["PARAMS"]
    assert module.PARAMS == declared and registry.literals("workload", name)["SUMMARY"]
    signature = inspect.signature(module.Workload)
    defaults = {key: value.default for key, value in signature.parameters.items()}
    assert defaults == model_params("workload", name, {})
    work = module.Workload(total=1 << 26) if name == "thesis" else module.Workload()
    told = json.loads(json.dumps(work.header))
    assert told["workload"].keys() - {"kind"} == declared.keys() and told["tool"] == f"scmsim synth {name}"


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("sqlite", {"transactions": 30}),
        ("lsm", SMALL_LSM),
        ("ageing", {"capacity": 1 << 22}),
        ("memory_objects", {"app": "churn", "live": 5, "calls": 50}),
        ("andrew", {}),
        ("kvcache", {}),
    ],
)
def test_the_seed_changes_the_rows(name, given):
    one, other = rows(make(name, {**given, "seed": 1})), rows(make(name, {**given, "seed": 2}))
    assert len(one) != len(other) or (one != other).any()


@pytest.mark.parametrize(
    ("name", "given", "text"),
    [
        ("andrew", {"phase": "make"}, "no phase named 'make'"),
        ("andrew", {"files": 10, "total": 9}, "less than one byte for each of 10 files"),
        ("thesis", {"op": "rewrit"}, "did you mean 'rewrite'"),
        ("thesis", {"size_from": 3 << 30, "size_to": 4 << 30}, "no file size of the thesis is between 3GiB and 4GiB"),
        ("thesis", {"unit_from": 5000, "unit_to": 6000}, "no unit of the thesis is between 5000 and 6000"),
        ("thesis", {"total": 1 << 20}, "less than one pass over a file of 64MiB"),
        ("sqlite", {"journal": "persist"}, "no journal mode named 'persist'"),
        ("sqlite", {"blob": 4001}, "from 1 to 4000"),
        ("sqlite", {"rows": 0}, "rows = 0"),
        ("lsm", {"workload": "g"}, "no workload named 'g'"),
        ("lsm", {"write_buffer": 100}, "at least one record of 1171 bytes"),
        ("lsm", {"bloom": -1}, "bloom = -1"),
        ("ageing", {"sizes": "zipf"}, "no distribution of file sizes named 'zipf'"),
        ("ageing", {"utilisation": 101}, "utilisation = 101 percent"),
        ("ageing", {"capacity": 4096}, "less than one page"),
        ("memory_objects", {"app": "micro", "interface": "files"}, "micro has no separate version with file calls"),
        ("memory_objects", {"app": "ls"}, "no program named 'ls'"),
    ],
)
def test_what_is_impossible_is_refused(name, given, text):
    with pytest.raises(UsageError, match=text):
        make(name, given)


def test_pieces_are_cut_and_joined():
    class Three(_stream.Stream):
        def pieces(self):
            for length in (1, 0, 10, 3):
                yield _stream.ops(READ, np.arange(length), 0, 1)

    assert [len(batch) for batch in Three().batches(4)] == [4, 4, 4, 2]
    assert [len(batch) for batch in Three().batches(100)] == [14]
    assert Three().rows == 14
    with pytest.raises(UsageError, match="a chunk of 0 rows"):
        list(Three().batches(0))


def test_transfers_weave_and_repeated():
    which, reads = _stream.transfers(READ, np.array([7, 8, 9]), np.array([5, 0, 4]), 4)
    assert which.tolist() == [0, 0, 2]
    assert reads[["file", "offset", "length"]].tolist() == [(7, 0, 4), (7, 4, 1), (9, 0, 4)]
    woven = _stream.weave((np.array([2, 0]), _stream.ops(OPEN, [1, 2])), (1, _stream.ops(CLOSE, [3])))
    assert woven["file"].tolist() == [2, 3, 1]
    made = list(_stream.repeated(lambda: [reads], 3, 100_001))
    assert sum(map(len, made)) == 300_003 and max(map(len, made)) <= _stream.PIECE
    assert len(_stream.ops(READ, np.zeros(0, np.int64), 0, 1)) == 0
