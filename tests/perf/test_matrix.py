"""The matrix: its cells, their order, its file with every mistake, and what it will take."""

import pathlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as some

from scmsim import config
from scmsim.config.matrix import load
from scmsim.core.errors import UsageError
from scmsim.perf import plan
from scmsim.perf.matrix import OPERATIONS, Cell, Matrix, Target

ROOT = pathlib.Path(__file__).parents[2]


def test_the_thesis_matrix_is_the_thesis() -> None:
    matrix = load(ROOT / "configs" / "perf-thesis.toml")
    assert len(matrix.file_sizes) == 11 and matrix.file_sizes[0] == 1 << 20 and matrix.file_sizes[-1] == 1 << 30
    assert [unit >> 10 for unit in matrix.units] == [1, 2, 4, 8, 16, 32, 48, 64, 128, 256, 512, 1024, 2048, 4096]
    assert matrix.operations == ("write", "rewrite", "read", "reread") and matrix.repeats == 10
    cells = matrix.cells()
    assert len(cells) == len(set(cells)) == 3 * 4 * 11 * 14 * 10 == 18_480
    assert len({cell.key for cell in cells}) == len(cells)
    assert matrix.total == 10 << 30


def test_shipped_matrices_are_found_by_name_and_are_no_experiments() -> None:
    for name in ("perf-smoke", "perf-thesis"):
        assert load(config.resolve(name, matrix=True)).summary
        with pytest.raises(UsageError, match="no experiment named"):
            config.resolve(name)
    with pytest.raises(UsageError, match="no matrix named 'perf-smok'; did you mean 'perf-smoke'"):
        config.resolve("perf-smok", matrix=True)


@given(seed=some.integers(0, 1 << 62), repeats=some.integers(1, 4))
def test_order_is_random_interleaved_and_repeatable(seed: int, repeats: int) -> None:
    matrix = Matrix(
        targets=(Target("a", "/a"), Target("b", "/b")),
        file_sizes=(1 << 20, 1 << 21),
        units=(1 << 12, 1 << 13, 1 << 14),
        operations=("write", "read"),
        repeats=repeats,
        seed=seed,
    )
    cells = matrix.cells()
    size = len(cells) // repeats
    for repeat in range(repeats):  # every block holds every point once, in an order of its own
        block = cells[repeat * size : (repeat + 1) * size]
        assert {cell.repeat for cell in block} == {repeat + 1}
        assert sorted(cell._replace(repeat=1) for cell in block) == sorted(matrix.points())
    assert cells == matrix.cells()
    assert len({tuple(cell._replace(repeat=1) for cell in cells[r * size :][:size]) for r in range(repeats)}) == repeats
    labels = [cell.fs for cell in cells[:size]]
    assert 1 < sum(a != b for a, b in zip(labels, labels[1:], strict=False))  # not one file system after the other


@pytest.mark.parametrize(
    ("file_bytes", "unit", "total", "calls", "length", "passes"),
    [
        (1 << 20, 1 << 12, 0, 256, 1 << 12, 1),
        (1 << 20, 48 << 10, 0, 21, 48 << 10, 1),  # 16 KiB at the end are dropped
        (1 << 20, 4 << 20, 0, 1, 1 << 20, 1),  # a unit larger than the file
        (1 << 20, 1 << 12, 10 << 30, 256, 1 << 12, 10240),
        (1 << 20, 48 << 10, 10 << 30, 21, 48 << 10, (10 << 30) // (21 * 48 << 10)),
    ],
)
def test_calls_of_a_cell(file_bytes: int, unit: int, total: int, calls: int, length: int, passes: int) -> None:
    cell = Cell("ext4", "write", file_bytes, unit, 3)
    assert (cell.pass_calls, cell.length, cell.passes(total)) == (calls, length, passes)
    assert re.fullmatch(r"ext4-write-1MiB-\w+-03", cell.key)


GOOD = """
[fs.ext4]
dir = "/mnt/x"
[matrix]
operations = ["write"]
file_sizes = ["1MiB"]
units = [4096]
"""


def test_every_mistake_is_told_at_once_with_its_line(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text(
        """
[fs.EXT4]
dir = "mnt"
[fs.b]
dri = "/x"
[matrix]
operations = ["write", "wirte"]
file_sizes = ["1M", "1MiB"]
units = ["32MiB"]
repeats = 0
[run]
backend = "pref"
drop_caches = 1
[extra]
"""
    )
    with pytest.raises(UsageError) as caught:
        load(path)
    told = str(caught.value).splitlines()
    for line, what in [
        (2, "'EXT4' is not a label"),
        (3, "absolute path"),
        (4, "dir: is missing; give dir = "),
        (5, "did you mean 'dir'"),
        (7, "did you mean 'write'"),
        (8, "listed twice"),
        (9, "'32MiB' is not between 1 and 16777216"),
        (10, "from 1 to 1000, not 0"),
        (12, "did you mean 'perf'"),
        (13, "true or false, not 1"),
        (14, "no key named 'extra'"),
    ]:
        assert any(f"m.toml:{line}:" in one and what in one for one in told), (line, what, told)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no file system to measure"),
        (GOOD.replace("units = [4096]", ""), "matrix.units: is missing"),
        (GOOD + '[fake]\nnoise = "much"\n[run]\nbackend = "fake"', "fake.noise"),
        (GOOD + "[run]\ncounters = [1]", "not the name of a counter"),
        (GOOD + "x = [", "not TOML"),
        ("#" * (1 << 20) + "\n", "is larger than 1024 KiB"),
        (GOOD.replace("[fs.ext4]", '[fs.b]\ndir = "/mnt/x"\n[fs.ext4]'), "named twice"),
    ],
)
def test_bad_files(tmp_path: pathlib.Path, text: str, what: str) -> None:
    path = tmp_path / "m.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=re.escape(what)):
        load(path)


def test_the_back_end_of_the_command_line_wins(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text(GOOD + '[run]\nbackend = "perf"\n[fake]\ndelay = "5ms"\n')
    matrix = load(path, "fake")
    assert matrix.backend == "fake" and matrix.backend_params == {"delay": 5_000_000}
    assert load(path).backend_params == {}


def test_the_estimate_grows_with_the_work_and_covers_everything() -> None:
    matrix = load(ROOT / "configs" / "perf-thesis.toml")
    cells = matrix.cells()
    found = plan.plan(matrix, cells, 5)
    assert (found.cells, found.points, found.runs, found.free_bytes) == (18_480, 1_848, 92_400, 1 << 30)
    payload = sum(cell.passes(matrix.total) * cell.pass_calls * cell.length for cell in cells) * 5
    assert found.seconds > payload / plan.BYTES_PER_S
    for operation in OPERATIONS:
        cell = Cell("x", operation, 1 << 20, 1 << 12, 1)
        assert plan.seconds(matrix, cell) > plan.seconds(matrix, cell._replace(unit_bytes=1 << 20))
    assert plan.plan(matrix, [], 5).runs == 0
    assert "18,480 measurements" in plan.describe(found) and "1GiB in each directory" in plan.describe(found)


@pytest.mark.parametrize(
    ("seconds", "text"), [(3.4, "3 s"), (90, "2 min"), (5400, "1 h 30 min"), (86400 * 3.5, "3 d 12 h")]
)
def test_durations(seconds: float, text: str) -> None:
    assert plan.duration(seconds) == text
