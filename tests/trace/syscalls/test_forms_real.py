"""One program under the real strace, in pairwise combinations of options: the rows are the same."""

import itertools
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.trace.strace_helper import Row, convert

STRACE, COMPILER = shutil.which("strace"), shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(not (STRACE and COMPILER), reason="needs strace and a C compiler")
SOURCE = Path(__file__).with_name("forms_program.c")

# options of one group exclude each other
GROUPS = (
    ("-o", ""), ("-y", "-yy", ""), ("-X raw", "-X verbose", ""),
    ("-t", "-tt", "-ttt", "--timestamps=unix,s", "--timestamps=unix,ns", ""),
    ("-r", "--relative-timestamps=s", ""), ("-T", "--syscall-times=ns", ""), ("-n", ""), ("-i", ""), ("-k", ""), ("-v", ""),
    ("-Y", "--decode-pids=pidns", ""), ("-x", "-xx", ""), ("-e read=all -e write=all", ""), ("-C", ""), ("-q", "-qq", "-qqq", ""),
    ("-s 0", "-s 2", ""), ("-a 80", ""), ("-z", ""), ("-e signal=none", ""),
)  # fmt: skip


def combinations(seed: int) -> list[tuple[str, ...]]:
    """Return choices of one option a group, in which each pair of options of two groups is."""
    rng = random.Random(seed)
    left = {
        ((i, a), (j, b))
        for (i, one), (j, two) in itertools.combinations(enumerate(GROUPS), 2)
        for a in one
        for b in two
    }
    out = []
    while left:
        choices = [tuple(rng.choice(group) for group in GROUPS) for _ in range(60)]
        pairs = {choice: set(itertools.combinations(enumerate(choice), 2)) for choice in choices}
        best = max(choices, key=lambda choice: len(pairs[choice] & left))
        left -= pairs[best]
        out.append(best)
    return out


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("program") / "program"
    subprocess.run([COMPILER, "-w", "-o", out, SOURCE], check=True)
    return out


def rows(program: Path, folder: Path, options: str) -> list[Row]:
    work = folder / "work"
    work.mkdir()
    text, words = folder / "text", options.split()
    to_file = "-o" in words
    # where strace prints to stderr, numbers of processes are missing with -z, and ends of processes with -qq: it is a guess there
    words = [word for word in words if word != "-o" and (to_file or word not in ("-z", "-qq", "-qqq"))]
    with open(folder / "stderr", "wb") as stderr:
        command = [STRACE, "-f", *(("-o", text) if to_file else ()), *words, program, work]
        done = subprocess.run(command, stderr=stderr, stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        pytest.skip(f"this strace lacks one of {options}")
    case = convert(text if to_file else folder / "stderr", folder, under=str(work), cwd="/")
    assert case.report.bad == 0 and case.report.lost_rows == 0, case.report.as_dict()
    return case.rows


@pytest.fixture(scope="module")
def expected(program: Path, tmp_path_factory: pytest.TempPathFactory) -> list[tuple]:
    return comparable(rows(program, tmp_path_factory.mktemp("plain"), "-o -y"))


def comparable(found: list[Row]) -> list[tuple]:
    return [(row.op, row.path.partition("/work")[2], *row[2:]) for row in found]


@pytest.mark.parametrize("choice", combinations(1), ids=" ".join)
def test_options_change_no_row(choice: tuple[str, ...], program: Path, expected: list[tuple], tmp_path: Path) -> None:
    assert [row[0] for row in expected].count("write") == 7
    assert comparable(rows(program, tmp_path, " ".join(choice))) == expected
