"""Every paper that a model names has a complete entry, and every entry belongs to a model."""

import re

import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.core import papers, registry

NAMED = {name: row["PAPER"] for name in registry.names("fs") if "PAPER" in (row := registry.literals("fs", name))}


def test_models_and_entries_name_each_other() -> None:
    assert set(NAMED.values()) == papers.entries().keys() and len(NAMED) >= 12


@pytest.mark.parametrize("key", papers.entries())
def test_an_entry_is_complete(key: str) -> None:
    entry = papers.entries()[key]
    fields = set(re.findall(r"^  (\w+) +=", entry, re.MULTILINE))
    assert {"author", "title", "year"} <= fields and fields & {"booktitle", "journal"}
    assert entry.count("{") == entry.count("}") and re.search(r"year +=\s\{(19|20)\d\d\}", entry)


def test_the_command_prints_the_entry_of_a_model() -> None:
    done = CliRunner().invoke(cli.main, ["explain", "nova-cow", "--bibtex"])
    assert done.exit_code == 0 and done.output.startswith("@inproceedings{nova,") and "Steven Swanson" in done.output


@pytest.mark.parametrize(
    "fs, reason",
    [("ext4", "no paper is recorded for 'ext4' (its source: Linux 5.13"), ("nowa", "no file system named 'nowa'")],
)
def test_a_model_without_a_paper_is_refused(fs: str, reason: str) -> None:
    done = CliRunner().invoke(cli.main, ["explain", fs, "--bibtex"])
    assert done.exit_code == 2 and reason in done.output
