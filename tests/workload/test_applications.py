"""Andrew, the thesis' matrix, ageing and memory objects: their own promises."""

import numpy as np
import pytest

from scmsim.core.records import (
    CLOSE,
    CREATE,
    FILE_TO_MM,
    FREE,
    MALLOC,
    MKDIR,
    MM_TO_FILE,
    OPEN,
    OPS,
    READ,
    READDIR,
    SETUP,
    ULOAD,
    UNLINK,
    USTORE,
    WRITE,
    joined,
)
from scmsim.workload import ageing, andrew, memory_objects, thesis


def rows(work):
    return joined(list(work.batches()))


def counts(batch):
    return {OPS[op]: int(count) for op, count in enumerate(np.bincount(batch["op"])) if count}


def test_andrew_phases():
    work = andrew.Workload()
    batch = rows(work)
    assert work.sizes.sum() == 200 << 10 and len(work.sizes) == 70 and work.sizes.min() > 0
    calls = int((-(-work.sizes // 8192)).sum())
    assert counts(batch) == {
        "mkdir": 20, "create": 70, "open": 140, "close": 210, "read": 2 * calls + 140, "write": calls, "readdir": 20, "stat": 70,
    }  # fmt: skip
    assert (batch["op"][:20] == MKDIR).all()
    assert np.flatnonzero(batch["op"] == CREATE).max() < np.flatnonzero(batch["op"] == READDIR).min()
    assert batch["length"][batch["op"] == WRITE].sum() == 200 << 10
    assert batch["length"][batch["op"] == READ].sum() == 2 * (200 << 10)


def test_andrew_copies_one_file_after_the_other():
    work = andrew.Workload(files=2, total=20_000, dirs=1, unit=4096)
    batch = rows(work)
    copy = batch[(batch["op"] != MKDIR)][: np.flatnonzero(batch["op"] == READDIR)[0] - 1]
    first = copy[: np.flatnonzero(copy["op"] == CLOSE)[1] + 1]
    calls = -(-int(work.sizes[0]) // 4096)
    assert first["op"].tolist() == [OPEN, CREATE, *[READ, WRITE] * calls, READ, CLOSE, CLOSE]
    assert first["length"][-3] == 0 and first["offset"][-3] == work.sizes[0]


@pytest.mark.parametrize("phase", andrew.PHASES)
def test_andrew_counts_the_phase_asked_for(phase):
    batch = rows(andrew.Workload(phase=phase))
    counted = batch[(batch["flag"] & SETUP) == 0]
    expected = {
        "makedir": {"mkdir"}, "copy": {"open", "create", "read", "write", "close"}, "scandir": {"readdir", "stat"},
        "readall": {"open", "read", "close"},
    }  # fmt: skip
    assert set(counts(counted)) == expected[phase]


def test_the_thesis_has_616_cells_of_10_gib():
    cells = list(thesis.cells())
    assert len(cells) == 11 * 14 * 4 == 616
    assert len({(cell.size, cell.unit, cell.op) for cell in cells}) == 616
    assert [cell.op for cell in cells[:5]] == ["write", "rewrite", "read", "reread", "write"]
    assert (cells[0].size, cells[-1].size, cells[0].unit, cells[-1].unit) == (1 << 20, 1 << 30, 1 << 10, 4 << 20)
    for cell in cells[::37]:  # whole passes of whole units: at most one unit of each pass is dropped
        calls = (10 << 30) // cell.size * (cell.size // min(cell.unit, cell.size))
        extra = sum(
            times * sum(n for _, flag, n in part if flag & SETUP) for part, times in cell.source._passes(*cell[:3])
        )
        assert cell.source.rows == calls + extra


@pytest.mark.parametrize("op", thesis.OPERATIONS)
def test_a_cell_moves_its_total_over_one_file(op):
    batch = rows(thesis.Workload(op, 1 << 20, 1 << 20, 128 << 10, 128 << 10, total=5 << 20))
    counted = batch[(batch["flag"] & SETUP) == 0]
    assert counted["length"].sum() == 5 << 20 and (counted["op"] == (READ if "read" in op else WRITE)).all()
    assert counted["offset"].tolist() == [i * (128 << 10) for i in range(8)] * 5
    prepared = counts(batch[(batch["flag"] & SETUP) != 0])
    assert prepared.get("create", 0) == (5 if op == "write" else 1) == prepared["unlink"]
    assert prepared.get("read", 0) == (8 if op == "reread" else 0)


def test_cells_and_the_whole_source_agree():
    given = {"size_from": 1 << 20, "size_to": 2 << 20, "unit_from": 1 << 20, "total": 4 << 20}
    parts = [rows(cell.source) for cell in thesis.cells(**given)]
    whole = rows(thesis.Workload("all", unit_to=4 << 20, **given))
    assert len(whole) == sum(map(len, parts))
    assert whole["offset"].tolist() == joined(parts)["offset"].tolist()


def live_pages(work):
    """Pages in use after every step."""
    size, pages = {}, 0
    for step in work.steps():
        for file, length in zip(step.ids.tolist(), step.sizes.tolist(), strict=True):
            pages += -(-length // 4096) if step.created else -size.pop(file)
            if step.created:
                assert file not in size
                size[file] = -(-length // 4096)
        yield step, pages


@pytest.mark.parametrize("sizes", ageing.SIZES)
@pytest.mark.parametrize("victims", ["random", "oldest"])
def test_ageing_keeps_to_its_utilisation(sizes, victims):
    work = ageing.Workload(capacity=32 << 20, utilisation=60, turnover=4, sizes=sizes, victims=victims, churn=20)
    goal = (32 << 20) * 60 // 100 // 4096
    written = 0
    for step, pages in live_pages(work):
        assert pages <= goal
        written += 4096 * int((-(-step.sizes // 4096)).sum())
        assert step.created or len(step.ids)
    assert step.created and written >= 4 * (32 << 20)
    if sizes in ("agrawal", "fixed"):
        assert pages > 0.7 * goal


def test_ageing_uses_ids_again_and_makes_no_more_rows_than_it_says():
    work = ageing.Workload(capacity=16 << 20, sizes="fixed", mean=4096, turnover=5)
    batch = rows(work)
    assert len(batch) == work.rows and counts(batch)["create"] > 4 * len(work.files)
    assert batch["file"].max() == len(work.files) - 1
    assert (batch["flag"] & SETUP == 0).all()
    assert (rows(ageing.Workload(capacity=1 << 20, setup=1))["flag"] & SETUP != 0).all()


def test_the_small_set_has_37513_files_and_the_waste_of_superpages():
    work = ageing.Workload(sizes="small", turnover=0)
    sizes = np.concatenate([step.sizes for step in work.steps() if step.created])
    assert len(sizes) == 37_513 and sizes.max() < 2 << 20
    waste = lambda page: int((-(-sizes // page) * page - sizes).sum())  # noqa: E731
    assert round(waste(2 << 20) / 2**30) == 73 and waste(4096) < 2**27


def test_distributions_are_those_of_their_sources():
    random = np.random.default_rng(3)
    lognormal = ageing._sizes("lognormal", 0)(random, 100_000)
    assert abs(np.log(np.median(lognormal)) - 9.48) < 0.03
    agrawal = ageing._sizes("agrawal", 0)(random, 100_000)
    assert abs((agrawal == 2048).mean() - 50 / 230) < 0.01 and set(agrawal) <= {size for size, _ in ageing._AGRAWAL}
    pareto = ageing._sizes("pareto", 0)(random, 100_000)
    assert pareto.min() >= 4096 and abs((pareto > 8192).mean() - 2**-0.91) < 0.01
    assert set(ageing._sizes("fixed", 5)(random, 3)) == {5}


def test_micro_is_tables_2_and_3():
    batch = rows(memory_objects.Workload())
    table2 = batch[batch["op"] >= MALLOC]
    assert counts(table2) == {"malloc": 300, "free": 300}
    assert batch["length"][batch["op"] == USTORE].tolist() == [512] * 100 + [1024] * 100 + [4096] * 100
    assert batch["length"][batch["op"] == WRITE].tolist() == [512] * 10 + [1024] * 10 + [4096] * 10
    assert batch["op"][:4].tolist() == [MALLOC, USTORE, ULOAD, FREE]
    assert (batch["flag"][batch["op"] == UNLINK] & SETUP != 0).all()


def test_cp_through_objects_moves_the_same_bytes_without_file_calls():
    objects, files = (rows(memory_objects.Workload("cp", each, repeats=1)) for each in ("objects", "files"))
    total = sum(memory_objects.FILES)
    assert not np.isin(objects["op"], (READ, WRITE, OPEN, CREATE)).any()
    assert objects["length"][objects["op"] == USTORE].sum() == total == files["length"][files["op"] == WRITE].sum()
    assert objects["length"][objects["op"] == ULOAD].sum() == total == files["length"][files["op"] == READ].sum()
    named = objects[objects["op"] == MM_TO_FILE]
    assert named["length"].tolist() == list(memory_objects.FILES) and (named["parent"] == 0).all()
    assert (objects["parent"][objects["op"] == FILE_TO_MM] == -1).all()


def test_churn_allocates_the_buddys_range():
    batch = rows(memory_objects.Workload("churn", live=200, calls=5000))
    sizes = batch["length"][batch["op"] == MALLOC]
    assert 32 <= sizes.min() < 64 and 64 << 10 < sizes.max() <= 128 << 10
    assert counts(batch)["malloc"] == 5200 == counts(batch)["store"] and counts(batch)["free"] == 5000
