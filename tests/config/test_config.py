"""Experiments in TOML: every mistake at once, each with its line, key and rule."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from scmsim import config
from scmsim.config import Experiment, load
from scmsim.core import registry
from scmsim.core.errors import UnknownName, UsageError
from scmsim.core.positions import line_of, lines
from scmsim.core.toml import ConfigError
from scmsim.result import SUFFIXES, Result, Run

GOOD = 'fs = "nova-cow"\n[workload]\nkind = "microbench"\n'
ROOT = Path(__file__).parents[2]


def problems(folder: Path, text: str) -> list[tuple[int, str, str]]:
    """(line, key, rule) of every problem of an experiment with this text."""
    file = folder / "bad.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert len(str(caught.value).splitlines()) == len(caught.value.problems)
    return [tuple(problem) for problem in caught.value.problems]


def test_five_mistakes_at_once_each_with_its_line(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        """# a comment with fs = "x"
summary = "not a # comment"
trace = "missing.parquet"
fs = [
    "nova-cow",  # the first is fine

    "nova-cwo",
]
machin = "i7-8700k"
by = "inode"

[set.nova-cow]
capacity = "64 giga"
""",
    )
    assert [(line, key) for line, key, _ in found] == [
        (3, "trace"),
        (7, "fs.1"),
        (9, "machin"),
        (10, "by"),
        (13, "set.nova-cow.capacity"),
    ]
    rules = [rule for *_, rule in found]
    assert "no file 'missing.parquet'" in rules[0]
    assert "did you mean 'nova-cow'?" in rules[1]
    assert "did you mean 'machine'?" in rules[2]
    assert rules[3] == "no breakdown named 'inode'; choose from site, op, file"
    assert "'64 giga' is not a number of bytes" in rules[4]


@pytest.mark.parametrize(
    ("text", "line", "key", "rule"),
    [
        ("", 1, "", "give either trace"),
        ("fs = []\n[workload]\nkind='microbench'", 1, "fs", "must name at least one"),
        ("fs = 3\n[workload]\nkind='microbench'", 1, "fs", "must be text in quotes, not 3"),
        ("fs = ['nova-cow','nova-cow']\n[workload]\nkind='microbench'", 1, "fs", "'nova-cow' is listed twice"),
        ("fs = 'nova-cow'\n[workload]\nkind = 'macrobench'", 2, "workload", "did you mean 'microbench'?"),
        ("fs = 'nova-cow'\n[workload]\nunit = 1", 2, "workload", "needs kind = one of"),
        ("fs = 'nova-cow'\nworkload = 'microbench'", 2, "workload", "must be a table: [workload]"),
        (GOOD + "unit = '4 KiBs'", 4, "workload.unit", "'4 KiBs' is not a number of bytes"),
        (GOOD + "unit = 1.5", 4, "workload.unit", "must be a whole number or text (bytes), not 1.5"),
        (GOOD + "unit = true", 4, "workload.unit", "must be a whole number or text (bytes), not true"),
        (GOOD + "unit = -1", 4, "workload.unit", "must not be negative, not -1"),
        (GOOD + "units = 1", 4, "workload.units", "did you mean 'unit'?"),
        (GOOD + "op = 'apend'", 4, "workload.op", "did you mean 'append'?"),
        (GOOD + "[set.nova]\nx = 1", 4, "set.nova", "no file system or paging policy named 'nova'"),
        (GOOD + "[set]\nnova-cow = 1", 5, "set.nova-cow", "must be a table of parameters"),
        (GOOD + "[set.nova-cow]\ncapasity = 1", 5, "set.nova-cow.capasity", "did you mean 'capacity'?"),
        (GOOD + "[set.nova-fast16]", 4, "set.nova-fast16", "is not used here"),
        ("out = 'r.xlsx'\n" + GOOD, 1, "out", "must end in .json, .csv, .parquet"),
        ("summary = 1\n" + GOOD, 1, "summary", "must be text in quotes, not 1"),
        ("medium = 'optain'\n" + GOOD, 1, "medium", "did you mean 'optane'?"),
        ("machine = 'i7'\n" + GOOD, 1, "machine", "no machine named 'i7'"),
        ("machine = ['mine.toml']\n" + GOOD, 1, "machine.0", "no file 'mine.toml'"),
        ("trace = 'bad.toml'\n" + GOOD, 3, "workload", "not both"),
        ("fs = 'nova-cow'\nfs = 'nova-cow'", 2, "", "not TOML: cannot overwrite a value"),
        ("fs = 'nova-cow", 1, "", "not TOML: "),
        ("fs = [\n'nova-cow',\n", 2, "", "not TOML: "),
    ],
)
def test_one_mistake(tmp_path: Path, text: str, line: int, key: str, rule: str) -> None:
    found = [problem for problem in problems(tmp_path, text) if rule in problem[2]]
    assert [(each[0], each[1]) for each in found] == [(line, key)], problems(tmp_path, text)


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_bytes(b"fs = 'nova-cow'\nsummary = '\xff'\n")
    with pytest.raises(ConfigError, match=":2: not UTF-8 text"):
        load(file)


def test_a_right_experiment(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "t.parquet").touch()
    (tmp_path / "e").mkdir()
    file = tmp_path / "e" / "x.toml"
    file.write_text(
        'trace = "../traces/t.parquet"\nfs = ["nova-cow", "nova-fast16"]\nmedium = "optane"\nby = "op"\n'
        'out = "r.json"\n[set.nova-cow]\ncapacity = "1GiB"\ninode_fence = true\n'
    )
    assert load(file) == Experiment(
        path=file,
        fs=("nova-cow", "nova-fast16"),
        trace=tmp_path / "traces" / "t.parquet",
        medium=("optane",),
        by="op",
        params={"nova-cow": {"capacity": 1 << 30, "inode_fence": 1}},
        out=tmp_path / "e" / "r.json",
    )


def test_an_experiment_writes_below_its_folder_or_the_current_one_only(tmp_path: Path, monkeypatch: Any) -> None:
    """One from a stranger must not overwrite what the user may write elsewhere."""
    (tmp_path / "e").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "e" / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path / "here")

    def out_of(text: Any) -> Any:
        file = tmp_path / "e" / "x.toml"
        file.write_text(f'out = "{text}"\n' + GOOD)
        return load(file).out

    assert out_of("r.csv") == tmp_path / "e" / "r.csv"
    assert out_of(tmp_path / "here" / "r.parquet") == tmp_path / "here" / "r.parquet"
    for text in ("/etc/x.json", "../x.json", "link/x.json", tmp_path / "x.json"):
        with pytest.raises(ConfigError, match=":1: out: .*is neither below the experiment's folder"):
            out_of(text)


def test_an_experiment_overwrites_nothing_but_a_result(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    for name, content in (("a.json", '{"mine": 1}'), ("b.csv", "name,age\n"), ("c.parquet", "PAR1"), ("d.json", "")):
        (tmp_path / name).write_text(content)
        file.write_text(f'out = "{name}"\n' + GOOD)
        with pytest.raises(ConfigError, match=f"{name}' exists and is not a result of scmsim"):
            load(file)
    result = Result({}, [Run("ext4", "m", "p", "nvdimm")])
    for suffix in SUFFIXES:
        file.write_text(f'out = "r{suffix}"\n' + GOOD)
        result.write(tmp_path / f"r{suffix}")
        assert load(file).out == tmp_path / f"r{suffix}"


def test_workload_parameters_come_in_their_units(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(GOOD + 'unit = "1KiB"\ntotal = 65536\ninterval = "2us"\nop = "reread"\n')
    experiment = load(file)
    assert experiment.workload == "microbench" and experiment.trace is None
    assert experiment.workload_params == {"unit": 1024, "total": 65536, "interval": 2000, "op": "reread"}


def test_every_combination_once(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").touch()
    file = tmp_path / "x.toml"
    file.write_text('machine = ["mine.toml", "i7-8700k"]\npaging = ["base-4k", "directmap-2m"]\n' + GOOD)
    mine = str(tmp_path / "mine.toml")
    assert list(load(file).combinations()) == [
        {"machine": mine, "paging": "base-4k"},
        {"machine": mine, "paging": "directmap-2m"},
        {"machine": "i7-8700k", "paging": "base-4k"},
        {"machine": "i7-8700k", "paging": "directmap-2m"},
    ]
    file.write_text(GOOD)
    assert list(load(file).combinations()) == [{}]


def test_kernel_and_what_else_runs_are_the_same_for_all_runs(tmp_path: Path) -> None:
    (tmp_path / "meminfo").touch()
    (tmp_path / "busy.toml").touch()
    file = tmp_path / "x.toml"
    file.write_text('kernel = "6.1"\nfootprints = "6.12"\nmeminfo = "meminfo"\nsystem = "busy.toml"\n' + GOOD)
    expected = {"kernel": "6.1", "footprints": "6.12"}
    expected |= {"meminfo": str(tmp_path / "meminfo"), "system": str(tmp_path / "busy.toml")}
    assert list(load(file).combinations()) == [expected]
    file.write_text('kernel = "2.4"\nfootprints = 61\nmeminfo = "gone"\nsystem = "alon"\n' + GOOD)
    with pytest.raises(ConfigError) as error:
        load(file)
    said = str(error.value)
    for part in ("'2.4'", "footprints: must be", "no file 'gone'", "did you mean 'alone'"):
        assert part in said, said


def test_missing_files_and_names(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read .*no such file"):
        load(tmp_path / "none.toml")
    with pytest.raises(UnknownName, match="no experiment named 'quick-start'; did you mean 'quickstart'"):
        config.resolve("quick-start")
    with pytest.raises(UsageError, match="no file 'none.toml'"):
        config.resolve("none.toml")
    assert config.resolve("quickstart") == config.find("quickstart")


@pytest.mark.parametrize(
    "file",
    sorted(
        set((ROOT / "configs").glob("*.toml"))
        - {*(ROOT / "configs").glob("perf-*"), *(ROOT / "configs").glob("sweep-*")}
    ),
    ids=lambda file: file.stem,
)
def test_shipped_experiments_are_right_and_found_by_name(file: Path) -> None:
    experiment = load(file)
    assert experiment.summary
    assert config.find(file.stem).read_text() == file.read_text()


TRICKY = '''
title = "a # b" # c
"quoted.key" = 1
a.b.c = [1, [2, 3], "]", { x = 1, "y z" = ']' }]
text = """
fs = "not a key"
[not.a.table] \\""" still
"""
raw = \'\'\'
[nor.this]\'\'\'
when = 1979-05-27 07:32:00
[ set . "nova-cow" ]
capacity = 1
[[list]]
k = 1
[[list]]
k = 2
[list.sub]
deep = { a.b = 1 }
'''


def test_lines_of_tricky_toml() -> None:
    found = lines(TRICKY)
    text = TRICKY.splitlines()
    for path, start in {
        ("title",): "title",
        ("quoted.key",): '"quoted.key"',
        ("a", "b", "c"): "a.b.c",
        ("a", "b", "c", 1, 1): "a.b.c",
        ("a", "b", "c", 3, "y z"): "a.b.c",
        ("text",): "text",
        ("raw",): "raw",
        ("when",): "when",
        ("set", "nova-cow"): "[ set",
        ("set", "nova-cow", "capacity"): "capacity",
        ("list", 1, "k"): "k = 2",
        ("list", 1, "sub", "deep", "a", "b"): "deep",
    }.items():
        assert text[found[path] - 1].startswith(start), path
    assert ("not",) not in found and ("nor",) not in found and ("fs",) not in found
    assert line_of(found, ("set", "nova-cow", "nothing")) == found["set", "nova-cow"]
    assert line_of(found, ("nothing",)) == 1


@pytest.mark.parametrize(
    "text",
    [TRICKY, *(file.read_text() for file in sorted((ROOT / "configs").glob("*.toml")))]
    + [registry.path(kind, name).read_text() for kind in ("machine", "medium") for name in registry.names(kind)],
)
def test_every_key_that_tomllib_sees_has_a_line(text: str) -> None:
    def paths(value: object, here: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        return [path for key, inner in items for path in [(*here, key), *paths(inner, (*here, key))]]

    assert set(paths(tomllib.loads(text))) == set(lines(text))
