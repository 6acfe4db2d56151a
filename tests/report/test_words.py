"""What a report says in words, from made-up runs: what was run, what nothing could supply, legends that fit a phone."""

import re

import pytest

from scmsim.result import Result, Run

pytest.importorskip("altair")
pytest.importorskip("vl_convert")


def run(fs: str, **absent: str) -> Run:
    counters = {"mem_inst_retired_all_loads": 5, "mem_inst_retired_all_stores": 4}
    return Run(fs=fs, calls=2, counters=counters, why_absent=absent)


def test_the_manifest_is_words_and_the_command_has_no_path() -> None:
    from scmsim.report.page import page

    manifest = {
        "argv": ["/secret/place/__main__.py", "replay", "a b.parquet"],
        "packages": {"numpy": "2", "numba": "1"},
        "inputs": {"t": {"bytes": 5}},
        "seeds": {},
    }
    text = page(Result(manifest, [run("ext4")]))
    assert "<dt>command</dt><dd>scmsim replay &#x27;a b.parquet&#x27;</dd>" in text and "/secret" not in text
    assert "<dd>numpy 2, numba 1</dd>" in text and "<dd>t (bytes 5)</dd>" in text and "<dt>seeds</dt>" not in text


def test_only_what_every_run_lacks_is_called_missing() -> None:
    from scmsim.report.page import page

    text = page(Result({}, [run("ext4", l1="no counter", l2="no <counter>"), run("vsm", l2="no <counter>")]))
    assert (
        '<details class="absent"><summary>1 figures</summary><ul><li>l2: no &lt;counter&gt;</li></ul></details>' in text
    )
    assert "l1" not in text.split("<main>")[1].split("</main>")[0] and '<p class="warning">' not in text


def test_long_labels_stand_one_in_a_line_and_lines_show_their_dashes() -> None:
    from scmsim.plot.charts import curve, traffic

    chart = traffic([run("ext4"), run("vsm")])
    assert chart is not None and chart.spec["layer"][0]["encoding"]["color"]["legend"]["columns"] == 2
    lines = curve([{"run": name, "entries": n, "value": 1 / n} for name in ("a" * 18, "b") for n in (1, 2)])
    assert lines is not None
    for channel in ("color", "strokeDash"):
        legend = lines.spec["encoding"][channel]["legend"]
        assert (legend["columns"], legend["symbolType"]) == (1, "stroke")


def measured(fs: str, unit: int, repeat: int, **counters: int) -> Run:
    cell = {"operation": "write", "file_bytes": 1 << 20, "unit_bytes": unit, "repeat": repeat}
    return Run(fs, calls=10, counters=counters, cell=cell)


def body(text: str) -> str:
    return text.split("<main>")[1].split("</main>")[0]


def test_a_page_begins_with_sentences_and_a_chart_and_ends_with_the_manifest() -> None:
    from scmsim.report.page import page

    one, other = run("ext4"), run("vsm")
    other.counters = {**other.counters, "mem_inst_retired_all_loads": 86}
    text = page(Result({"sources": "abc"}, [one.derive(), other.derive()]))
    assert "<p>vsm needs the most loads and stores per call, 45: 10 times as many as ext4 with 4.5.</p>" in text
    heads = re.findall("<h2>(.*?)</h2>", body(text))
    assert heads[0] == "Headline" and heads[-1] == "What was run"


def test_a_page_of_measurements_shows_what_was_measured() -> None:
    from scmsim.report.page import page

    runs = [measured("disk", 4096, repeat, page_faults=20 * repeat, task_clock=5000) for repeat in (1, 2)]
    text = page(Result({}, runs))
    assert ">  page faults</td><td>3</td>" in text and ">  time on a CPU, ns</td><td>500</td>" in text
    assert "does not record how its counts were measured" in text and "#1" not in body(text)
    assert "Simulated counts" not in text


def test_made_up_counts_are_called_so_at_the_top_and_the_bottom() -> None:
    from scmsim.report.page import page

    text = page(Result({"harness": {"backend": "fake"}}, [measured("disk", 4096, 1, task_clock=5000)]))
    assert text.count("made up by the fake back end") == 2 and "Measured counts are perf" not in text


def test_few_walks_are_told_in_all_and_misses_by_page_size_and_region() -> None:
    from scmsim.plot.charts import misses, regions
    from scmsim.report.page import page

    runs = []
    for fs, walks in (("ext4", 11), ("nova", 4)):
        sizes = {f"dtlb_load_misses_walk_completed_{size}": n for size, n in (("4k", walks), ("2m_4m", 0), ("1g", 0))}
        sizes |= {f"dtlb_store_misses_walk_completed_{size}": 0 for size in ("4k", "2m_4m", "1g")}
        hits = {"dtlb_misses_stlb_hit_4k": 500, "dtlb_misses_stlb_hit_2m_4m": 300, "dtlb_misses_stlb_hit_1g": 200}
        both = {"dtlb_load_misses_walk_completed": walks, "dtlb_store_misses_walk_completed": 0}
        both |= {"dtlb_load_misses_stlb_hit": 900, "dtlb_store_misses_stlb_hit": 100}
        own = {"dtlb_user_misses_stlb_hit": 700, "dtlb_user_misses_walk_completed": 3}
        runs.append(Run(fs, paging="linux", calls=1000, counters={**sizes, **hits, **both, **own}).derive())
    text = page(Result({}, runs))
    assert "<p>ext4 needs the most page walks for data in all, 11: 2.8 times as many as nova with 4.</p>" in text
    assert "<td>11 in all</td><td>4 in all</td>" in text and "dTLB look-ups" not in body(text)
    sized, where = misses(runs), regions(runs)
    assert sized is not None and where is not None
    assert [row["value"] for row in sized.rows[:3]] == pytest.approx([0.511, 0.3, 0.2])
    assert [row["value"] for row in where.rows[:3]] == pytest.approx([0.3, 0.008, 0.7])
    assert "other" in {row["part"] for row in where.rows}  # 3 of 1,000 calls cannot be seen


def test_lines_of_one_colour_have_dashes_and_a_long_name_two_lines() -> None:
    from scmsim.plot.lines import charts
    from scmsim.result.names import short

    runs = []
    for fs in ("a", "b"):
        for i in range(5):
            cell = {"operation": f"op{i}", "unit_bytes": 0}
            runs += [Run(fs, calls=1, counters={"task_clock": u}, cell={**cell, "unit_bytes": u}) for u in (1, 2)]
    (chart,) = charts(runs)
    scale = chart.spec["encoding"]["strokeDash"]["scale"]
    assert scale["domain"] == [f"operation op{i}" for i in range(5)] and len({*map(tuple, scale["range"])}) == 5
    assert short(["nova-cow sapphire-rapids base-4k", "x"]) == ["nova-cow\nsapphire-rapids base-4k", "x"]


def test_a_parameter_that_few_points_have_is_no_axis_and_no_part_of_the_others_names() -> None:
    from scmsim.plot.lines import over
    from scmsim.report.page import page
    from scmsim.result.names import labels

    names = [f"fs{i}" for i in range(9)]
    cells = ({"trace": "/somewhere/git.parquet"}, {"workload.unit": 4096}, {"trace": "/somewhere/fio.parquet"})
    runs = [Run(fs, calls=1, counters={"task_clock": 5}, cell={**cell}) for fs in names for cell in cells]
    runs[1].cell["workload.unit"] = 8192
    assert over(runs) is None
    assert labels(runs)[:3] == ["fs0 git", "fs0 unit 8KiB", "fs0 fio"] and len(set(labels(runs))) == 27
    text = page(Result({}, runs))
    assert "<h1>scmsim: 9 file systems</h1>" in text and "/somewhere" not in body(text)
    assert "27 runs over fs (9, fs0 to fs8), trace (git, fio), unit (8KiB, 4KiB)." in text


def test_many_runs_are_lines_over_a_parameter_and_rows_of_a_table() -> None:
    from scmsim.report.page import drawn, page

    units = [1 << i for i in range(10, 17)]
    runs = [measured(fs, unit, 1, task_clock=unit) for fs in ("disk", "tmpfs") for unit in units]
    *_, chart = drawn(runs)
    assert (chart.name, len(chart.rows)) == ("task-clock", 14) and chart.rows[0]["x"] == 1024
    text = body(page(Result({}, runs)))
    assert "<td class=word>unit</td><td class=word>1KiB, 2KiB, 4KiB" in text
    assert text.count("<tr><td class=word>tmpfs</td>") == 7


def test_bars_of_files_are_told_apart() -> None:
    from scmsim.plot.charts import hot
    from scmsim.result.names import short

    counts = {"mem_inst_retired_all_loads": 5, "mem_inst_retired_all_stores": 1}
    names = [f"/home/user/project/tree/00000001/{i:08d}/some-very-long-name-of-a-file.txt" for i in range(3)]
    told = short(names)
    assert len(set(told)) == 3 and all(len(name) <= 24 and f"0000000{i}" in name for i, name in enumerate(told))
    chart = hot([Run(fs, calls=1, groups=dict.fromkeys(names, counts)) for fs in ("a", "b")])
    assert chart is not None and chart.title == "Hot files" and {row["part"] for row in chart.rows} == {"a", "b"}
    assert [row["run"] for row in chart.rows][::2] == names
    chart = hot([Run("a", calls=1, groups={"write": counts, "read": counts})])
    assert chart is not None and chart.title == "Hot operations"


def test_one_thing_has_one_colour_in_every_chart() -> None:
    from scmsim.plot.charts import sites, stored

    counts = {"mem_inst_retired_all_loads": 5, "mem_inst_retired_all_stores": 1}
    names = (["copy", "zeroing"], ["data copy", "block zeroing", "log scan"])
    runs = [
        Run("a", calls=1, sites=dict.fromkeys(each, counts), stored_bytes={"data": 1, "zeroing": 2}) for each in names
    ]
    colours = []
    for chart in (sites(runs), stored(runs)):
        assert chart is not None
        scale = chart.spec["layer"][0]["encoding"]["color"]["scale"]
        colours.append(dict(zip(scale["domain"], scale["range"], strict=True)))
    assert list(colours[0]) == ["data copy", "zeroing", "log scan"] and len(set(colours[0].values())) == 3
    assert colours[0]["zeroing"] == colours[1]["zeroing"] and colours[0]["data copy"] == colours[1]["data"]


def test_a_comparison_is_tables() -> None:
    from scmsim.compare import compare
    from scmsim.report.tables import comparison

    cell = {"operation": "write<b>"}
    simulated = Result({}, [Run("ext4", paging="p", calls=1, counters={"instructions": 100}, cell=cell)])
    real = Result({"kernel": "Linux 6.1.0"}, [Run("ext4", calls=1, counters={"instructions": 300}, cell=cell)])
    text = comparison(compare(simulated, real))
    assert (
        "<strong>out: 0 of 1 rows within tolerance, 1 out. Furthest off: instructions of ext4 write&lt;b&gt;, " in text
        and "<td>0.333</td>" in text
    )
    assert "write&lt;b&gt;" in text and "<pre>" not in text


def test_simulated_and_measured_runs_are_told_apart() -> None:
    from scmsim.result.names import axes, labels

    runs = [Run("ext4", "zen4", "base-4k", "nvdimm"), Run("ext4")]
    assert labels(runs) == ["ext4 simulated", "ext4 measured"] and list(axes(runs)) == ["result"]
    assert labels([*runs, Run("ext4", "zen5", "base-4k")])[::2] == ["ext4 simulated zen4", "ext4 simulated zen5"]


def test_misses_without_footprints_say_what_they_lack() -> None:
    from scmsim.report.page import _without_addresses

    def simulated(fs: str, share: float | None, **params: str) -> Run:
        return Run(fs=fs, metrics={"addressed_percent": share}, params=dict(params))

    bare, whole = simulated("ext4", 11.2), simulated("vsm", 80.0, footprints="6.1 tmpfs")
    assert _without_addresses([bare, whole]).startswith("<p>11 % of the loads and stores have addresses.")
    assert _without_addresses([bare, simulated("pmfs-2m", 23.1)]).startswith("<p>11 to 23 % of")
    assert _without_addresses([whole, simulated("measured", None)]) == ""
