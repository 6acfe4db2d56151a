"""Write amplification of update schemes: closed formulas, the VSM paper, the command line, a model beside a formula."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import scmsim
from scmsim import cli
from scmsim.core.errors import UsageError
from scmsim.result.metrics import space_waste
from scmsim.study.amplification import Writes, amplify, writes
from tests.fs import drive

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def one(offset, length, size):
    return amplify(Writes(np.array([offset]), np.array([length]), np.array([size])))


@pytest.mark.parametrize(
    ("length", "scheme", "extra"),
    [
        (4 * KIB, "cow-2MiB", 511),  # VSM-1
        (1 * KIB, "cow-2MiB", 2047),  # VSM-2
        (1 * KIB, "cow-4KiB", 3),  # VSM-3, PMFS with 4 KiB
        (1 * KIB, "log-structured", 3),  # VSM-3, NOVA
        (1 * KIB, "mcow-2MiB", 3),  # VSM-3, VSM
    ],
)
def test_what_the_vsm_paper_says_of_an_overwrite(length, scheme, extra):
    assert one(0, length, 8 * GIB)[scheme]["cow_extra_ratio"] == extra


@pytest.mark.parametrize(("page", "waste"), [(4 * KIB, 2048), (2 * MIB, 2_095_104), (GIB, 1_073_739_776)])
def test_what_the_vsm_paper_says_of_space(page, waste):
    """VSM-4 to VSM-6: a file of 1 GiB and 2 KiB."""
    assert space_waste(GIB + 2 * KIB, page) == waste


def test_closed_formulas():
    n = 4096
    table = one(0, n, 8 * MIB)
    assert table["in-place"]["stored"] == n
    assert table["wal"]["stored"] == 2 * n + 64
    assert table["undo"]["stored"] == 2 * n + 128
    assert table["log-structured"]["stored"] == n + 64 + 8
    assert table["cow-2MiB"]["stored"] == 2 * MIB + 8
    assert table["mcow-2MiB"]["stored"] == n + 64 + 16 + 16 + 16
    assert table["cow-4KiB"]["media_256"] == n + 256 and table["cow-4KiB"]["lines"] == n + 64


def test_the_worked_example():
    """4 MiB at 3 MiB of 8 MiB: one superpage and 512 pages (VSM-25)."""
    levels = one(3 * MIB, 4 * MIB, 8 * MIB)["mcow-2MiB"]
    assert levels["data"] == 4 * MIB
    assert levels["stored"] - levels["data"] == 64 + 16 * 513 + 16 + 2 * 8 * 512 + 8


def test_an_append_replaces_nothing():
    """Except where the file's last page is larger than what it holds."""
    for name, levels in one(8 * MIB, 4096, 8 * MIB).items():
        assert levels["data"] == (GIB if name == "cow-1GiB" else 4096), name


def test_sizes_follow_the_trace():
    batch = drive.ops(
        ("write", 1, 0, 8192),
        ("write", 1, 0, 100),
        ("truncate", 1, 10),
        ("write", 1, 5, 1),
        ("unlink", 1),
        ("write", 1, 0, 1),
    )
    assert writes(drive.source(drive.files(0, 50, dirs=[0]), batch)).before.tolist() == [50, 8192, 10, 0]


def test_no_writes_and_bad_grains():
    empty = amplify(drive.source(drive.files(0, dirs=[0]), drive.ops()))
    assert empty["wal"]["stored"] == 0 and empty["wal"]["write_amplification"] is None
    with pytest.raises(UsageError, match="grain of 1000"):
        amplify(Writes(*(np.zeros(1, np.int64),) * 3), [1000])


@pytest.mark.slow
def test_a_model_beside_its_scheme():
    """pmfs-2m with copy-on-write stores the data bytes of the scheme cow-2MiB."""
    batch = drive.ops(
        ("create", 1), ("write", 1, 0, 4 * MIB, -1, 2), ("write", 1, 4096, 4096), ("write", 1, MIB, 2 * MIB)
    )
    source = drive.source(drive.files(0, -1, dirs=[0]), batch)
    run = scmsim.replay(source, "pmfs-2m", params={"pmfs-2m": {"data_path": "cow"}}).runs[0]
    assert run.stored_bytes["data"] == amplify(source)["cow-2MiB"]["data"]


def test_the_command(tmp_path):
    path = tmp_path / "t.parquet"
    run = CliRunner()
    made = run.invoke(cli.main, ["synth", "microbench", "--op", "rewrite", "--total", "1MiB", "--out", str(path)])
    assert made.exit_code == 0, made.output
    table = json.loads(run.invoke(cli.main, ["amplify", str(path), "--json"]).stdout)
    assert table["cow-2MiB"]["cow_extra_ratio"] == 511
    text = run.invoke(cli.main, ["amplify", str(path), "--grain", "4KiB"]).output
    assert "cow-4KiB" in text and "cow-2MiB" not in text
