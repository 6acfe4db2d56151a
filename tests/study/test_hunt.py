"""The search for bad patterns: what it must find by itself, that it repeats, and what it writes."""

import json
import shutil
import subprocess

import numpy as np
import pytest
from click.testing import CliRunner

from scmsim import cli, trace
from scmsim.cli.hunt import _lines
from scmsim.core.errors import UsageError
from scmsim.core.records import FSYNC, READ, WRITE, joined
from scmsim.study.hunt import Finding, Hunt, Pattern
from scmsim.workload import pattern
from tests.conftest import NO_JIT

compiled = pytest.mark.skipif(NO_JIT, reason="hundreds of replays")


@compiled
def test_it_finds_the_zeroing_of_huge_blocks_by_itself():
    """PMFS with 2 MiB blocks clears a block for the first small write into it; no gene says so."""
    found = Hunt("pmfs-2m", "stored", tries=24).find("append")
    assert found.site == "block zeroing" and found.site_share > 90
    assert found.score > 10 * found.typical > 0


@compiled
def test_it_finds_the_copies_of_huge_blocks_by_itself():
    cow = {"pmfs-2m": {"data_path": "cow"}}
    found = Hunt("pmfs-2m", "stored", params=cow, tries=6).find("overwrite")
    assert found.site == "cow copy" and found.score > 500


@compiled
@pytest.mark.slow
def test_it_finds_novas_log_scan_by_itself():
    """What grows with age on the NOVA of 2016: small appends, for which each extension scans the whole log."""
    found = Hunt("nova-fast16", "growth", tries=8).find("append")
    assert found.site == "log scan" and found.site_growth > 2 and found.pattern.unit <= 4096
    assert found.score > 1.05


def finding(score, typical, **more):
    return Finding(
        Pattern("append"), score, typical, **{"site": None, "site_share": 0, "site_growth": 0, "tried": 9, **more}
    )


@pytest.mark.parametrize(
    ("score", "typical", "stands_out"),
    [(1.002, 1.004, False), (0, 0, False), (1.09, 1.0, False), (1.1, 1.0, True), (3.0, 0, True)],
)
def test_a_finding_differs_from_the_median_by_a_margin(score, typical, stands_out):
    assert finding(score, typical).stands_out is stands_out


def test_what_is_no_finding_is_said_and_blames_nothing():
    (line,) = _lines("stored", finding(1.002, 1.004))
    assert line == (
        "stored: append: no pattern stands out: the worst of 9 has 1.002 (median of drawn patterns 1.004); a finding has 1.1 times "
        "that or more"
    )
    assert "blame" not in "".join(_lines("walks", finding(0, 0)))
    assert _lines("growth", finding(1.2, 1.0))[1] == "  1.2 (1 would be even); no single mechanism rose"
    blamed = finding(2, 1, site="log scan", site_share=30, site_growth=float("inf"))
    assert _lines("traffic", blamed)[1].endswith("blame log scan: 30 % of it, which other patterns do not have")


@compiled
def test_nothing_stands_out_where_all_patterns_cost_the_same(tmp_path):
    """Reads store nothing."""
    args = [
        "hunt",
        "--fs",
        "pmfs-4k",
        "--op",
        "read",
        "--metric",
        "stored",
        "--tries",
        "4",
        "-o",
        str(tmp_path / "found"),
    ]
    done = CliRunner().invoke(cli.main, [*args, "--json"])
    (row,) = json.loads(done.stdout)
    assert (row["score"], row["stands_out"], row["site"]) == (0, False, None) and not list(
        (tmp_path / "found").iterdir()
    )


@compiled
def test_the_same_seed_gives_the_same_finding_and_shrinking_keeps_the_score():
    first, second = (Hunt("nova-fast16", tries=10, seed=3).find("overwrite") for _ in range(2))
    assert first == second
    again = Hunt("nova-fast16", tries=1)
    assert again.score(first.pattern) == first.score and first.tried == 10
    assert first.pattern != Hunt("nova-fast16", tries=10, seed=4).find("append").pattern


@pytest.mark.parametrize("op", ["append", "overwrite", "read"])
def test_a_pattern_does_what_its_words_say(op):
    source = pattern.Workload(op=op, unit=1000, stride=8192, shift=100, sync=4, files=3, file_size=1 << 20, calls=50)
    rows = joined(list(source.batches(7)))
    calls = rows[np.isin(rows["op"], (READ, WRITE)) & (rows["flag"] & 2 == 0)]
    assert len(calls) == 50 and set(calls["length"]) == {1000} and len(rows) == source.rows
    for file in (1, 2, 3):
        mine = calls["offset"][calls["file"] == file]
        assert list(mine) == [100 + 8192 * i for i in range(len(mine))]
        assert (rows[rows["file"] == file]["op"] == FSYNC).sum() == len(mine) // 4


def test_random_places_stay_inside_the_file():
    rows = np.concatenate(
        list(pattern.Workload(op="read", order="random", unit=5000, file_size=100_000, calls=500).batches())
    )
    assert rows["offset"].min() >= 0 and (rows["offset"] + rows["length"]).max() <= 100_000
    assert len(set(rows["offset"].tolist())) == 20


def test_mistakes():
    with pytest.raises(UsageError, match="does not hold a call"):
        pattern.Workload(op="read", unit=8192, file_size=4096)
    with pytest.raises(UsageError, match="no metric named 'trafic'"):
        Hunt("ext4", "trafic")
    done = CliRunner().invoke(cli.main, ["hunt", "--fs", "ext4", "--op", "apend"])
    assert done.exit_code == 2 and "append" in done.stderr


@compiled
def test_findings_are_written_as_trace_and_fio_job(tmp_path):
    args = ["hunt", "--fs", "pmfs-4k", "--op", "read", "--tries", "4", "--json", "-o", str(tmp_path / "found")]
    done = CliRunner().invoke(cli.main, args)
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)
    stored = trace.open_trace(tmp_path / "found" / "pmfs-4k-traffic-read.parquet")
    assert stored.rows == row["pattern"]["calls"] and stored.header["workload"]["unit"] == row["pattern"]["unit"]
    assert f"bs={row['pattern']['unit']}" in (tmp_path / "found" / "pmfs-4k-traffic-read.fio").read_text()


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
@pytest.mark.parametrize("op", ["append", "overwrite", "read"])
def test_fio_takes_the_job(tmp_path, op):
    """fio runs it and moves the same bytes in as many calls."""
    job = tmp_path / "pattern.fio"
    job.write_text(Pattern(op, unit=4096, stride=8192, file_size=1 << 20, calls=64).fio())
    line = ["fio", "--output-format=json", f"--directory={tmp_path}", str(job)]
    report = json.loads(subprocess.run(line, capture_output=True, text=True, check=True, timeout=60).stdout)
    side = report["jobs"][0]["read" if op == "read" else "write"]
    assert (side["total_ios"], side["io_bytes"]) == (64, 64 * 4096)
