"""Kernels that a wheel brings: used where they fit, and nowhere else."""

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numba
import pytest

from scmsim.jit import shipped
from tests.conftest import NO_JIT

pytestmark = pytest.mark.skipif(NO_JIT, reason="nothing is compiled")
MODULE = "from scmsim.jit import kernel\n\n@kernel\ndef twice(x):\n    return 2 * x\n"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A file with a kernel, which a wheel brings compiled for integers; the cache beside it is empty."""
    path = tmp_path / "doubling.py"
    path.write_text(MODULE)
    folder = tmp_path / "brought"
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(folder),
        "NUMBA_CPU_NAME": shipped.CPU,
        "NUMBA_CPU_FEATURES": shipped.NO_MORE,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
    }
    subprocess.run([sys.executable, "-c", "import doubling; doubling.twice(1)"], env=environment, check=True)
    (folder / shipped.SOURCES).write_text(shipped.contents())
    monkeypatch.setattr(shipped, "FOLDER", folder)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.syspath_prepend(tmp_path)
    shipped.fits.cache_clear()
    yield
    shipped.fits.cache_clear()
    sys.modules.pop("doubling", None)


def compiles(argument: float) -> bool:
    """Call the kernel as a new process would; whether that compiled it."""
    sys.modules.pop("doubling", None)
    doubling = importlib.import_module("doubling")
    assert doubling.twice(argument) == 2 * argument
    return not doubling.twice.stats.cache_hits


needs_cpu = pytest.mark.skipif(
    not shipped.has_features(), reason=f"this CPU is older than {shipped.CPU}, or another kind"
)


@needs_cpu
@pytest.mark.usefixtures("module")
def test_what_a_wheel_brings_is_not_compiled(tmp_path: Path) -> None:
    assert not compiles(21)
    assert not (tmp_path / "own").exists(), "nor kept once more"


@needs_cpu
@pytest.mark.usefixtures("module")
def test_for_other_arguments_it_is_compiled_and_kept(tmp_path: Path) -> None:
    assert compiles(0.5) and not compiles(0.5)
    assert list((tmp_path / "own").rglob("*.nbc"))


@pytest.mark.parametrize("what", ["sources", "cpu", "numba", "damage", "nothing"])
@pytest.mark.usefixtures("module")
def test_where_it_does_not_fit_it_is_compiled(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    folder = shipped.FOLDER
    if what == "sources":
        (folder / shipped.SOURCES).write_text("of another version")
    elif what == "cpu":
        monkeypatch.setattr(shipped.llvm, "get_host_cpu_features", lambda: {"avx2": False})
    elif what == "numba":
        monkeypatch.setattr(shipped, "FOLDER", folder.with_name("of another version of numba"))
    elif what == "damage":
        for file in folder.rglob("*.nbc"):
            file.write_bytes(file.read_bytes()[:-1])
    else:
        (folder / shipped.SOURCES).unlink()
    assert compiles(21)


def test_a_folder_of_the_package_has_one_name_wherever_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    here = shipped.subfolder(str(shipped.ROOT / "mmu"))
    monkeypatch.setattr(shipped, "ROOT", Path("/elsewhere/scmsim"))
    assert shipped.subfolder("/elsewhere/scmsim/mmu") == here != shipped.subfolder("/elsewhere/mmu")


def test_an_edit_of_any_source_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mmu").mkdir()
    source = tmp_path / "mmu" / "a.py"
    monkeypatch.setattr(shipped, "ROOT", tmp_path)
    found = []
    for text in ("x = 1\n", "x = 2\n"):
        source.write_text(text)
        found.append(shipped.contents())
    source.rename(source.with_name("b.py"))
    assert len({*found, shipped.contents()}) == 3
