"""Published rows beside simulated ones: none is hidden, verdicts follow from the relation, no value changes unseen."""

import json
import pathlib

import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.cli.reproduce import SUMMARY
from scmsim.core.errors import UsageError
from scmsim.reproduce import KINDS, VERDICTS, Answer, Row, reproduce, summary
from scmsim.reproduce.rows import DOCUMENTS, Published, full_only, published, titles
from tests.conftest import NO_JIT
from tests.reproduce import values

ROOT = pathlib.Path(__file__).parents[2]


def row(relation, value, answer, unit="ratio"):
    return Row(Published("X-1", "s", "w", "a", "b", "", "", "m", relation, value, unit, "", ""), answer, "vsm")


@pytest.mark.parametrize(
    ("relation", "value", "answer", "verdict"),
    [
        ("equals", "511", Answer(511, "exact"), "met"),
        ("equals", "511", Answer(512, "exact"), "off"),
        ("equals", "1 PMD + 1 PTE", Answer("1 PMD + 1 PTE", "exact"), "met"),
        ("about", "98", Answer(80), "met"),
        ("about", "98", Answer(50), "near"),
        ("about", "98", Answer(40), "off"),
        ("about", "1.36", Answer(1.2), "met"),
        ("about", "1.36", Answer(1.1), "near"),  # 0.81 of the value, but a third of the gain
        ("about", "1.36", Answer(0.99), "contradicted"),
        ("about", "0.67", Answer(1.01), "contradicted"),
        ("about", "1", Answer(0.92), "met"),  # no difference was claimed
        ("about", "1", Answer(0.0), "off"),
        ("range", "1..3", Answer((0.1, 2.5)), "met"),
        ("range", "1..3", Answer((0.1, 0.9)), "near"),
        ("range", "1..3", Answer((0.1, 9.0)), "off"),
        ("range", "1.5..2.5", Answer(0.9), "contradicted"),
        ("at_most", "1", Answer(0.99), None),
        ("equals", "10 | 20", Answer((11, 39)), "near"),
        ("equals", "10 | 20", Answer((11, 41)), "off"),
        ("equals", "10 | 20", Answer((11, 41), set_by_row=(1,)), "met"),
        ("equals", "10 | 20", Answer((11, 41), "calibrated"), None),
        ("shrinks", "", Answer("words", holds=True), "met"),
        ("shrinks", "", Answer("words", holds=False), "contradicted"),
        ("about", "5", Answer(5, "not comparable"), None),
        ("about", "5", full_only("hours"), None),
    ],
)
def test_verdicts(relation, value, answer, verdict):
    assert row(relation, value, answer).verdict == verdict


def test_a_gain_has_a_sign():
    assert row("about", "8.5", Answer(-0.9), "percent").verdict == "contradicted"
    assert row("about", "8.5", Answer(4.2), "percent").verdict == "off"


def test_ratios():
    assert row("about", "4", Answer(2)).ratio == 0.5
    assert row("equals", "10 | 40", Answer((20, 20))).ratio == pytest.approx(1.0)
    assert row("equals", "10 | 40", Answer((20, 20), set_by_row=(0,))).ratio == 0.5
    assert row("range", "1..3", Answer((1, 2))).ratio is None and row("about", "4", Answer(None)).ratio is None


def test_the_summary_counts_rows_that_carry_information():
    rows = [
        row("about", "4", answer)
        for answer in (Answer(4), Answer(3), Answer(9), Answer(0.5), full_only("hours"), Answer(4, "calibrated"))
    ]
    assert summary(rows) == {"rows_with_information": 5, "run": 4, "met": 1, "near": 1, "off": 1, "contradicted": 1}


def test_every_published_row_belongs_to_one_document_and_has_an_answer():
    rows = published()
    assert len(rows) == len({each.id for each in rows}) == 81 and set(titles()) == set(DOCUMENTS)
    from importlib import import_module

    modules = [import_module(f"scmsim.reproduce.{document}") for document in DOCUMENTS]
    for each in rows:
        (home,) = [module for module in modules if each.source in module.SOURCES]
        assert each.id in home.ANSWERS, each.id
    assert not {answer for module in modules for answer in module.ANSWERS} - {each.id for each in rows}


def test_the_documents_are_counted_the_same_everywhere():
    """SCMFS's slides are no document of their own."""
    texts = [
        SUMMARY,
        *(
            (ROOT / name).read_text()
            for name in ("README.md", "docs/validation/reproduce.md", "docs/validation/README.md")
        ),
    ]
    assert len(DOCUMENTS) == 4 and all("four papers" in text and "five documents" not in text for text in texts)
    shown = CliRunner().invoke(cli.main, ["reproduce", "--help"]).stdout
    assert all(document in shown for document in DOCUMENTS) and "slides" in shown


EXACT = [f"VSM-{i}" for i in (1, 2, 3, 24, 25, 26)]


@pytest.mark.skipif(NO_JIT, reason="replays of whole superpages")
def test_exact_rows_are_equal():
    found = list(reproduce(EXACT, quick=True))
    assert [each.published.id for each in found] == EXACT
    assert all(each.answer.kind == "exact" and each.verdict == "met" for each in found)


@pytest.mark.slow
@pytest.mark.skipif(NO_JIT, reason="thousands of calls")
def test_no_value_changes_unseen():
    """A change needs `python -m tests.reproduce.values` and a line under "Results changed"."""
    rows = list(reproduce(quick=True))
    assert values.values(rows) == values.read()["quick"] and len(rows) == 81
    missed = {each.published.id for each in rows if each.verdict in VERDICTS[1:]}
    assert all(each.reason for each in rows if each.published.id in missed)
    done = summary(rows)
    assert sum(done[verdict] for verdict in VERDICTS) == done["run"] < done["rows_with_information"]


@pytest.mark.skipif(NO_JIT, reason="thousands of calls")
def test_json_has_every_row_that_was_asked_for():
    done = CliRunner().invoke(cli.main, ["reproduce", "TLB-13", "TLB-4", "TLB-11", "--quick", "--json"])
    found = json.loads(done.stdout)
    rows = found["rows"]
    assert done.exit_code == 0 and [each["id"] for each in rows] == ["TLB-4", "TLB-11", "TLB-13"]
    assert {"id", "kind", "published", "simulated", "with_cost", "ratio", "verdict", "reason", "note"} <= rows[0].keys()
    assert [each["kind"] for each in rows] == ["not comparable", "derived", "derived"]
    assert [each["verdict"] for each in rows] == [None, None, "met"]
    assert found["summary"] == {
        "rows_with_information": 2, "run": 1, "met": 1, "near": 0, "off": 0, "contradicted": 0,
    }  # fmt: skip
    assert {each["kind"] for each in rows} <= set(KINDS) and all(each["note"] for each in rows)


def test_an_unknown_row_is_named():
    with pytest.raises(UsageError, match="VSM-99"):
        list(reproduce(["VSM-99"]))


def test_figures_of_rows_are_drawn(tmp_path):
    from scmsim.plot import documents as charts
    from scmsim.plot.files import write_charts
    from scmsim.reproduce import figures

    sides = figures._published_and_simulated(row("equals", "10 | 20", Answer((11, 39))))
    assert [(each["system"], each["value"]) for each in sides] == [
        ("published", 10.0), ("published", 20.0), ("simulated", 11.0), ("simulated", 39.0),
    ]  # fmt: skip
    rows = [{"system": fs, "x": x, "value": x * k} for k, fs in enumerate(("scmfs", "scmfs-lp"), 1) for x in (4, 64)]
    rows.append({"system": charts.PUBLISHED, "x": 16, "value": 7})
    made = [
        charts.lines("l", "Lines", rows, "KiB", "walks"),
        charts.panels(
            "p", "Panels", [{**each, "panel": panel} for each in rows for panel in ("loads", "stores")], "KiB"
        ),
        charts.bars("b", "Bars", sides, "us", log=True),
    ]
    assert [path.name for path in write_charts(made, tmp_path / "f", "svg")] == ["l.svg", "p.svg", "b.svg"]
    drawn = {path.stem: path.read_text() for path in (tmp_path / "f").iterdir()}
    assert "scmfs-lp" in drawn["l"] and "published" in drawn["l"]
    assert all(text in drawn["p"] for text in ("loads", "stores", "Panels"))


@pytest.mark.parametrize("figure", [24, 25, 32, 33, 34])
def test_a_published_profile_and_the_models_sites_are_whole(figure):
    from scmsim.core import registry
    from scmsim.reproduce.thesis_figures import PROFILES

    profile = PROFILES[figure]
    assert profile.published.keys() == profile.sites.keys() and 0 < sum(profile.published.values()) < 100
    sites = [site for part in profile.sites.values() for site in part]
    assert len(sites) == len(set(sites)) and set(sites) <= set(registry.load("fs", profile.fs).SITES)


CELLS = """
[fixed]
machine = "i7-8700k-thesis"
[fixed.workload]
kind = "thesis"
total = "2MiB"
[axes]
fs = ["nova-fast16"]
"workload.size_from" = ["1MiB", "2MiB"]
"workload.unit_from" = ["1MiB", "4MiB"]
"workload.op" = ["write", "read"]
"""


def test_the_sweep_of_the_thesis_is_the_whole_matrix():
    from scmsim.sweep import config
    from scmsim.workload import thesis

    points = config.load(config.resolve("sweep-thesis")).points
    whole = {(size, unit, op) for size, unit, op, _ in thesis.cells()}
    assert len(points) == 3 * len(whole) == 1848 and {point["workload.total"] for point in points} == {10 << 30}
    cell = ("workload.size_from", "workload.unit_from", "workload.op")
    assert {tuple(point[key] for key in cell) for point in points} == whole


@pytest.mark.slow
def test_cells_of_a_sweep_are_drawn(tmp_path):
    from scmsim.reproduce import matrix, thesis_figures

    (tmp_path / "sweep-cells.toml").write_text(CELLS)
    done = CliRunner().invoke(cli.main, ["sweep", str(tmp_path / "sweep-cells.toml"), "-o", str(tmp_path / "cells")])
    assert done.exit_code == 0 and "8 of 8 points" in done.stdout and "operations/s" in done.stdout
    found = matrix.read(tmp_path / "cells")
    assert {(run.cell["file_bytes"], run.cell["unit_bytes"], run.cell["operation"]) for run in found.runs} == {
        (size << 20, unit << 20, op) for size in (1, 2) for unit in (1, 4) for op in ("write", "read")
    }
    assert all(
        run.calls == 2 and run.metrics["tlb_traffic"] > 0 for run in found.runs if run.cell["unit_bytes"] == 1 << 20
    )
    names = {path.name for path in matrix.draw(found, tmp_path / "f", "svg")}
    assert "thesis-walk_cycles_percent_data-write.svg" in names  # reads of so little walk nowhere
    (chart,) = thesis_figures.overheads(found)
    assert {each["system"] for each in chart.rows} == {"nova-fast16", "published"}


def test_a_folder_without_cells_is_told(tmp_path):
    from scmsim.reproduce import matrix

    with pytest.raises(UsageError, match="scmsim sweep sweep-thesis -o"):
        matrix.read(tmp_path)
    told = CliRunner().invoke(cli.main, ["reproduce", "VSM-4", "--matrix", str(tmp_path)])
    assert told.exit_code == 2 and "--figures" in told.stderr


@pytest.mark.parametrize(
    ("out", "reason"), [("r.txt", "does not end in .json"), ("nowhere/r.json", "no folder"), (".", "is a folder")]
)
def test_a_file_that_cannot_be_written_is_refused_before_rows_are_run(tmp_path, monkeypatch, out, reason):
    monkeypatch.setattr("scmsim.reproduce.reproduce", None)
    done = CliRunner().invoke(cli.main, ["reproduce", "VSM-1", "-o", str(tmp_path / out)])
    assert done.exit_code == 2 and reason in done.output and not list(tmp_path.iterdir())
