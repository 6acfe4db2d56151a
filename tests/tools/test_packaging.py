"""The files that package scmsim agree with the package: version, dependencies, programs that they call."""

import json
import pathlib
import re
import sys
import tomllib

import pytest

import scmsim
from scmsim.jit import shipped

ROOT = pathlib.Path(__file__).parents[2]
PACKAGING = ROOT / "tools" / "packaging"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def needs(lines: list[str]) -> set[str]:
    return {line.replace(" ", "") for line in lines}


def test_every_file_with_the_version_has_the_same() -> None:
    recipe, citation = ((ROOT / name).read_text() for name in ("tools/packaging/conda/recipe.yaml", "CITATION.cff"))
    assert re.search(r'^  version: "(.+)"$', recipe, re.MULTILINE)[1] == scmsim.__version__
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE)[1] == scmsim.__version__


def test_the_conda_recipe_has_the_dependencies_of_the_package() -> None:
    recipe = (PACKAGING / "conda" / "recipe.yaml").read_text()
    run = re.search(r"^  run:\n((?:    - .*\n)+)", recipe, re.MULTILINE)[1]
    python = f"python{PROJECT['requires-python']}"
    assert needs(re.findall(r"- (.+)", run)) == needs([python, *PROJECT["dependencies"]])
    assert PROJECT["scripts"]["scmsim"] in recipe


def test_the_citation_has_the_fields_that_the_format_requires() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    for field in ("cff-version: 1.2.0", "message: ", "title: ", "authors:", "license: MIT"):
        assert re.search(rf"^{field}", text, re.MULTILINE), field


@pytest.mark.parametrize("name", [".devcontainer/devcontainer.json", "tests/bench/asv.conf.json"])
def test_a_json_file_reads(name: str) -> None:
    assert isinstance(json.loads((ROOT / name).read_text()), dict)


def test_the_history_of_benchmarks_finds_its_folder() -> None:
    found = json.loads((ROOT / "tests/bench/asv.conf.json").read_text())
    assert (ROOT / "tests/bench" / found["benchmark_dir"] / "replays.py").is_file()
    assert (ROOT / "tests/bench" / found["repo"]).resolve() == ROOT


@pytest.mark.parametrize("file", [PACKAGING / "Containerfile", *sorted((ROOT / ".github" / "workflows").glob("*.yml"))])
def test_a_file_calls_programs_that_exist(file: pathlib.Path) -> None:
    called = re.findall(r"(?:\.ci|tools)/[\w./-]+", file.read_text())
    assert called and all((ROOT / name).exists() for name in called)


def hook(monkeypatch: pytest.MonkeyPatch, root: pathlib.Path, version: str = "standard") -> dict:
    """What the hook adds to the data of a build in `root`."""
    pytest.importorskip("hatchling")
    monkeypatch.syspath_prepend(str(PACKAGING))
    sys.modules.pop("wheel_tag", None)
    import wheel_tag

    build_data: dict = {"artifacts": [], "pure_python": True}
    wheel_tag.KernelsTag(str(root), {}, None, None, "", "wheel").initialize(version, build_data)
    return build_data


def test_a_wheel_with_kernels_is_for_the_pythons_that_compiled_them(monkeypatch, tmp_path: pathlib.Path) -> None:
    for name in ("cpython-311-numba0.60.0-x86-64-v3", "cpython-312-numba0.68.1-x86-64-v3"):
        (tmp_path / "scmsim/jit/compiled" / name).mkdir(parents=True)
    found = hook(monkeypatch, tmp_path)
    assert found["tag"] == "cp311.cp312-none-manylinux_2_17_x86_64" and not found["pure_python"]
    assert found["artifacts"] == ["scmsim/jit/compiled"]


def test_a_wheel_without_kernels_and_an_editable_one_are_pure(monkeypatch, tmp_path: pathlib.Path) -> None:
    assert hook(monkeypatch, tmp_path) == {"artifacts": [], "pure_python": True}
    (tmp_path / "scmsim/jit/compiled" / shipped.FOLDER.name).mkdir(parents=True)
    assert "tag" not in hook(monkeypatch, tmp_path, "editable")
    monkeypatch.setenv("SCMSIM_PURE_WHEEL", "1")
    assert "tag" not in hook(monkeypatch, tmp_path)
