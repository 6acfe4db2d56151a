"""Calibration: a table that made the measurements is found again, and tables given to replays are checked."""

import numpy as np
import pytest

import scmsim
from scmsim.core.errors import UsageError
from scmsim.core.records import CREATE, SETUP, WRITE
from scmsim.fs.engine import costs
from scmsim.lab.plan import Replayable
from scmsim.lab.plan import microbench as plan
from scmsim.result import Result, Run
from scmsim.result.cells import Key
from scmsim.study import calibrate
from scmsim.workload import microbench


def small(op, unit):
    return microbench.Workload(op=op, unit=unit, total=16 * unit)


def measured(factor):
    """What a kernel would give whose costs are `factor` times those of the table."""

    def more(name, table):
        return {cost: {**e, **{c: factor * e[c] for c in calibrate.COLUMNS}} for cost, e in table.items()}

    runs = []
    with costs.changed(more):
        for op in ("append", "rewrite", "read"):
            for unit in (1024, 4096, 65536):
                run = scmsim.replay(small(op, unit), fs="ext4-dax").runs[0]
                runs.append(Run("ext4-dax", calls=run.calls, counters=run.counters, cell=dict(run.cell)))
    return Result({"kernel": "Linux 9.9"}, runs)


def test_costs_that_made_the_cells_are_found(tmp_path):
    found = calibrate.calibrate(measured(1.5), "ext4-dax", [1024, 65536])
    test = [error for error in found.errors if not error.fitted]
    assert test and all(error.key.unit_bytes == 4096 for error in test)
    assert max(np.abs(error.before).max() for error in test) > 0.1
    assert max(np.abs(error.after).max() for error in found.errors) < 0.02
    assert "map_run" in found.told and "rename" not in found.told
    path = tmp_path / "table.toml"
    calibrate.write(found, path, "9.9")
    with calibrate.using([str(path)]):
        run = scmsim.replay(small("rewrite", 4096), fs="ext4-dax").runs[0]
    (cell,) = [r for r in measured(1.5).runs if r.cell["operation"] == "rewrite" and r.cell["unit_bytes"] == 4096]
    assert run.counters["instructions"] == pytest.approx(cell.counters["instructions"], rel=0.02)
    plain = scmsim.replay(small("rewrite", 4096), fs="ext4-dax").runs[0]
    assert plain.counters["instructions"] < 0.9 * run.counters["instructions"]


def test_tables_that_nobody_uses_are_refused(tmp_path):
    path = tmp_path / "table.toml"
    path.write_text('table = "nova-5.13"\n[x]\ninstructions = 1\nloads = 0\nstores = 0\n')
    with pytest.raises(UsageError, match="nova-5.13"), calibrate.using([str(path)]):
        scmsim.replay(small("append", 4096), fs="ext4-dax")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a]\ninstructions = 1", "1: table: is missing; name the table of costs"),
        ('table = "x"\n[a]\ninstructions = 1', "2: a.loads: is missing"),
        ('table = "x"\n[a]\ninstructions = -1\nloads = 1\nstores = 1', "from 0"),
        ("x", "not TOML"),
    ],
)
def test_damaged_tables(tmp_path, text, said):
    path = tmp_path / "table.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=said), calibrate.using([str(path)]):
        pass


def test_results_without_cells_to_fit_are_refused():
    with pytest.raises(UsageError, match="lab run transfers"):
        calibrate.calibrate(Result({}, [Run("ext4-dax", calls=1)]), "ext4-dax", [4096])


def test_names_written_are_text_of_toml():
    assert calibrate._quoted('a "b" \\ \n') == '"a \\"b\\" \\\\  "'


def test_least_squares_without_negatives():
    rng = np.random.default_rng(0)
    matrix, true = rng.random((30, 6)), np.array([1.0, 0, 2, 0, 0.5, 3])
    assert calibrate._nonnegative(matrix, matrix @ true) == pytest.approx(true, abs=1e-8)
    found = calibrate._nonnegative(matrix, matrix @ np.array([1.0, -1, 2, -2, 0.5, 3]))
    assert (found >= 0).all()


def test_a_plan_can_be_replayed_region_by_region():
    made = plan([4096], total=4096, names=5)
    number = [region.label for region in made.regions].index("create") + 1
    (batch,) = Replayable(made, number).batches()
    counted = batch[(batch.flag & SETUP) == 0]
    assert (counted.op == CREATE).sum() == 5 and not (counted.op == WRITE).any()
    parents = {int(parent) for parent in counted.file2[counted.op == CREATE]}
    assert len(parents) == 1 and parents.isdisjoint(counted.file.tolist())


def test_key_of_an_append():
    assert calibrate._pass(Key("ext4", "write", 1, 1)) == "append"
