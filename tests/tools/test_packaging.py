"""The files that package scmsim agree with the package: version, dependencies, programs that they call."""

import json
import pathlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

import scmsim
from scmsim.jit import shipped

ROOT = pathlib.Path(__file__).parents[2]
PACKAGING = ROOT / "tools" / "packaging"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def needs(lines: list[str]) -> set[str]:
    return {line.replace(" ", "") for line in lines}


def read(path: pathlib.Path) -> Any:
    return yaml.safe_load(path.read_text())


def strings(content: Any) -> Iterator[str]:
    """Every key and value of a YAML file that is a string."""
    if isinstance(content, dict):
        content = [*content.keys(), *content.values()]
    if isinstance(content, list):
        for one in content:
            yield from strings(one)
    elif isinstance(content, str):
        yield content


def variables(content: Any) -> set[str]:
    """The expressions between ${{ and }}; each must end in the string in which it begins."""
    for text in strings(content):
        assert text.count("${{") == text.count("}}"), text
    return {name for text in strings(content) for name in re.findall(r"\$\{\{ *(.*?) *\}\}", text)}


def test_every_file_with_the_version_has_the_same() -> None:
    recipe, citation = read(PACKAGING / "conda" / "recipe.yaml"), read(ROOT / "CITATION.cff")
    assert recipe["context"]["version"] == str(citation["version"]) == scmsim.__version__


def test_the_conda_recipe_has_the_dependencies_of_the_package() -> None:
    recipe = read(PACKAGING / "conda" / "recipe.yaml")
    python = f"python{PROJECT['requires-python']}"
    assert needs(recipe["requirements"]["run"]) == needs([python, *PROJECT["dependencies"]])
    assert recipe["build"]["python"]["entry_points"] == [f"scmsim = {PROJECT['scripts']['scmsim']}"]
    assert (recipe["about"]["license"], recipe["about"]["summary"]) == (PROJECT["license"], PROJECT["description"])


def test_the_conda_recipe_has_only_fields_of_its_format() -> None:
    recipe = read(PACKAGING / "conda" / "recipe.yaml")
    assert recipe.keys() == {"context", "package", "source", "build", "requirements", "tests", "about"}
    assert recipe["requirements"].keys() == {"host", "run"} and recipe["package"]["name"] == PROJECT["name"]
    assert (PACKAGING / "conda" / recipe["source"]["path"]).resolve() == ROOT
    assert (ROOT / recipe["about"]["license_file"]).is_file()
    assert variables(recipe) <= {*recipe["context"], "PYTHON"}
    assert all(script.split()[0] == "scmsim" for test in recipe["tests"] for script in test["script"])


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_has_jobs_whose_steps_run(file: pathlib.Path) -> None:
    found = read(file)
    assert found.keys() == {"name", True, "permissions", "jobs"}  # YAML 1.1 reads the key `on` as true
    assert found["permissions"] == {"contents": "read"}
    for job in found["jobs"].values():
        matrix = {f"matrix.{name}" for name in job.get("strategy", {}).get("matrix", {})}
        assert variables(job) == matrix and job["runs-on"].startswith("ubuntu-")
        for step in job["steps"]:
            assert len({"uses", "run"} & step.keys()) == 1 and step.keys() <= {"uses", "run", "with"}
            assert re.fullmatch(r"actions/[\w-]+@v\d+", step.get("uses", "actions/a@v1"))
            subprocess.run(["bash", "-n"], input=step.get("run", ""), text=True, check=True)


def test_the_workflow_of_the_wheels_has_the_pythons_that_the_package_needs() -> None:
    pythons = read(ROOT / ".github/workflows/wheels.yml")["jobs"]["build"]["strategy"]["matrix"]["python"]
    assert all(isinstance(one, str) for one in pythons)  # 3.10 without quotes would be 3.1
    assert f">={pythons[0]}" == PROJECT["requires-python"]


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


@pytest.mark.parametrize("file", [PACKAGING / "Containerfile", *WORKFLOWS])
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
