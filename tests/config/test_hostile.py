"""Whatever an experiment or a call of Python holds, it is taken, or refused in lines of at most 300 characters."""

import pathlib

import numpy as np
import pytest

import scmsim
from scmsim import config
from scmsim.core.errors import UsageError
from scmsim.core.toml import ConfigError
from scmsim.workload import microbench

VALUES = (
    "9" * 5000, "0x" + "f" * 5000, "-" + "9" * 4000, "9223372036854775808", "-1", "0", "nan", "inf", "-inf", "1e400", "true",
    '"\\u0000"', '"a\\u0000b"', '"' + "x" * 5000 + '"', '"' + "9" * 5000 + 'GiB"', '"' + "9" * 400 + 's"', '"1e30"',
    '"' + "\\u202e" * 50 + '"', '""', '"../../../etc/passwd"', "[]", "[[[[1]]]]", "{}", "{a = 1}", "[" * 200 + "]" * 200,
    "1979-05-27T07:32:00Z", '["nova-cow", "nova-cow"]', "[1, 2]",
)  # fmt: skip
PLACES = (
    "fs = {}", "machine = {}", "paging = {}", "medium = {}", "kernel = {}", "footprints = {}", "meminfo = {}", "system = {}",
    "trace = {}", "workload = {}", "by = {}", "sync_at_end = {}", "set = {}", "out = {}", "summary = {}",
    "[set.nova-cow]\ncapacity = {}", "[set.ext4-dax]\ncommit_interval = {}", '[workload]\nkind = "microbench"\ntotal = {}',
    '[workload]\nkind = "microbench"\nop = {}', "[workload]\nkind = {}", "nonsense = {}", '"{}" = 1',
)  # fmt: skip


def assert_short(error: BaseException) -> None:
    assert str(error) and all(len(line) <= 300 and line.isprintable() for line in str(error).split("\n"))


@pytest.mark.parametrize("place", PLACES)
def test_an_experiment_is_read_or_refused_in_short_lines(tmp_path: pathlib.Path, place: str) -> None:
    path = tmp_path / "x.toml"
    for value in VALUES:
        text = place.replace("{}", value.strip('"') if place.startswith('"{}"') else value)
        base = "" if text.startswith("fs") else 'fs = "nova-cow"\n'
        path.write_text(base + text + "\n")
        try:
            config.load(path)
        except ConfigError as error:
            assert error.problems
            assert_short(error)


@pytest.mark.parametrize("value", ["9" * 5000, "0x" + "f" * 5000, '"\\u0000"'])
def test_the_line_of_such_a_value_is_named(tmp_path: pathlib.Path, value: str) -> None:
    (tmp_path / "x.toml").write_text(f'fs = "nova-cow"\n\n[set.nova-cow]\ncapacity = {value}\n')
    with pytest.raises(ConfigError) as caught:
        config.load(tmp_path / "x.toml")
    assert "x.toml:4: set.nova-cow.capacity: must be " in str(caught.value) or "not TOML" in str(caught.value)


def nested(depth: int) -> list:
    found: list = []
    for _ in range(depth):
        found = [found]
    return found


ARGUMENTS = (
    None, 0, -1, 10**5000, 1.5, float("nan"), True, b"x", "", "\0", "x" * 5000, "*", ["*"], [], [None], {}, {"a": 1}, {1: 2},
    nested(5000), np.zeros(3), np.array(["nova-cow", "pmfs-4k"]), object(), print, microbench, microbench.Workload,
)  # fmt: skip
NAMES = (
    "trace", "fs", "machine", "paging", "medium", "params", "by", "sync_at_end", "kernel", "footprints", "meminfo", "system",
    "progress", "jobs", "chunk",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_an_argument_of_python_is_taken_or_refused_in_a_short_line(name: str) -> None:
    for value in (*ARGUMENTS, {"nova-cow": nested(5000)}, {"nova-cow": {"capacity": nested(5000)}}):
        sound = {"trace": microbench.Workload(total=4096), "fs": "nova-cow", "footprints": "none"}
        try:
            scmsim.replay(**{**sound, name: value})
        except UsageError as error:
            assert_short(error)
