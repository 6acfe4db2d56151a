"""Loaded latency: three formats of measured points, interpolation, and the rate of lines in flight."""

import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scmsim.core import curves
from scmsim.core.errors import UsageError

STUDY = pathlib.Path(__file__).parents[1] / "verification/data/optane_study/06-bandwidth_seqwrite_latency.csv"
OURS = "reads_percent,gb_s,ns\n100,0,100\n100,10,200\n0,0,300\n0,10,500\n"


def test_latency_is_linear_between_points_and_shares(tmp_path):
    (tmp_path / "c.csv").write_text(OURS)
    found = curves.read(tmp_path / "c.csv")
    assert found.latency(5) == 150 and found.latency(5, 0) == 400 and found.latency(5, 50) == 275
    assert found.latency(99) == 200 and found.slowdown(10) == 2 and found.largest(30) == 10


def test_the_same_points_are_read_from_all_formats(tmp_path):
    """Mess has a file per share, MB/s before ns; OptaneStudy names each device twice, ns before GB/s."""
    mess = tmp_path / "mess"
    mess.mkdir()
    (mess / "bwlat_100.txt").write_text("10000\t200.0\n0\t100\n\n10000\t250\n9000\t300\n")
    (mess / "bwlat_0.txt").write_text("0 300\n10000 500\n")
    (mess / "notes.txt").write_text("not a curve")
    (tmp_path / "c.csv").write_text(OURS)
    assert curves.read(mess) == curves.read(tmp_path / "c.csv")  # a saturated device's higher latencies are left out
    (tmp_path / "study.csv").write_text(",DRAM,DRAM,Optane,Optane\nM0,500,10,9,9\nM50,300,0,8,8\n")
    assert curves.read(f"{tmp_path}/study.csv#DRAM").by_share == curves.read(mess).by_share[:1]


def test_the_study_s_own_file():
    """Latency of DRAM at the other socket rises from 133 ns to 184 ns at 24.7 GB/s (the device of M0)."""
    found = curves.read(f"{STUDY}#DRAM-Remote")
    assert (
        found.latency(0) == 133.1 and found.latency(30) == 183.53 and found.largest() == pytest.approx(24.68, abs=0.01)
    )
    with pytest.raises(UsageError, match="give .*#DEVICE: DRAM, DRAM-Remote, Optane, PMEP"):
        curves.read(STUDY)


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("a,b\n1,2\n", "", r"line 1: the columns must be reads_percent,gb_s,ns, not 'a,b'"),
        ("", "", r"line 1: the columns must be"),
        ("reads_percent,gb_s,ns\n", "", r"have no point; give at least one line: reads_percent,gb_s,ns"),
        ("reads_percent,gb_s,ns\n100,1,x\n", "", r"line 2: '100,1,x'; give 3 numbers"),
        ("reads_percent,gb_s,ns\n100,1,nan\n", "", r"give 3 numbers"),
        ("reads_percent,gb_s,ns\n100,1,0\n", "", r"line 2: a latency must be more than 0 ns"),
        ("reads_percent,gb_s,ns\n101,1,5\n", "", r"line 2: a share of reads is 0 to 100 percent, not 101"),
        (",DRAM,DRAM\nM0,1,2\n", "#PMEM", r"has no device 'PMEM'; give c.csv#DEVICE: DRAM"),
        (",DRAM,DRAM\nM0,1\n", "#DRAM", r"line 2: '1'; give 2 numbers"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path, text, name, said):
    (tmp_path / "c.csv").write_text(text)
    with pytest.raises(UsageError, match=said) as caught:
        curves.read(f"{tmp_path / 'c.csv'}{name}")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot read the curves .*No such file"):
        curves.read(tmp_path / "none.csv")


points = st.lists(st.tuples(st.floats(0, 100), st.floats(1, 1000)), min_size=1, max_size=8)


@given(points, st.floats(1, 64), st.floats(10, 500))
def test_the_rate_is_where_lines_over_latency_equal_the_bandwidth(made, lines, idle):
    found = curves.Curves(((100.0, curves._rising(made)),))
    rate = found.rate(lines, idle)
    assert 0 < rate <= 64 * lines / idle * (1 + 1e-12)
    assert rate * idle * found.slowdown(rate) == pytest.approx(64 * lines, rel=1e-6)


@given(points, st.floats(0, 100), st.floats(0, 100))
def test_latency_does_not_fall_with_bandwidth(made, one, other):
    found = curves.Curves(((100.0, curves._rising(made)),))
    assert found.latency(min(one, other)) <= found.latency(max(one, other)) * (1 + 1e-12)
