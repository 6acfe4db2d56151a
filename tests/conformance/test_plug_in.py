"""A file system is one new file: a toy in a folder of its own is listed, replayed and counted like the others."""

import pathlib
import shutil

import pytest

import scmsim
import scmsim.fs
from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.workload.microbench import Workload

MODEL = pathlib.Path(__file__).parent / "toy_model.py"


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """The package's folders with one more file system: `toy`."""
    package = pathlib.Path(scmsim.__file__).parent
    for folder in ("paging", "medium", "mmu", "system", "workload"):
        (tmp_path / folder).symlink_to(package / folder)
    (tmp_path / "fs").mkdir()
    shutil.copy(MODEL, tmp_path / "fs" / "toy.py")
    monkeypatch.setattr(registry, "_ROOT", tmp_path)
    monkeypatch.setattr(scmsim.fs, "__path__", [*scmsim.fs.__path__, str(tmp_path / "fs")])
    return "toy"


def test_it_is_listed_and_described_without_being_imported(toy):
    assert registry.names("fs") == ["toy"]
    assert registry.literals("fs", "toy")["PARAMS"] == {"capacity": ("1GiB", "bytes", "size of the device")}


def test_it_is_replayed(toy):
    run = scmsim.replay(Workload(op="append", unit=1000, total=100_000), toy).runs[0]
    assert run.counters["pm_stored_bytes"] == run.counters["nt_stored_bytes"] == 100_000
    assert run.counters["fences"] == run.calls == 100 and run.stored_bytes["data"] == 100_000
    assert run.counters["mem_inst_retired_all_stores"] == 100 * 125
    assert list(run.sites) == ["copy"] and run.space["live_bytes"] == 100_000
    assert run.metrics["write_amplification"] == 1.0


def test_its_parameters_are_checked(toy):
    with pytest.raises(UsageError, match="did you mean 'capacity'"):
        scmsim.replay(Workload(), toy, params={"toy": {"capasity": "1GiB"}})


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The toy in a folder of the user's own, by the environment variable."""
    (tmp_path / "fs").mkdir()
    shutil.copy(MODEL, tmp_path / "fs" / "mine.py")
    monkeypatch.setenv(registry.OWN_FOLDER, str(tmp_path))
    return tmp_path


def test_a_users_own_folder_adds_to_the_packages(own):
    assert {"mine", "ext4"} <= set(registry.names("fs"))
    run = scmsim.replay(Workload(op="append", unit=1000, total=50_000), "mine").runs[0]
    assert run.fs == "mine" and run.counters["pm_stored_bytes"] == 50_000


ROWS = """
parameters = ["capacity", "width"]
code = { start = "toy.begin", emit = "toy.emit", space = "toy.space", SITES = "toy.SITES" }

[parameter]
width = ["8", "bytes", "bytes of a store"]

[model.toy-8]
summary = "a toy of two files"
source = "made up"
variant = { scale = 1 }

[model.toy-16]
summary = "the toy with stores twice as wide"
source = "made up"
variant = { scale = 2 }

[model.nova-128]
summary = "NOVA with entries of 128 bytes, on a small device"
source = "made up"
parameters = ["capacity"]
parameter.capacity = ["16MiB", "bytes", "size of the device"]
variant = { inplace = false, counters = true, entry_bytes = 128, cost_table = "nova-5.13" }

[model.nova-128.code]
start = "scmsim.fs.nova.state.start"
emit = "scmsim.fs.nova.operations.emit"
collect = "scmsim.fs.nova.gc.collect"
space = "scmsim.fs.nova.state.space"
SITES = "scmsim.fs.nova.templates.SITES"
"""


@pytest.fixture
def family(tmp_path, monkeypatch):
    """A folder of the user's own with two models on code of its own, and one on the package's."""
    folder = tmp_path / "fs" / "toys"
    folder.mkdir(parents=True)
    shutil.copy(MODEL, folder / "store.py")
    (folder / "toy.py").write_text(
        "from .store import *\nfrom . import store\n\n\ndef begin(params, files, *, scale):\n"
        "    state = store.start(params, files)\n    state.record.reg[0, 1] = params['width'] * scale\n    return state\n"
    )
    (folder / "models.toml").write_text(ROWS)
    monkeypatch.setenv(registry.OWN_FOLDER, str(tmp_path))
    return folder


def test_a_users_folder_is_a_family(family):
    assert {"toy-8", "toy-16", "nova-128", "nova-cow"} <= set(registry.names("fs")) and "toy" not in registry.names(
        "fs"
    )
    assert registry.literals("fs", "toy-8")["PARAMS"]["width"] == ("8", "bytes", "bytes of a store")
    work = Workload(op="append", unit=1000, total=50_000)
    runs = scmsim.replay(work, "toy-8,nova-128").runs
    assert [run.space["capacity_bytes"] for run in runs] == [1 << 30, 16 << 20]
    assert [run.counters["pm_stored_bytes"] >= 50_000 for run in runs] == [True, True]
    widths = [registry.load("fs", fs).start({"width": 4}, work.files).record.reg[0, 1] for fs in ("toy-8", "toy-16")]
    assert widths == [4, 8]


def test_a_variant_of_the_packages_own_code_is_a_row(family):
    """Entries of 128 bytes: 31 a log page of 4064 bytes, where those of NOVA are 63."""
    short, long = scmsim.replay(Workload(op="append", unit=4096, total=4096 * 620), "nova-cow,nova-128").runs
    assert long.space["capacity_bytes"] == 16 << 20
    assert long.sites["log append"]["nt_stored_bytes"] == 2 * short.sites["log append"]["nt_stored_bytes"] == 620 * 128
    assert (short.space["log_pages"], long.space["log_pages"]) == (18, 34)


def test_code_that_is_not_there_is_named(family):
    (family / "models.toml").write_text(ROWS.replace("toy.emit", "toy.emits"))
    with pytest.raises(UsageError, match="toy-8: code.emit = 'toy.emits' cannot be imported"):
        registry.load("fs", "toy-8")


def test_a_users_file_cannot_take_a_name_of_the_package(own):
    shutil.copy(MODEL, own / "fs" / "ext4.py")
    with pytest.raises(UsageError, match="'ext4'; choose another"):
        registry.path("fs", "ext4")
    assert "ext4-dax" in registry.names("fs")  # it breaks nothing else


def test_a_folder_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv(registry.OWN_FOLDER, str(tmp_path / "none"))
    with pytest.raises(UsageError, match="is not a folder"):
        registry.names("fs")
