"""The glossary: everything that the output shows has an entry, and no entry is about nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from scmsim import cli
from scmsim.core import registry
from scmsim.core.counters import EVERY
from scmsim.core.records import Files
from scmsim.fs.mapping import mechanisms
from scmsim.pipeline import model_params
from scmsim.result import glossary
from scmsim.result.metrics import METRICS
from scmsim.result.tables.figures import SECTIONS

PAGE = Path(__file__).parents[2] / "docs/reference/glossary.md"


def run(*args: str) -> Result:
    return CliRunner().invoke(cli.main, list(args))


def names(kind: str) -> set[str]:
    return {term.name for term in glossary.terms() if term.kind == kind}


def test_every_row_counter_metric_and_site_has_an_entry_and_nothing_else_has() -> None:
    rows = {row.label for section in SECTIONS.values() for row in section}
    assert rows == names("row") | rows & names("space")
    assert {row.label for row in SECTIONS["space, bytes"]} <= names("space")
    assert (names("counter"), names("metric")) == (set(EVERY), set(METRICS))
    sites = {site for fs in registry.names("fs") for site in registry.load("fs", fs).SITES}
    assert sites | set(mechanisms.SITES) == names("site")


@pytest.mark.parametrize("fs", registry.names("fs"))
def test_every_figure_of_a_space_report_has_an_entry(fs: str) -> None:
    model = registry.load("fs", fs)
    files = Files(["/"], np.zeros(1, np.int64), np.ones(1, bool))
    report = model.space(model.start(model_params("fs", fs, {}), files))
    for name in report:
        assert name in {term.field for term in glossary.terms() if term.kind == "space"}, (
            f"{name} is not in scmsim/result/glossary/space.toml"
        )


def test_terms_are_complete_and_labels_unlike() -> None:
    for term in glossary.terms():
        assert term.meaning and term.sentence[0] == term.sentence[0].upper() and not term.meaning.endswith("."), term
    labels = [term.name for term in glossary.terms() if term.kind in ("row", "space")]
    assert len(labels) == len(set(labels))


def test_the_page_of_the_documentation_is_up_to_date() -> None:
    assert PAGE.read_text() == glossary.markdown(), "out of date; run: python docs/reference.py"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("loads + stores (TLB traffic)", "not the number of TLB look-ups"),
        ("tlb traffic", "not the number of TLB look-ups"),
        ("dTLB look-ups", "far fewer than loads + stores"),
        ("page walks of 4 KiB pages", "the program's own buffers"),
        ("write amplification: media 4096", "flash with a buffer"),
        ("extra data bytes per byte (VSM)", "511 for 4 KiB"),
        ("read amplification", "bytes read by the program"),
        ("metadata", "1.6 GB on the default device of 64 GiB"),
        ("estimated", "derived from counts"),
        ("STLB", "second-level TLB"),
        ("log scan", "each extension of a log"),
        ("dtlb_load_misses_walk_pending", "perf: dtlb_load_misses.walk_pending"),
        ("virtual-superpages", "scmsim list paging virtual-superpages"),
    ],
)
def test_a_word_of_the_output_is_explained(word: str, said: str) -> None:
    done = run("explain", *word.split())
    assert done.exit_code == 0 and said.lower() in done.stdout.lower()


def test_a_row_stands_for_its_metric_and_a_part_of_a_name_finds_all() -> None:
    assert [term.kind for term in glossary.find("write amplification: stored")] == ["row"]
    assert [term.name for term in glossary.find("swap")] == ["mcow swap", "zfdm swap"]


def test_an_unknown_word_names_the_nearest() -> None:
    done = run("explain", "read", "amplifikation")
    assert done.exit_code == 2 and "did you mean 'read amplification'" in done.stderr and done.stderr.count("\n") == 1


def test_explain_lists_all_and_prints_json() -> None:
    text = run("explain").stdout
    assert all(title in text for title in glossary.KINDS.values())
    assert json.loads(run("explain", "STLB", "--json").stdout)[0]["kind"] == "word"
    assert run("explain", "--markdown").stdout == glossary.markdown()
    assert run("explain", "x", "--markdown").exit_code == 2


@pytest.mark.parametrize("kind", ["counters", "metrics", "rows"])
def test_list_has_the_kinds_of_the_glossary(kind: str) -> None:
    lines = run("list", kind).stdout.splitlines()
    first = next(term for term in glossary.terms() if term.kind == kind[:-1])
    assert len(lines) == len(names(kind[:-1])) and lines[0].startswith(first.name) and first.sentence in lines[0]
    assert run("list", kind, first.name).stdout == f"{first}\n"
    assert f"'scmsim list {kind}' shows all" in run("list", kind, "nonsense").stderr
    assert json.loads(run("list", kind, "--json").stdout)[0]["name"] == first.name


def test_the_glossary_costs_no_heavy_import() -> None:

    code = "import sys, scmsim.result.glossary; print(any(m in sys.modules for m in ('numba', 'pandas', 'pyarrow')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ))
    assert done.stdout == "False\n", done.stderr


@pytest.mark.parametrize("term", glossary.terms(), ids=lambda term: f"{term.kind} {term.name}")
def test_every_name_finds_its_own_term(term: glossary.Term) -> None:
    found = glossary.find(term.name)
    assert 0 < len(found) <= 6 and any(term.name in (one.name, one.field, *one.aliases) for one in found)


@pytest.mark.parametrize("word", ["instructions", "files", "relinks"])
def test_a_row_whose_field_has_its_name_is_found(word: str) -> None:
    assert len(glossary.find(word)) < 4
