"""Metrics against formulas written out by hand, over all counter values."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scmsim.core.counters import SCHEMA
from scmsim.result.metrics import METRICS, TABLE7, compute, space_waste, table7
from scmsim.result.time import estimate

# The 17 events of the thesis' Table 6 in its order, and the 18th that Table 7 needs (names of Sandy Bridge).
EVENTS = (
    "CPU_CLK_UNHALTED.THREAD_P",
    "L1D.REPLACEMENT",
    "MEM_LOAD_UOPS_RETIRED.LLC_HIT",
    "MEM_LOAD_UOPS_LLC_HIT_RETIRED.XSNP_HIT",
    "MEM_LOAD_UOPS_LLC_HIT_RETIRED.XSNP_HITM",
    "MEM_LOAD_UOPS_LLC_HIT_RETIRED.XSNP_MISS",
    "dTLB-loads",
    "dTLB-stores",
    "dTLB-load-misses",
    "dTLB-store-misses",
    "INST_RETIRED.ANY_P",
    "DTLB_LOAD_MISSES.WALK_COMPLETED",
    "DTLB_LOAD_MISSES.WALK_DURATION",
    "DTLB_STORE_MISSES.WALK_COMPLETED",
    "DTLB_STORE_MISSES.WALK_DURATION",
    "ITLB_MISSES.WALK_COMPLETED",
    "ITLB_MISSES.WALK_DURATION",
    "MEM_LOAD_UOPS_MISC_RETIRED.LLC_MISS",
)
counts = st.integers(1, 10**12)
measured = st.tuples(*[counts] * len(EVENTS))


def by_number(values: tuple[int, ...]) -> dict[int, int]:
    """Counts by the event's number in Table 6, from 1."""
    return dict(enumerate(values, 1))


@given(measured)
def test_table_7_by_hand(values: tuple[int, ...]) -> None:
    e = by_number(values)
    expected = {
        "walk_cycles_percent_data": (e[13] + e[15]) / e[1] * 100,
        "walks_per_1000_instructions_data": (e[12] + e[14]) / (e[11] / 1000),
        "cycles_per_walk_data": (e[13] + e[15]) / (e[12] + e[14]),
        "walk_cycles_percent_instruction": e[17] / e[1] * 100,
        "walks_per_1000_instructions_instruction": e[16] * 1000 / e[11],
        "cycles_per_walk_instruction": e[17] / e[16],
        "l1_misses": e[2],
        "l2_misses": e[3] + e[4] + e[5] + e[18],
        "llc_misses": e[18],
    }
    found = table7(dict(zip(EVENTS, values, strict=True)))
    assert found.values.keys() == expected.keys() and not found.why_absent
    for name, value in expected.items():
        assert math.isclose(found.values[name], value, rel_tol=1e-12), name


@given(measured, measured)
def test_the_matlab_appendix_differs_where_it_is_wrong(write: tuple[int, ...], reread: tuple[int, ...]) -> None:
    """Each line is an assignment of the appendix for the column `reread`; E1 to E5 as its errors are numbered here."""
    w, r = by_number(write), by_number(reread)
    matlab = {
        "walks_per_1000_instructions_data": (w[12] + w[14]) / (w[11] / 1000),  # E1: the events of `write`
        "cycles_per_walk_data": (r[13] + r[15]) / (w[12] + r[14]),  # E2: event 12 of `write`
        "cycles_per_walk_instruction": r[16] / (r[17] / 1000),  # E3: inverted, times 1000
        "l2_misses": r[3] + r[4] + r[5] + r[6],  # E4: XSNP_MISS, a hit, in place of LLC_MISS
        "llc_misses": r[6],  # E5: the same
    }
    assume((w[12] + w[14]) * r[11] != (r[12] + r[14]) * w[11] and w[12] != r[12] and r[6] != r[18])
    assume(1000 * r[16] ** 2 != r[17] ** 2)
    found = table7(dict(zip(EVENTS, reread, strict=True))).values
    for name, wrong in matlab.items():
        assert not math.isclose(found[name], wrong, rel_tol=1e-15), name


@given(measured)
def test_a_newer_cpu_counts_the_same_under_other_names(values: tuple[int, ...]) -> None:
    """Skylake: walk_active is the share of time, walk_pending the cost of a walk, and L2 misses have their own
    event."""
    e = by_number(values)
    found = table7(
        {
            "cpu_clk_unhalted.thread": e[1],
            "inst_retired.any": e[11],
            "dtlb_load_misses.walk_completed": e[12],
            "dtlb_load_misses.walk_active": e[13],
            "dtlb_load_misses.walk_pending": 2 * e[13],
            "dtlb_store_misses.walk_completed": e[14],
            "dtlb_store_misses.walk_active": e[15],
            "dtlb_store_misses.walk_pending": 2 * e[15],
            "mem_load_retired.l2_miss": e[3],
            "mem_load_retired.l3_miss": e[18],
        }
    ).values
    assert math.isclose(found["walk_cycles_percent_data"], 100 * (e[13] + e[15]) / e[1])
    assert math.isclose(found["cycles_per_walk_data"], 2 * (e[13] + e[15]) / (e[12] + e[14]))
    assert (found["l2_misses"], found["llc_misses"]) == (e[3], e[18])


@given(st.dictionaries(st.sampled_from(sorted(SCHEMA)), st.integers(0, 10**12)), st.integers(0, 10**9))
def test_every_metric_has_a_value_or_a_reason(counters: dict[str, int], calls: int) -> None:
    found = compute(counters, calls=calls, written_bytes=calls, read_bytes=None, stored_bytes={"data": calls})
    assert not found.values.keys() & found.why_absent.keys()
    assert found.values.keys() | found.why_absent.keys() == METRICS.keys()
    assert all(math.isfinite(value) for value in found.values.values()) and all(found.why_absent.values())
    assert "l1_misses" in found.why_absent and "walk_cycles_percent_data" in found.why_absent


def test_an_absent_counter_makes_its_metrics_absent_not_zero() -> None:
    found = compute({"instructions": 1000, "dtlb_load_misses_walk_completed": 5})
    assert "walks_per_1000_instructions_data" not in found.values
    assert found.why_absent["walks_per_1000_instructions_data"] == "no dtlb_store_misses_walk_completed"
    found = compute({"dtlb_load_misses_walk_completed": 0, "dtlb_store_misses_walk_completed": 0})
    assert found.values["dtlb_walks"] == 0


@pytest.mark.parametrize("name", METRICS)
def test_no_metric_has_the_name_of_a_counter(name: str) -> None:
    assert name not in SCHEMA and METRICS[name].unit and METRICS[name].meaning


def test_table_7_has_nine_metrics() -> None:
    assert len(TABLE7) == 9


@given(st.integers(1, 1 << 40), st.integers(0, 1 << 40), st.integers(0, 1 << 34), st.integers(1, 1 << 30))
def test_write_amplification_by_hand(written: int, stored: int, lines: int, media: int) -> None:
    counters = {"pm_stored_bytes": stored, "lines_written_back": lines, "media_bytes_64": media}
    counters |= {"media_bytes_256": 2 * media, "media_bytes_4096": 3 * media, "pm_loaded_bytes": media}
    found = compute(
        counters, written_bytes=written, read_bytes=2 * written, stored_bytes={"data": stored, "log": 7}
    ).values
    assert math.isclose(found["write_amplification"] * written, stored, abs_tol=1e-6)
    assert math.isclose(found["write_amplification_lines"], lines * 64 / written)
    for times, granule in ((1, 64), (2, 256), (3, 4096)):
        assert math.isclose(found[f"write_amplification_media_{granule}"], times * media / written)
    if stored < written:
        assert "cow_extra_ratio" not in found
    else:
        assert math.isclose(found["cow_extra_ratio"], stored / written - 1, rel_tol=1e-9, abs_tol=1e-9)
    assert math.isclose(found["read_amplification"], media / (2 * written))


@pytest.mark.parametrize(
    ("request_bytes", "page", "extra"), [(4096, 2 << 20, 511), (1024, 2 << 20, 2047), (1024, 4096, 3)]
)
def test_extra_bytes_of_the_vsm_paper(request_bytes: int, page: int, extra: int) -> None:
    """Sections II.A and IV.C: an overwrite of `request_bytes` copies one page; the amplification is what it copies
    beyond."""
    found = compute(
        {"pm_stored_bytes": page + 64}, written_bytes=request_bytes, stored_bytes={"data": page, "metadata": 64}
    )
    assert found.values["cow_extra_ratio"] == extra
    assert found.values["write_amplification"] == (page + 64) / request_bytes


@given(st.integers(0, 1 << 50), st.sampled_from([4096, 2 << 20, 1 << 30]))
def test_space_waste(size: int, page: int) -> None:
    waste = space_waste(size, page)
    assert (size + waste) % page == 0 and 0 <= waste < page


@pytest.mark.parametrize(("page", "waste"), [(4096, 2048), (2 << 20, 2095104), (1 << 30, 1073739776)])
def test_space_waste_of_the_vsm_papers_example(page: int, waste: int) -> None:
    """Section II.B: a file of 1 GiB + 2 KiB."""
    assert space_waste((1 << 30) + 2048, page) == waste


TIME = {"ghz": 4.0, "cpi": 0.5, "stlb_hit_cycles": 8, "walk_hidden": 0.25, "copy_gb_s": 8.0, "syscall_ns": 60}
MEDIUM = {"load_ns": 300, "read_gb_s": 6.0, "write_gb_s": 2.0, "granule": 256, "fence_ns": 90}


@given(st.lists(st.integers(0, 10**9), min_size=13, max_size=13))
def test_time_terms_by_hand(n: list[int]) -> None:
    names = (
        "instructions", "dtlb_load_misses_walk_active", "dtlb_store_misses_walk_active", "itlb_misses_walk_active",
        "pm_loaded_bytes", "pm_stored_bytes", "media_bytes_256", "fences",
        "dtlb_load_misses_stlb_hit", "dtlb_store_misses_stlb_hit", "itlb_misses_stlb_hit",
    )  # fmt: skip
    counters = {**dict(zip(names, n[:11], strict=True)), "tlb_invalidation_cycles": n[12]}
    counters["pm_dependent_loads"] = n[4] // 64
    guess = estimate(counters, TIME, MEDIUM, calls=n[11], waited_ns=77)
    expected = {
        "instructions": n[0] * 0.5 / 4,
        "stlb_hits": (n[8] + n[9] + n[10]) * 8 / 4,
        "walks": (n[1] + n[2] + n[3]) * 0.75 / 4,
        "invalidations": n[12] / 4,
        "dependent_loads": n[4] // 64 * 300,
        "load_bandwidth": n[4] / 6,
        "store_bandwidth": max(n[5] / 8, n[6] / 2),
        "fences": n[7] * 90,
        "calls": n[11] * 60,
        "waits": 77,
    }
    assert guess.terms == pytest.approx(expected) and not guess.why_absent
    assert guess.total_ns == pytest.approx(sum(expected.values())) and guess.cycles == pytest.approx(guess.total_ns * 4)


@given(st.lists(st.integers(1, 10**6), min_size=6, max_size=6))
def test_streamed_stores_hide_the_instructions_that_feed_them(n: list[int]) -> None:
    """The longer counts: a copy's instructions, or its bytes, loaded and stored.

    What is stored through the cache hides nothing, nor does what is no bulk data.
    """
    streamed, cached, copying, other, media, loaded = n
    bulk = {
        "instructions": copying,
        "nt_stored_bytes": streamed,
        "pm_stored_bytes": streamed + cached,
        "pm_loaded_bytes": loaded,
        "media_bytes_256": media,
    }
    counters = {**bulk, "instructions": copying + other}
    alone, both = (sum(estimate(counters, TIME, MEDIUM, bulk=given).terms.values()) for given in (None, bulk))
    moved = (max((streamed + cached) / 8, media / 2) + loaded / 6) * streamed / (streamed + cached)
    assert alone - both == pytest.approx(min(copying * 0.5 / 4, moved))
    of_program = {
        name: count for name, count in bulk.items() if name != "pm_loaded_bytes"
    }  # nothing is loaded from memory
    moved -= loaded / 6 * streamed / (streamed + cached)
    assert alone - sum(estimate(counters, TIME, MEDIUM, bulk=of_program).terms.values()) == pytest.approx(
        min(copying * 0.5 / 4, moved)
    )


def test_a_core_may_load_less_than_the_medium_gives() -> None:
    guess = estimate({"pm_loaded_bytes": 60}, {**TIME, "load_gb_s": 4.0}, MEDIUM)
    assert guess.terms["load_bandwidth"] == 15
    assert estimate({"pm_loaded_bytes": 60}, {**TIME, "load_gb_s": 9.0}, MEDIUM).terms["load_bandwidth"] == 10


def test_a_medium_without_a_cache_has_its_latency_in_the_bandwidth() -> None:
    guess = estimate({"pm_dependent_loads": 3, "pm_loaded_bytes": 60}, TIME, {**MEDIUM, "cached": False})
    assert guess.terms["dependent_loads"] == 0 and guess.terms["load_bandwidth"] == 10


def test_a_term_without_its_parameter_is_absent_with_the_reason() -> None:
    guess = estimate({"instructions": 10, "fences": 2}, TIME, {**MEDIUM, "fence_ns": None})
    assert set(guess.terms) == {"instructions"}
    assert guess.why_absent["fences"] == "no fence_ns" and guess.why_absent["calls"] == "no calls"


def test_cycles_are_estimated_only_where_none_were_counted() -> None:
    walks = {"dtlb_load_misses_walk_active": 30, "dtlb_store_misses_walk_active": 20}
    found = compute(walks, estimated_cycles=1000)
    assert found.values["walk_cycles_percent_data"] == 5 and found.estimated == ["walk_cycles_percent_data"]
    found = compute({**walks, "cpu_clk_unhalted_thread": 500}, estimated_cycles=1000)
    assert found.values["walk_cycles_percent_data"] == 10 and found.estimated == []
