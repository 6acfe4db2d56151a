"""A folder that is called like a shipped experiment or job does not hide it, and what is replayed is said."""

import pathlib

import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.cli.replay import source_of
from scmsim.core.errors import UsageError
from scmsim.lab import job


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", job.names())
def test_a_folder_does_not_hide_a_job(folder: pathlib.Path, name: str) -> None:
    found = job.load(name, {})
    (folder / name).mkdir()
    assert job.load(name, {}) == found


def test_a_folder_does_not_hide_an_experiment(folder: pathlib.Path) -> None:
    (folder / "quickstart").mkdir()
    assert source_of("quickstart") != "quickstart"


def test_a_folder_is_not_a_trace(folder: pathlib.Path) -> None:
    (folder / "mine").mkdir()
    with pytest.raises(UsageError, match="no trace file 'mine'"):
        source_of("mine")


def test_mrc_says_what_it_replays(folder: pathlib.Path) -> None:
    run = CliRunner().invoke
    assert run(cli.main, ["synth", "microbench", "--total", "32KiB", "-o", "t.parquet"]).exit_code == 0
    done = run(cli.main, ["mrc", "t.parquet", "--curve"])
    assert "t.parquet holds operations, not addresses: they were replayed on nova-cow (--fs)" in done.stderr
    assert '"replayed_on": "nova-cow"' in run(cli.main, ["mrc", "t.parquet", "--curve", "--json"]).stdout
