"""Histories for the allocation of blocks: every call is possible when it comes, and files keep within their share."""

import numpy as np
import pytest

from scmsim.core.errors import UsageError
from scmsim.core.records import (
    CLOSE,
    CREATE,
    FALLOCATE,
    FSYNC,
    KEEP_SIZE,
    MMAP,
    OPEN,
    PUNCH_HOLE,
    RENAME,
    SYNC,
    TRUNCATE,
    ULOAD,
    UNLINK,
    WRITE,
)
from scmsim.workload import churn, written

MIB = 1 << 20


def rows(work):
    return np.concatenate([batch.view(np.ndarray) for batch in work.batches()])


@pytest.mark.parametrize("seed", range(8))
def test_a_history_uses_files_that_exist_and_keeps_within_its_share(seed):
    work = churn.Workload(operations=400, files=9, unit=MIB, fill=1, device=1 << 30, seed=seed)
    sizes, taken, opened, most = {}, {}, set(), 0
    for row in rows(work):
        op, file, flag, end = row["op"], int(row["file"]), int(row["flag"]), int(row["offset"] + row["length"])
        if op == CREATE:
            assert file not in sizes and 1 <= row["file2"] <= 4
            sizes[file], taken[file] = 0, 0
            opened.add(file)
        elif op == SYNC:
            continue
        assert file in sizes
        if op in (WRITE, FSYNC, FALLOCATE, TRUNCATE):
            assert file in opened
        if op == OPEN:
            assert file not in opened
            opened.add(file)
        elif op == CLOSE:
            opened.remove(file)
        elif op == UNLINK:
            assert file not in opened
            del sizes[file], taken[file]
        elif op == RENAME and row["file2"] >= 0:
            assert row["file2"] != file and row["file2"] not in opened
            del sizes[int(row["file2"])], taken[int(row["file2"])]
        elif op == WRITE or (op == FALLOCATE and not flag & PUNCH_HOLE):
            assert row["length"] > 0
            taken[file] = max(taken[file], -(-end // 4096) * 4096)
            sizes[file] = sizes[file] if flag & KEEP_SIZE else max(sizes[file], end)
        elif op == FALLOCATE:
            assert flag & KEEP_SIZE and 0 <= row["offset"] < end <= sizes[file]
        elif op == TRUNCATE:
            taken[file] = min(taken[file], -(-int(row["offset"]) // 4096) * 4096)
            sizes[file] = int(row["offset"])
        most = max(most, sum(taken.values()))
    assert not opened and len(sizes) <= 9 and 5 * MIB < most <= (1 << 30) // 100


def test_a_history_has_every_kind_of_change_and_several_files_at_once():
    every = rows(churn.Workload(operations=3000, fill=50))
    assert {CREATE, OPEN, WRITE, FSYNC, TRUNCATE, FALLOCATE, UNLINK, RENAME, CLOSE, SYNC} == set(every["op"].tolist())
    assert {0, KEEP_SIZE, PUNCH_HOLE | KEEP_SIZE} == set(every["flag"][every["op"] == FALLOCATE].tolist())
    files = every["file"][every["op"] == WRITE]
    assert (files[:-2] == files[2:])[files[:-2] != files[1:-1]].sum() > 50  # a, b, a
    assert not (rows(churn.Workload(operations=3000, fill=50, reserve=0))["op"] == FALLOCATE).any()


def test_a_seed_decides_the_history():
    one, again, other = (rows(churn.Workload(operations=200, seed=seed)) for seed in (1, 1, 2))
    assert (one == again).all() and len(one) >= 200 and one[: len(other)].tobytes() != other[: len(one)].tobytes()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"fill": 0}, "fill = 0 percent"),
        ({"fill": 1, "unit": 64 * MIB}, "less than four units"),
        ({"unit": 1000}, "unit = 1000; it must be at least 4096"),
        ({"files": 0}, "files = 0"),
    ],
)
def test_a_mistake_is_one_line(given, said):
    with pytest.raises(UsageError, match=said):
        churn.Workload(**given)


@pytest.mark.parametrize(("first", "op"), [("nothing", WRITE), ("truncate", TRUNCATE), ("fallocate", FALLOCATE)])
def test_a_file_is_written_in_units_and_every_page_is_loaded_from(first, op):
    every = rows(written.Workload(unit=3 * 4096, file_size=10 * 4096 + 5, first=first))
    assert every["op"][:2].tolist() == [CREATE, op] and every["op"][-1] == CLOSE
    writes, loads = (every[every["op"] == kind] for kind in (WRITE, ULOAD))
    assert writes["length"].tolist() == [12288, 12288, 12288, 4101] and writes["offset"][-1] == 36864
    assert loads["offset"].tolist() == [4096 * k for k in range(11)] and loads["length"].tolist() == [8] * 10 + [5]
    assert (every["op"] == MMAP).sum() == 1
    sizes = every[every["op"] == op][["offset", "length"]][0].item()
    assert first == "nothing" or sizes == ((40965, 0) if op == TRUNCATE else (0, 40965))


def test_another_file_may_be_written_before():
    plain, after = rows(written.Workload(file_size=MIB)), rows(written.Workload(file_size=MIB, before=10000))
    assert (after[-len(plain) :][["op", "file", "offset", "length"]] == plain[["op", "file", "offset", "length"]]).all()
    ahead = after[: -len(plain)]
    assert ahead["op"].tolist() == [CREATE, *[WRITE] * 3, CLOSE] and set(ahead["file"].tolist()) == {2}
    assert ahead["length"][1:4].tolist() == [4096, 4096, 1808]


def test_a_file_may_be_left_unmapped():
    assert not np.isin(rows(written.Workload(map=0))["op"], (MMAP, ULOAD)).any()
    with pytest.raises(UsageError, match="first of written"):
        written.Workload(first="mmap")
