"""Names from files never reach the terminal as commands or extra lines."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.compare import compare
from scmsim.compare.table import text
from scmsim.core.errors import UsageError
from scmsim.core.text import percent, printable, times, words
from scmsim.result import Result, Run

EVIL = "ext4\n\x1b[31m<script>\udc80"
CELL = {"operation": EVIL, "file_bytes": 1 << 20, "unit_bytes": 4096}


def run(*args: str | Path) -> str:
    done = CliRunner().invoke(cli.main, list(map(str, args)))
    assert not isinstance(done.exception, UnicodeEncodeError), done.exception
    return done.output


def harmless(shown: str) -> bool:
    return all(line.isprintable() for line in shown.split("\n")) and "ext4\n" not in shown


def test_text_that_prints_is_left_alone_and_the_rest_escaped() -> None:
    assert printable("größe 4 KiB µ") == "größe 4 KiB µ"
    assert printable("a\n\x1b[2J\x9b\u202e\udc80") == r"a\n\x1b[2J\x9b\u202e\udc80"
    assert printable("a\nb\tc", keep="\n") == "a\nb\\tc"


def test_the_table_of_a_result() -> None:
    part = {EVIL: {"instructions": 5}}
    evil = Run(EVIL, machine=EVIL, calls=1, counters={"instructions": 5}, sites=part, warnings=[EVIL], errors={EVIL: 1})
    assert harmless(Result({}, [evil]).table("site"))
    assert harmless(Result({}, [evil, Run("nova", machine="b", calls=1)]).table())


def test_the_table_of_a_comparison() -> None:
    one = Run(EVIL, calls=1, counters={"instructions": 5, "ext4\n": 1}, cell=CELL, warnings=[EVIL])
    other = Run("only" + EVIL, calls=1, counters={"instructions": 5}, cell=CELL, warnings=[EVIL])
    found = compare(Result({"kernel": EVIL}, [one, other]), Result({"kernel": "other"}, [one]))
    assert found.rows and found.only_simulated and found.warnings
    found.absent["ext4\n"] = ["simulated"]
    assert harmless(text(found))


@pytest.mark.parametrize("command", ["check", "perf run"])
def test_a_key_of_a_file_stays_in_its_line(tmp_path: Path, command: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('[fs."a\\n\\u001b[31mb"]\ndir = "/x"\n[matrix]\noperations = ["write"]\n')
    more = ["-o", tmp_path / "out"] if command == "perf run" else []
    shown = run(*command.split(), path, *more)
    assert "\x1b" not in shown
    assert r"fs.a\n\x1b[31mb" in shown


def test_a_label_of_an_imported_file(tmp_path: Path) -> None:
    path = tmp_path / "lab.csv"
    path.write_text("fs,op,unit,calls,ins_call\n\x1b[31mred,write,4096,1,10\n")
    assert harmless(run("perf", "import", path, "-o", tmp_path / "out.json"))


def test_the_message_of_an_error() -> None:
    shown = run("\x1b[31mcompare")
    assert "compare" in shown and harmless(shown)


def test_tables_as_words() -> None:
    assert words({"kind": "fio", "job": "", "sizes": [1, 2], "of": {"a": 1}}) == "kind fio, job -, sizes 1 2, of (a 1)"
    assert (words({}), words([]), words("x"), words([{"a": 1}, {"a": 2}])) == ("", "", "x", "(a 1) (a 2)")


@pytest.mark.parametrize(
    ("share", "text"),
    [(1, "100 %"), (0, "0 %"), (0.9996, "99.96 %"), (0.123456, "12.3 %"), (1e-6, "0.0001 %"), (41.2, "4,120 %"), (0.5, "50 %")],
)  # fmt: skip
def test_a_share_in_percent_has_no_exponent_and_is_all_only_if_it_is(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(4885.3, "4,885 times"), (4.5, "4.5 times"), (0.0312, "0.031 times"), (5, "5.0 times"), (99.96, "100 times")],
)  # fmt: skip
def test_a_ratio_in_words_has_no_exponent(ratio: float, text: str) -> None:
    assert times(ratio) == text


def test_a_long_line_of_an_error_keeps_what_is_wrong():
    """The names to choose from are cut before the mistake, unless the mistake itself is too long."""
    names = ", ".join(f"name-{i}" for i in range(40))
    said = str(
        UsageError(f"{'/folder' * 20}/a.toml:3: x: no name named 'y'; did you mean 'name-1'? choose from {names}")
    )
    assert len(said) == 300 and "no name named 'y'; did you mean 'name-1'? choose from name-0" in said
    assert "..." in said and said.endswith("name-39")
    said = str(UsageError(f"{'/folder' * 40}/a.toml:3: x: no name named 'y'; choose from {names}"))
    assert len(said) == 300 and said.startswith("/folder") and said.endswith("name-39")
    assert (
        str(UsageError(f"no name named 'y'; choose from {names[:200]}"))
        == f"no name named 'y'; choose from {names[:200]}"
    )
