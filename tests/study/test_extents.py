"""Extents of models' files: one by hand, laws over all models, large pages by alignment, and the file that `space` writes."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.alloc import buddy, contiguity
from scmsim.core import registry
from scmsim.fs.engine import extents
from scmsim.pipeline import place
from scmsim.result import extents as table
from scmsim.study import space
from scmsim.trace import TraceWriter
from tests.conformance import systems
from tests.fs import drive

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SYSTEMS = [fs for fs in registry.names("fs") if hasattr(registry.load("fs", fs), "extents")]


def placed(fs, *rows, files=2, **params):
    side = drive.files(*[-1] * files)
    return place(drive.source(side, drive.ops(*rows)), fs, {**drive.GROWING.get(fs, {}), **params})


def test_two_files_on_ramfs_by_hand():
    """First fit from block 1: file 0 gets blocks 1, 2, file 1 block 3, file 0 block 4; a hole, then block 5; block 3 is freed."""
    rows = [("create", 0), ("create", 1), ("write", 0, 0, 8192), ("write", 1, 0, 100), ("write", 0, 8192, 4096)]
    _, model = placed("ramfs", *rows, ("write", 0, 40_960, 4096), ("unlink", 1), ("close", 1), capacity=16 * MIB)
    found = table.extents(model)
    assert tuple(found.columns) == table.COLUMNS
    assert [tuple(row) for row in found.itertuples(index=False)] == [
        (0, "/d/file-0", 0, 4096, 8192, False),
        (0, "/d/file-0", 8192, 4 * 4096, 4096, False),
        (0, "/d/file-0", 40_960, 5 * 4096, 4096, False),
        (-1, "", 0, 3 * 4096, 4096, False),
        (-1, "", 0, 6 * 4096, 16 * MIB - 6 * 4096, False),
    ]


def test_blocks_without_content_are_extents_of_their_own():
    rows = [("create", 0), ("fallocate", 0, 0, 65_536), ("write", 0, 0, 4096)]
    found = table.extents(placed("xfs-dax", *rows, capacity=64 * MIB)[1]).query("file == 0")
    assert found.logical.tolist() == [0, 4096] and found.unwritten.tolist() == [False, True]
    assert found["length"].tolist() == [4096, 61_440] and found.physical.diff().tolist()[1] == 4096


@pytest.mark.parametrize("fs", SYSTEMS)
def test_laws(fs):
    """Lengths add up to the allocated bytes, nothing overlaps, and used and free bytes fit on the device."""
    holes = getattr(registry.load("fs", fs), "HOLES", True)
    source = drive.source(systems.side(), systems.mixed(3, 60, holes=holes))
    total, model = place(source, fs, {})
    found = model.extents()
    assert (found["length"] > 0).all() and found.dtype == extents.EXTENT
    mine, free = found[found["file"] >= 0], found[found["file"] < 0]
    allocated = total["allocated_bytes"] - total.get("promised_bytes", 0)
    assert 0 <= mine["length"].sum() - allocated <= total.get("preallocated_bytes", 0)
    assert free["length"].sum() == total.get("free_bytes", free["length"].sum()) + total.get("promised_bytes", 0)
    ends = (found["physical"] + found["length"])[order := np.argsort(found["physical"])]
    assert (found["physical"][order][1:] >= ends[:-1]).all(), "two extents share a byte"
    assert 0 <= found["physical"].min() and ends[-1] <= total["capacity_bytes"]
    same = np.diff(mine["file"]) == 0
    assert ((mine["logical"] + mine["length"])[:-1] <= mine["logical"][1:])[same].all(), "in order of offset"
    assert (extents.joined(mine) == mine).all(), "each run is one extent"


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_removed_file_keeps_its_extents_while_it_is_open(fs):
    rows = [("create", 1), ("close", 1), ("create", 0), ("write", 0, 0, 9000), ("fsync", 0), ("unlink", 0)]
    _, model = placed(fs, *rows)
    found = table.extents(model).query("file == 0")
    assert found["length"].sum() >= 9000
    list(model.events(drive.ops(("close", 0))))
    assert not len(table.extents(model).query("file == 0"))


def test_large_pages_need_the_same_alignment_in_file_and_device():
    pages = contiguity.mappable
    one = lambda logical, physical, length: tuple(np.array([n]) for n in (logical, physical, length))  # noqa: E731
    assert pages(*one(0, 6 * MIB, 4 * MIB), 2 * MIB) == 2
    assert pages(*one(0, 5 * MIB, 4 * MIB), 2 * MIB) == 0
    assert pages(*one(MIB, 5 * MIB, 4 * MIB), 2 * MIB) == 1, "the pages at the ends are not whole"
    assert pages(*one(0, 2 * MIB, 3 * GIB), GIB) == 0 and pages(*one(0, GIB, 3 * GIB), GIB) == 3


def test_data_alignment_gives_a_file_its_large_pages():
    source = drive.source(drive.files(-1), drive.ops(("create", 0), ("write", 0, 0, 8 * MIB)))
    for alignment, pages in (("4KiB", 0), ("2MiB", 4)):
        one = space.of_fs(source, "xfs-dax", {"capacity": "1GiB", "data_alignment": alignment})
        assert one.total["mappable_2m_pages"] == pages and one.total["mappable_1g_pages"] == 0
        assert one.total["extents"] == sum(one.file_runs.values()) == int(one.files["extents"].sum()) == 1
    assert one.file_runs == {8 * MIB: 1}


def test_free_runs_of_the_buddy_system():
    """The runs hold as many bytes as the allocator's own counts, up to the end of the last chunk."""
    _, model = placed("scm-manager", ("malloc", 0, 0, 32), capacity=8 * MIB)
    record = model.state.record[0]
    start, length = contiguity.joined(*buddy.free_runs(record, model.state.arena))
    units = (int(record.chunks) << buddy.LARGEST_SHIFT) >> buddy.SMALLEST_SHIFT
    free = int((record.free_of << np.arange(buddy.ORDERS)).sum())
    assert length.sum() == free < units and start[-1] + length[-1] == units + (
        int(record.origin) >> buddy.SMALLEST_SHIFT
    )


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "two.parquet"
    with TraceWriter(path, {"tool": "test"}) as writer:
        writer.append(drive.ops(("create", 0), ("create", 1), ("write", 0, 0, 9000), ("write", 1, 0, 5)))
        writer.close(drive.files(-1, -1))
    return str(path)


def run(*words):
    return CliRunner().invoke(cli.main, ["space", *words])


def test_the_command_writes_extents(trace, tmp_path):
    file = str(tmp_path / "one.parquet")
    done = run(trace, "--fs", "nova-cow", "--extents", file, "--json")
    assert done.exit_code == 0, done.output
    (told,) = json.loads(done.stdout)
    found = pd.read_parquet(file)
    assert tuple(found.columns) == table.COLUMNS and told["extents"] == (found.file >= 0).sum()
    assert sum(told["file_runs"].values()) == told["extents"]
    several = str(tmp_path / "several.csv")
    assert run(trace, "--fs", "nova-cow,tmpfs", "--extents", several).exit_code == 0
    assert pd.read_csv(several).groupby("model").file.max().to_dict() == {"nova-cow": 1, "tmpfs": 1}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--fs", "vsm", "--extents", "a.csv"], "vsm: the model does not keep the places"),
        (["--fs", "tmpfs", "--extents", "a.txt"], "must end in .csv or .parquet"),
        (["--extents", "a.csv"], "file systems only"),
        (["--fs", "tmpfs", "--extents", "no/such/a.csv"], "no folder"),
    ],
)
def test_bad_input(trace, words, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(trace, *words)
    assert done.exit_code == 2 and told in done.stderr and not list(tmp_path.glob("a.*"))


def test_a_model_of_the_user_must_return_extents():
    _, model = placed("ramfs", ("create", 0), capacity=16 * MIB)
    model.module = type("Mine", (), {"extents": staticmethod(lambda state: [])})
    with pytest.raises(Exception, match="must return an array of EXTENT"):
        model.extents()
