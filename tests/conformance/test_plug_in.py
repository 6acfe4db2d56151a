"""A file system is one new file: a toy in a folder of its own is listed, replayed and counted like the others."""

import pathlib
import shutil

import pytest

import scmsim
import scmsim.fs.models
from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.workload.microbench import source

MODEL = pathlib.Path(__file__).parent / "toy_model.py"


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """The package's folders with one more file system: `toy`."""
    package = pathlib.Path(scmsim.__file__).parent
    for folder in ("paging", "medium", "mmu", "workload"):
        (tmp_path / folder).symlink_to(package / folder)
    (tmp_path / "fs" / "models").mkdir(parents=True)
    shutil.copy(MODEL, tmp_path / "fs" / "models" / "toy.py")
    monkeypatch.setattr(registry, "_ROOT", tmp_path)
    monkeypatch.setattr(scmsim.fs.models, "__path__", [*scmsim.fs.models.__path__, str(tmp_path / "fs" / "models")])
    return "toy"


def test_it_is_listed_and_described_without_being_imported(toy):
    assert registry.names("fs") == ["toy"]
    assert registry.literals("fs", "toy")["PARAMS"] == {"capacity": ("1GiB", "bytes", "size of the device")}


def test_it_is_replayed(toy):
    run = scmsim.replay(source(op="append", unit=1000, total=100_000), toy).runs[0]
    assert run.counters["pm_stored_bytes"] == run.counters["nt_stored_bytes"] == 100_000
    assert run.counters["fences"] == run.calls == 100 and run.stored_bytes["data"] == 100_000
    assert run.counters["mem_inst_retired_all_stores"] == 100 * 125
    assert list(run.sites) == ["copy"] and run.space["live_bytes"] == 100_000
    assert run.metrics["write_amplification"] == 1.0


def test_its_parameters_are_checked(toy):
    with pytest.raises(UsageError, match="did you mean 'capacity'"):
        scmsim.replay(source(), toy, params={"toy": {"capasity": "1GiB"}})


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The toy in a folder of the user's own, by the environment variable."""
    (tmp_path / "fs").mkdir()
    shutil.copy(MODEL, tmp_path / "fs" / "mine.py")
    monkeypatch.setenv(registry.OWN_FOLDER, str(tmp_path))
    return tmp_path


def test_a_users_own_folder_adds_to_the_packages(own):
    assert {"mine", "ext4"} <= set(registry.names("fs"))
    run = scmsim.replay(source(op="append", unit=1000, total=50_000), "mine").runs[0]
    assert run.fs == "mine" and run.counters["pm_stored_bytes"] == 50_000


def test_a_users_file_cannot_take_a_name_of_the_package(own):
    shutil.copy(MODEL, own / "fs" / "ext4.py")
    with pytest.raises(UsageError, match="'ext4'; choose another"):
        registry.names("fs")


def test_a_folder_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv(registry.OWN_FOLDER, str(tmp_path / "none"))
    with pytest.raises(UsageError, match="is no folder"):
        registry.names("fs")
