"""Several threads on one medium: bounds, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scmsim import medium
from scmsim.core.errors import UsageError
from scmsim.core.registry import names
from scmsim.pipeline.load import MEDIUM, parse, table, under_load
from scmsim.result.run import Run


def reads(name, size=256 << 10, alone=1000.0):
    """A run of 4 calls that load `size` bytes each and take at least as long as the medium needs for them."""
    least = size / medium.read(name)["read_gb_s"]
    granules = {f"media_bytes_{granule}": 0 for granule in (64, 256, 4096)}
    counters = {"pm_loaded_bytes": 4 * size, "pm_stored_bytes": 0, **granules}
    return Run("ext4-dax", "i7-8700k", medium=name, calls=4, counters=counters, groups={"read": counters},
               time_ns={"all": 4 * (alone + least)})  # fmt: skip


@given(st.sampled_from([name for name in names("medium") if medium.read(name).get("cached", True)]), st.floats(1, 1e6))
def test_threads_are_bounded_by_the_medium_and_by_themselves(name, alone):
    run = reads(name, alone=alone)
    one, *more = under_load(run, [1, 2, 4, 8, 16])
    assert one.call_ns == pytest.approx(run.time_ns["all"] / 4)
    for state in more:
        moved = state.calls_per_ns * (256 << 10)
        assert moved <= medium.read(name)["read_gb_s"] * (1 + 1e-9)
        assert state.call_ns >= one.call_ns * (1 - 1e-9) and 0 < state.busy[MEDIUM] <= 1 + 1e-9


def test_one_channel_is_saturated_by_two_cores_and_a_link_of_cxl_by_sixteen():
    """256 KiB by a core that loads 12 GB/s from DRAM and 4.1 GB/s from CXL."""
    dram, cxl = (reads(name, alone=0) for name in ("nvdimm", "cxl"))
    dram.time_ns, cxl.time_ns = {"all": 4 * (256 << 10) / 12.0}, {"all": 4 * (256 << 10) / 4.1}
    assert under_load(dram, [2])[0].busy[MEDIUM] > 0.9 > 0.6 > under_load(cxl, [4])[0].busy[MEDIUM]
    assert under_load(cxl, [16])[0].busy[MEDIUM] > 0.99


def test_many_threads_slow_down_an_optane_module():
    """24 readers get 3.89 GB/s together, three 6.6 (OptaneStudy, figure 04)."""
    run = reads("optane", alone=0)
    three, crowd = (256 * 1024 * state.calls_per_ns for state in under_load(run, [3, 24]))
    assert three == pytest.approx(6.6) and crowd == pytest.approx(3.89, rel=0.01)


@pytest.mark.parametrize(
    ("text", "found"), [("8", [8]), ("1..4", [1, 2, 3, 4]), ("1, 2,2..3", [1, 2, 3]), ("256", [256])]
)
def test_numbers_of_threads(text, found):
    assert parse(text) == found


@pytest.mark.parametrize("text", ["", "0", "257", "4..2", "1..", "x", "-1", "1.5", "²", "1..99999999999"])
def test_wrong_numbers_of_threads_are_refused(text):
    with pytest.raises(UsageError, match=r"threads must be like 8, 1..16 or 1,2,4, from 1 to 256, not "):
        parse(text)


def test_a_run_without_a_time_is_refused():
    run = Run("ext4", medium="nvdimm", calls=4, why_absent={"time_ns.fences": "no ghz"})
    with pytest.raises(UsageError, match=r"no load of ext4: its time is not estimated \(no ghz\)"):
        under_load(run, [2])
    with pytest.raises(UsageError, match="it has no calls whose time is estimated"):
        under_load(Run("ext4", medium="nvdimm"), [2])


def test_the_table_has_a_row_for_each_number_of_threads():
    text = table([reads("nvdimm"), reads("cxl")], [1, 4])
    assert [line.split()[:3] for line in text.splitlines()[2:-1]] == [
        ["ext4-dax", name, count] for name in ("nvdimm", "cxl") for count in ("1", "4")
    ]
    assert "| ext4-dax | cxl | 4 |" in table([reads("cxl")], [4], markdown=True)
