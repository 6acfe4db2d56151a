"""What importing costs and what the package offers at its top."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import scmsim

HEAVY = ("numba", "numpy", "pandas", "pyarrow")
ROOT = Path(__file__).parents[2]


def imported(code: str, *argv: str) -> set[str]:
    """Heavy packages that a fresh interpreter has imported when `code` ends, by exit or otherwise."""
    ending = (
        "import atexit, sys; atexit.register(lambda: print('\\n', *sorted(m for m in sys.modules if '.' not in m)))\n"
    )
    done = subprocess.run([sys.executable, "-c", ending + code, *argv], capture_output=True, text=True)
    assert "Traceback" not in done.stderr, done.stderr
    return set(done.stdout.splitlines()[-1].split()).intersection(HEAVY)


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert imported("import scmsim") == set()


@pytest.mark.parametrize(
    "argv", [["--help"], ["--version"], ["list"], ["list", "fs", "--params"], ["lsit"], ["perf", "--help"]]
)
def test_light_commands_import_nothing_heavy(argv: list[str]) -> None:
    assert imported("from scmsim.cli import main; main()", *argv) == set()


def test_an_experiment_with_a_mistake_is_refused_without_numbers(tmp_path: Path) -> None:
    experiment = tmp_path / "x.toml"
    experiment.write_text('fs = "nova-cwo"\n[workload]\nkind = "microbench"\n')
    assert imported("from scmsim.cli import main; main()", "check", str(experiment)) == set()


def test_reading_a_json_result_imports_no_numbers(tmp_path: Path) -> None:
    code = "from scmsim.result import Result, read; import sys; Result().write(sys.argv[1]); read(sys.argv[1])"
    assert imported(code, str(tmp_path / "r.json")) == set()


def test_the_guard_sees_a_heavy_import() -> None:
    assert imported("import numpy") == {"numpy"}


def test_top_level_names_load_on_first_use() -> None:
    assert scmsim.Result.__module__ == "scmsim.result"
    assert {"Result", "replay", "open_trace"} <= set(dir(scmsim))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = scmsim.nonsense


def test_version_is_said_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "scmsim/__init__.py"
