"""What a report says in words, from made-up runs: what was run, what nothing could supply, legends that fit a phone."""

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
    assert '<p class="absent">In no run: l2 (no &lt;counter&gt;).</p>' in text
    assert "l1 (no counter)" not in text and '<p class="warning">' not in text


def test_long_labels_stand_one_in_a_line_and_lines_show_their_dashes() -> None:
    from scmsim.report.charts import curve, traffic

    chart = traffic([run("ext4"), run("vsm")])
    assert chart is not None and chart.spec["encoding"]["color"]["legend"]["columns"] == 2
    lines = curve([{"run": name, "entries": n, "value": 1 / n} for name in ("a" * 18, "b") for n in (1, 2)])
    assert lines is not None
    for channel in ("color", "strokeDash"):
        legend = lines.spec["encoding"][channel]["legend"]
        assert (legend["columns"], legend["symbolType"]) == (1, "stroke")
