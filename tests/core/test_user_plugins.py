"""A mistake in a user's plug-in is one line with its place, and every other plug-in still works."""

import logging
import pathlib
import re
import sys

import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.core import registry

NOTEBOOK = pathlib.Path(__file__).parents[2] / "notebooks" / "07_your_own_file_system.py"
SOUND = re.search(r"MODEL = '''\n(.*?)'''", NOTEBOOK.read_text(), re.DOTALL)[1]  # type: ignore[index]
TRACE = str(pathlib.Path(__file__).parents[2] / "traces" / "git.parquet")

LISTED = {  # what a list says without running the file: (replace, by), message
    "syntax": (("def emit(", "def emit(:"), r"mine.py', line \d+: not Python: "),
    "nul": (("SUMMARY", "\0SUMMARY"), r"mine.py'.*: not Python: "),
    "missing": (("def space", "def spice"), "mine.py': must define space"),
    "default": (('"16MiB"', '"16MB"'), r"mine.py', line \d+: PARAMS has a wrong default for 'log': '16MB'"),
    "declaration": (('"bytes", "size', '"size'), r"line \d+: PARAMS of 'log' must be \(default, unit, meaning\)"),
    "summary": (('"a redo log, then in place"', "str(1)"), r"line \d+: SUMMARY must be one text in quotes"),
    "sites": (('"log": "log"', '"log": 5'), r"line \d+: SITES must be a dict"),
    "kind of site": (('"log": "log"', '"log": "lag"'), r"line \d+: SITES of 'log': no kind of bytes named 'lag'"),
}
RUNNING = {
    "import": (
        ("np.dtype(", "np.dtyp("),
        r"mine.py', line \d+: AttributeError: module 'numpy' has no attribute 'dtyp'",
    ),
    "start": (('= params["log"]', "= parms"), r"mine.py', line \d+: NameError: name 'parms' is not defined"),
    "kernel": (("s.tail + length", "s.tail + lenght"), r"mine.py', line \d+: NameError: name 'lenght' is not defined"),
    "state": (("return state\n", "return 5\n"), r"mine: its start\(\) must return what new_state\(\) makes, not 5"),
    "space": (("stored = int(", "stored = str("), r"mine: its space\(\) must return a table of whole numbers"),
}


@pytest.fixture
def write(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that writes the notebook's file system with one change, as `mine`."""
    monkeypatch.setenv("SCMSIM_PLUGINS", str(tmp_path))
    (tmp_path / "fs").mkdir()
    for name in [name for name in sys.modules if name.startswith("scmsim_plugins")]:
        monkeypatch.delitem(sys.modules, name)  # of another test

    def written(change: tuple[str, str]) -> None:
        assert change[0] in SOUND
        (tmp_path / "fs" / "mine.py").write_text(SOUND.replace(*change))

    return written


def error_line(*argv: str) -> str:
    done = CliRunner().invoke(cli.main, argv)
    assert done.exit_code == 2, done.output
    lines = [line for line in done.stderr.splitlines() if line.startswith("scmsim: error: ")]
    assert len(lines) == 1 and len(lines[0]) < 320
    return lines[0]


@pytest.mark.parametrize("name", LISTED)
def test_a_mistake_is_found_by_listing_and_breaks_nothing_else(write, caplog, name: str) -> None:
    change, message = LISTED[name]
    write(change)
    registry._warn.cache_clear()
    with caplog.at_level(logging.WARNING, "scmsim"):
        names = registry.names("fs")
    assert "mine" not in names and "nova-cow" in names and registry.select("fs", "all") == names
    assert [re.search(message, record.getMessage()) is not None for record in caplog.records] == [True]
    assert re.search(message, error_line("replay", TRACE, "--fs", "mine"))
    assert CliRunner().invoke(cli.main, ["list", "fs"]).exit_code == 0
    assert CliRunner().invoke(cli.main, ["explain", "STLB"]).exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNNING)
def test_a_mistake_is_found_while_it_runs(write, name: str) -> None:
    change, message = RUNNING[name]
    write(change)
    assert re.search(message, error_line("replay", TRACE, "--fs", "mine"))


def test_a_sound_one_is_listed(write) -> None:
    write(("16MiB", "8MiB"))
    assert "mine" in registry.names("fs")


def test_a_table_with_a_mistake_is_named_with_its_line(write, tmp_path: pathlib.Path) -> None:
    (tmp_path / "medium").mkdir()
    (tmp_path / "medium" / "mine.toml").write_text('summary = "x"\nread_gb_s =\n')
    assert "mine" not in registry.names("medium")
    assert re.search(r"mine.toml:2: not TOML", error_line("replay", TRACE, "--medium", "mine"))


def test_the_name_of_a_bundled_one_cannot_be_taken(write, tmp_path: pathlib.Path) -> None:
    (tmp_path / "fs" / "nova_cow.py").write_text(SOUND)
    assert "has the name of the bundled fs 'nova-cow'" in error_line("replay", TRACE, "--fs", "nova-cow")
    assert "ext4-dax" in registry.names("fs")


def test_the_paging_policy_of_the_documentation_has_the_bundled_parameters(write, tmp_path: pathlib.Path) -> None:
    page = (pathlib.Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
    example = page.partition('    """Persistent memory in the vmalloc area')
    lines = (example[1] + example[2]).partition("\nand then")[0].splitlines()
    (tmp_path / "paging").mkdir()
    (tmp_path / "paging" / "vmalloc_2m.py").write_text("\n".join(line[4:] for line in lines))
    assert registry.literals("paging", "vmalloc-2m")["PARAMS"] == registry.literals("paging", "base-4k")["PARAMS"]
