"""The judge: a replay beside a recorded stream of a real kernel, and its verdicts."""

import json
import pathlib
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

import scmsim
from scmsim import cli
from scmsim.core.errors import UsageError
from scmsim.core.records import SETUP
from scmsim.lab import tlb
from scmsim.lab.stream import Kept
from scmsim.pipeline.arguments import open_source
from scmsim.plot import tlb as chart
from scmsim.result import Result, Run
from scmsim.study.tlb import card
from scmsim.study.tlb.judge import guest_time, judge, taken_from
from scmsim.study.tlb.replay import AsInTheGuest, replayed
from scmsim.study.tlb.results import measured
from scmsim.study.tlb.table import text
from scmsim.workload.mapped import Workload as Mapped
from scmsim.workload.microbench import Workload

DATA = pathlib.Path(__file__).parents[1] / "data/lab"
TRACE = str(DATA / "mail.parquet")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("tlb")
    shutil.copy(DATA / "ext4-dax-1.runs.parquet", made)
    judge(TRACE, made, ["ext4-dax"], ["i7-8700k", "zen2"], progress=lambda *_: None)
    return made


def run(*words):
    return CliRunner().invoke(cli.main, ["lab", "tlb", *map(str, words)])


@pytest.mark.parametrize(
    ("release", "taken"),
    [
        ("6.12.117+deb13-cloud-amd64", "6.12"), ("6.1.0-56-cloud-amd64", "6.1"), ("5.10.0-46-cloud-amd64", "5.10"),
        ("5.13.13", "5.13"), ("5.19.7", "6.1"), ("6.6.30", "6.1"), ("6.18.15+deb13-cloud-amd64", "6.18"), ("7.3.4", "7.3"),
        ("my kernel", "5.10"),
    ],
)  # fmt: skip
def test_footprints_are_those_of_the_kernel_that_ran(release, taken):
    assert taken_from(release, ["tmpfs"], {}, None).footprints == taken
    assert taken_from(release, ["tmpfs"], {}, "none").footprints is None


@pytest.mark.parametrize(
    ("words", "taken"),
    [
        ((), ["6.12"]), (("--footprints", "6.1"), ["6.1"]), (("--footprints", "none"), [None]),
        (("--footprints", "5.10, 6.1"), ["5.10", "6.1"]),
    ],
)  # fmt: skip
def test_the_command_takes_costs_and_footprints_of_the_kernel_that_runs(monkeypatch, tmp_path, words, taken):
    asked = []
    monkeypatch.setattr("scmsim.cli.lab.tlb.run_guests", lambda *_, **__: "6.12.117+deb13-cloud-amd64")
    monkeypatch.setattr("scmsim.study.tlb.judge.judge", lambda *_, **given: asked.append(given))
    run(TRACE, "--fs", "tmpfs", "--kernel", "6.12", *words, "-o", tmp_path / "out")
    assert [(given["footprints"], given["params"]["tmpfs"]["kernel"]) for given in asked] == [(taken, "6.12")]


def cell(fs, real, replayed, machine="zen2", walks=(0, 0)):
    sides = {"real": (real, walks[0]), "replay": (replayed, walks[1])}
    rows = {
        side: [
            {
                "region": "vmalloc",
                "page": "4KiB",
                "site": "x",
                "lookups": 9,
                "l1_misses": n,
                "stlb_hits": n - w,
                "walks": w,
            }
        ]
        for side, (n, w) in sides.items()
    }
    return card.judged({"fs": fs, "machine": machine, "calls": 1, **rows})


@pytest.mark.parametrize(
    ("real", "replayed", "bound", "said"),
    [
        (100, 125, 1.25, "within"), (125, 100, 1.25, "within"), (100, 126, 1.25, "off"), (63, 1, 1.25, "few"), (64, 1, 1.25, "off"),
        (0, 64, 1.25, "off"), (64, 0, 1.25, "off"), (0, 0, 1.25, "few"), (15, 1, 1.5, "few"), (16, 11, 1.5, "within"),
    ],
)  # fmt: skip
def test_a_verdict_needs_enough_events(real, replayed, bound, said):
    assert card.verdict(real, replayed, bound) == said


@pytest.mark.parametrize(
    ("replayed", "said"),
    [
        (1800, "within"),
        (2500, "within"),
        (2600, "between"),
        (4000, "between"),
        (1000, "between"),
        (999, "off"),
        (4001, "off"),
    ],
)
def test_several_boots_are_judged_by_their_geometric_mean_and_range(replayed, said):
    one = cell("a", 1000, replayed)
    other = cell("a", 4000, 1)["real"]
    told = card.of(card.judged({**one, "more_boots": [other]}), "kernel", "l1_misses")
    assert (told["real"], told["boots"], told["verdict"]) == (2000, [1000, 4000], said)
    assert told["ratio"] == replayed / 2000


def test_the_summary_says_how_far_one_boot_is_from_the_others():
    boots = [[{**row, "l1_misses": n} for row in cell("a", 1, 1)["real"]] for n in (1000, 1100, 4000)]
    made = card.judged({**cell("a", 1000, 3000), "real": boots[0], "more_boots": boots[1:]})
    (line, _) = card.summary([made])
    # 1,000 beside 2,098; 1,100 beside 2,000; 4,000 beside 1,049
    assert line.endswith(
        "0 of 1 cells within 1.25, 1 more between the boots; one boot is within it of the others' mean in 0 %"
    )
    assert "(1,000 to 4,000)" in text(
        {"trace": "t", "kernel": "6.1", "direct_map": {}, "cells": [made]}, None, "table", None
    )


def test_no_count_at_all_has_a_mean():
    assert card.geometric_mean([0, 0]) == 0 and card.geometric_mean([0, 100]) == pytest.approx(10)


def test_orders_count_pairs_that_really_differ():
    cells = [cell("a", 1000, 10), cell("b", 2000, 20), cell("c", 2100, 5), cell("d", 9000, 1, machine="i7-8700k")]
    assert card.orders(cells) == (1, 2)  # a and b right, a and c wrong, b and c alike, d on another machine
    assert "right in 1 of 2 pairs" in "\n".join(card.summary(cells))


def test_the_two_sides_are_told_apart(folder):
    made = card.read(folder)
    assert [(each["fs"], each["machine"]) for each in made["cells"]] == [("ext4-dax", "i7-8700k"), ("ext4-dax", "zen2")]
    first = made["cells"][0]
    kernel, program = (card.side(first["real"], side, "lookups") for side in card.SIDES)
    assert kernel + program == sum(row["lookups"] for row in first["real"]) and program > 0
    assert made["direct_map"]["persistent memory"] == {str(1 << 30): 2 << 30}
    assert first["calls"] == 40 and 0 < first["addressed_percent"] < 100


def test_the_rows_of_the_replay_add_up_to_the_replay(folder):
    ran = AsInTheGuest(open_source(TRACE)[0], Kept(folder / "ext4-dax-1.runs.parquet").buffer())
    for each in card.read(folder)["cells"]:
        params = {"linux": {"user_page": "2MiB"}}
        (plain,) = scmsim.replay(ran, "ext4-dax", each["machine"], params=params, footprints="none").runs
        assert sum(row["walks"] for row in each["replay"]) == plain.metrics["dtlb_walks"]
        assert sum(row["l1_misses"] for row in each["replay"]) == plain.metrics["dtlb_l1_misses"]
        for site, counters in plain.sites.items():
            found = sum(row["lookups"] for row in each["replay"] if row["site"] == site)
            assert found == counters["dtlb_load_lookups"] + counters["dtlb_store_lookups"]


def test_what_was_counted_is_not_counted_again(folder, monkeypatch):
    def never(*_):
        raise AssertionError("counted again")

    before = card.read(folder)["cells"]
    monkeypatch.setattr(tlb, "counted", never)
    again = judge(TRACE, folder, ["ext4-dax"], ["i7-8700k", "zen2"], progress=lambda *_: None)["cells"]
    assert again == before
    (folder / "counted/ext4-dax-1-zen2.json").write_text("{")
    with pytest.raises(AssertionError, match="counted again"):
        judge(TRACE, folder, ["ext4-dax"], ["zen2"], progress=lambda *_: None)


def test_each_boot_is_a_repeat_of_a_measurement(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "two")
    for boot in (1, 2):
        shutil.copy(DATA / "ext4-dax-1.runs.parquet", tmp_path / f"two/ext4-dax-{boot}.runs.parquet")
    made = judge(TRACE, tmp_path / "two", ["ext4-dax"], ["zen2"], boots=2, progress=lambda *_: None)
    (found,) = made["cells"]
    assert found["more_boots"] == [found["real"]] and card.read(tmp_path / "two")["cells"] == made["cells"]
    runs = measured(made).runs
    assert [run.cell["repeat"] for run in runs] == [1, 2] and runs[0].counters == runs[1].counters


def test_footprints_of_several_boots_are_judged_by_the_geometric_mean_of_the_replays(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "several")
    made = judge(
        TRACE, tmp_path / "several", ["ext4-dax"], ["zen2"], footprints=["6.1", "5.10"], progress=lambda *_: None
    )
    (found,) = made["cells"]
    told = card.of(found, "kernel", "l1_misses")
    assert told["replays"] == [
        card.side(rows, "kernel", "l1_misses") for rows in (found["replay"], *found["more_replays"])
    ]
    one, other = told["replays"]
    assert one != other and told["replay"] == round((one * other) ** 0.5)
    assert f"({min(told['replays']):,} to {max(told['replays']):,})" in text(made, None, "table", None)


def test_a_card_is_shown_without_a_run(folder, tmp_path):
    shown = run(folder)
    assert shown.exit_code == 1  # today's replay lacks most addresses
    assert "off" in shown.output and "0 of 2 cells within 1.25" in shown.output
    by = run(folder, "--by", "region", "--format", "markdown", "--chart", tmp_path / "a.svg").output
    assert "| vmalloc 4KiB |" in by and (tmp_path / "a.svg").read_text().startswith("<svg")
    assert "copy persistent memory 1GiB" in run(folder, "--by", "mechanism").output
    assert len(json.loads(run(folder, "--json").output)["cells"]) == 2


def test_a_replay_that_agrees_is_no_failure(tmp_path):
    cells = [cell("a", 1000, 1100, walks=(100, 90))]
    made = {"format": card.FORMAT, "trace": "t", "kernel": "6.1", "direct_map": {}, "cells": cells}
    (tmp_path / card.FILE).write_text(json.dumps(made))
    found = run(tmp_path)
    assert found.exit_code == 0 and "1.10 within" in found.output and "0.90 within" in found.output
    assert "few" in text(made, None, "table", None)  # the program's side


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([DATA], "is not a card"),
        ([TRACE], "give one with -o"),
        ([TRACE, "-o", "x", "--fs", "ext5"], "ext5"),
        ([TRACE, "-o", "x", "--fs", "ramfs", "--set", "nova.capacity=1GiB"], "no model in this replay named"),
        ([TRACE, "-o", "x", "--machine", "z80"], "z80"),
        ([DATA / "missing.parquet", "-o", "x"], "missing.parquet"),
        ([DATA, "--chart", "a.txt"], "a chart is one of"),
    ],
)
def test_mistakes_are_one_line(words, said):
    found = run(*words)
    assert found.exit_code == 2 and said in found.stderr and len(found.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 0}', '{"format": 1, "cells": [{"real": 3}]}'])
def test_a_damaged_card_is_refused(tmp_path, content):
    (tmp_path / card.FILE).write_text(content)
    with pytest.raises(UsageError, match="is not a card"):
        card.read(tmp_path)


def test_a_chart_needs_a_name_that_tells_its_kind(tmp_path):
    with pytest.raises(UsageError, match=r"\.svg"):
        chart.check(tmp_path / "a.gif")


def test_compare_takes_a_card_as_its_measured_side(folder, tmp_path):
    """On the machine of the other side; what is per call is so by the calls of the stream."""
    made = card.read(folder)
    for machine in ("zen2", "i7-8700k"):
        found = measured(made, [machine])
        cell = next(each for each in made["cells"] if each["machine"] == machine)
        assert [(run.fs, run.machine, run.calls) for run in found.runs] == [("ext4-dax", machine, 40)]
        for column, metric in (("l1_misses", "dtlb_kernel_l1_misses"), ("walks", "dtlb_kernel_walks")):
            assert found.runs[0].metrics[metric] == card.side(cell["real"], "kernel", column)
    assert {run.machine for run in measured(made).runs} == {"zen2", "i7-8700k"}
    with pytest.raises(UsageError, match="the card has i7-8700k, zen2, not zen4; add it with scmsim lab tlb --machine"):
        measured(made, ["zen4"])

    params = {"linux": {"user_page": "2MiB"}}
    scmsim.replay(TRACE, "ext4-dax", "zen2", params=params, footprints="none").write(tmp_path / "sim.json")
    done = CliRunner().invoke(cli.main, ["compare", str(tmp_path / "sim.json"), str(folder), "--json"])
    told = json.loads(done.stdout)
    rows = {row["quantity"]: row for row in told["rows"]}
    judged = {each["quantity"]: each for each in made["cells"][1]["verdicts"] if each["side"] == "kernel"}
    assert rows.keys() == {"dtlb_kernel_l1_misses", "dtlb_kernel_walks"}
    assert rows["dtlb_kernel_walks"]["measured"] == judged["walks"]["real"] / 40
    assert rows["dtlb_kernel_l1_misses"]["simulated"] == judged["l1_misses"]["replay"] / 40
    assert [w for w in told["warnings"] if "replayed without --footprints (ext4-dax): far too few" in w]
    assert not [w for w in told["warnings"] if "machines differ" in w]


def test_a_report_shows_the_card(folder, tmp_path):
    out = tmp_path / "page.html"
    done = CliRunner().invoke(cli.main, ["report", str(folder), "-o", str(out)])
    assert done.exit_code == 0, done.output
    page = out.read_text()
    section = page[page.index('<section id="compared-with-a-real-kernel">') :]
    section = section[: section.index("</section>")]
    assert "chart-judged" in section and "kernel side, page walks: " in section
    made = card.read(folder)
    assert f"<td>{card.of(made['cells'][0], 'kernel', 'l1_misses')['real']:,}</td>" in section
    done = CliRunner().invoke(cli.main, ["report", str(folder), str(folder) + "/", "-o", str(out)])
    assert done.exit_code == 2 and "2 folders of lab tlb; a page shows one" in done.stderr


def test_a_trace_is_judged_as_the_guest_ran_it():
    """By one thread, and with its buffer where the guest's lies within a thread's share of the address space."""
    source, _ = open_source(TRACE)
    mine = AsInTheGuest(source, 0x7F0B_15E0_0000)
    for batch, as_ran in zip(source.batches(), mine.batches(), strict=True):
        assert set(as_ran.thread.tolist()) == {0} and set(as_ran.buffer.tolist()) == {0x7F0B_15E0_0000 % (1 << 36)}
        assert (as_ran[["op", "file", "offset", "length"]] == batch[["op", "file", "offset", "length"]]).all()
        assert (as_ran.time_ns == batch.time_ns).all()


def test_calls_come_by_the_guests_clock():
    """Preparation takes no time, and each call as long as the others."""
    source, _ = open_source(TRACE)
    for chunk in (7, 1 << 20):
        rows = np.concatenate(
            [batch[["flag", "time_ns"]] for batch in AsInTheGuest(source, 0, call_ns=3000).batches(chunk)]
        )
        calls = 0
        for flag, time in rows.tolist():
            calls += not flag & SETUP
            assert time == 3000 * calls
        assert calls > 7


def test_a_preparation_leaves_the_tlbs_empty():
    """A kernel's stream begins with the first call that counts; 256 pages fit the second level of this machine."""
    source = Workload("read", 4096, 1 << 20)
    assert any((batch.flag & SETUP).any() for batch in source.batches())
    found = replayed(source, "nova-cow", "i7-8700k", "base-4k", {}, 0, None, None)
    walks = sum(row["walks"] for row in found.rows if row["region"] == "persistent memory")
    assert walks >= 256


def test_the_guest_s_time_is_shared_by_all_rows_touches_among_them(tmp_path):
    assert guest_time(tmp_path, "tmpfs") is None
    run = Run("tmpfs", calls=2, operations=40, counters={"instructions": 120_000})
    Result({}, [run]).write(tmp_path / "result.json")
    assert guest_time(tmp_path, "tmpfs") == 3000


def test_what_lies_in_a_mapping_is_the_programs():
    """Touches of a mapped file have the program's addresses, whatever memory they reach; the kernel's own mapping is apart."""
    source = Mapped(file_size=64 << 10, touches=200, pattern="sequential")
    found = replayed(source, "ext4-dax", "i7-8700k", None, {}, 0, None, None)
    regions = {row["region"] for row in found.rows if row["site"] == "mapped access"}
    assert regions == {"program"}
    assert sum(row["walks"] for row in found.rows if row["region"] == "program") >= 16
