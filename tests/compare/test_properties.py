"""Cells and comparisons of random results: Table 7 by hand, and what must hold for any two results."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.compare import compare
from scmsim.plot.panels import collect, panels
from scmsim.result import Result, Run
from scmsim.result.cells import cells

COUNTERS = (
    "cycles", "instructions", "dtlb_load_misses_walk_active", "dtlb_store_misses_walk_active", "itlb_misses_walk_active",
    "dtlb_load_misses_walk_pending", "dtlb_store_misses_walk_pending", "itlb_misses_walk_pending",
    "dtlb_load_misses_walk_completed", "dtlb_store_misses_walk_completed", "itlb_misses_walk_completed", "l1d_replacement",
    "mem_load_retired_l2_miss", "mem_load_retired_l3_miss",
)  # fmt: skip
TABLES = st.fixed_dictionaries({name: st.integers(1, 10**12) for name in COUNTERS})
SIZES = st.integers(0, 10).map(lambda power: 1 << 10 + power)


@st.composite
def results(draw: st.DrawFn, most: int = 6) -> Result:
    runs = []
    for _ in range(draw(st.integers(1, most))):
        cell = {
            "operation": draw(st.sampled_from(["write", "read"])),
            "file_bytes": draw(SIZES),
            "unit_bytes": draw(SIZES),
        }
        table = draw(TABLES)
        kept = draw(st.sets(st.sampled_from(COUNTERS)))
        fs = draw(st.sampled_from(["ext4", "nova-cow"]))
        runs.append(Run(fs, calls=draw(st.integers(0, 100)), cell=cell, counters={n: table[n] for n in sorted(kept)}))
    return Result({}, runs)


@settings(max_examples=60)
@given(st.lists(TABLES, min_size=1, max_size=5), st.integers(1, 10**6))
def test_the_nine_metrics_by_hand(repeats: list[dict[str, int]], calls: int) -> None:
    runs = [Run("ext4", calls=calls, counters=table, cell={"operation": "write"}) for table in repeats]
    (cell,) = cells(Result({}, runs)).values()
    e = {name: sum(table[name] for table in repeats) / len(repeats) for name in COUNTERS}
    walks = e["dtlb_load_misses_walk_completed"] + e["dtlb_store_misses_walk_completed"]
    active = e["dtlb_load_misses_walk_active"] + e["dtlb_store_misses_walk_active"]
    pending = e["dtlb_load_misses_walk_pending"] + e["dtlb_store_misses_walk_pending"]
    by_hand = {
        "walk_cycles_percent_data": 100 * active / e["cycles"],
        "walks_per_1000_instructions_data": 1000 * walks / e["instructions"],
        "cycles_per_walk_data": pending / walks,
        "walk_cycles_percent_instruction": 100 * e["itlb_misses_walk_active"] / e["cycles"],
        "walks_per_1000_instructions_instruction": 1000 * e["itlb_misses_walk_completed"] / e["instructions"],
        "cycles_per_walk_instruction": e["itlb_misses_walk_pending"] / e["itlb_misses_walk_completed"],
        "l1_misses": e["l1d_replacement"],
        "l2_misses": e["mem_load_retired_l2_miss"],
        "llc_misses": e["mem_load_retired_l3_miss"],
    }
    assert {name: cell.values[name].mean for name in by_hand} == pytest.approx(by_hand)
    for name in ("l1_misses", "cycles"):
        value = cell.per_call(name)
        assert value is not None and value.mean == pytest.approx(cell.values[name].mean / calls)


@settings(max_examples=60)
@given(results())
def test_a_result_agrees_with_itself(result: Result) -> None:
    found = compare(result, result, events=["all"], tolerances={"cycles": 0, "instructions": 0})
    assert not found.only_simulated and not found.only_measured
    assert {row.verdict for row in found.rows} <= {"ok", "-"}
    assert all(row.ratio in (1.0, None) and row.simulated == row.measured for row in found.rows)
    assert {row.key for row in found.rows} <= set(cells(result))


@settings(max_examples=60)
@given(results(), results())
def test_every_cell_is_compared_or_listed_and_sides_can_be_swapped(one: Result, other: Result) -> None:
    there, back = compare(one, other, events=["all"]), compare(other, one, events=["all"])
    mine, theirs = set(cells(one)), set(cells(other))
    assert set(there.only_simulated) == mine - theirs == set(back.only_measured)
    assert set(there.only_measured) == theirs - mine == set(back.only_simulated)
    ratios = {(row.key, row.quantity): row.ratio for row in back.rows}
    assert len(ratios) == len(there.rows)
    for row in there.rows:
        assert row.key in mine & theirs
        swapped = ratios[row.key, row.quantity]
        if row.ratio and swapped:
            assert row.ratio * swapped == pytest.approx(1)
    assert there.as_dict()["counts"]["out"] == sum(row.verdict == "out" for row in there.rows)


@settings(max_examples=40)
@given(results(most=12), st.sampled_from(["cycles", "llc_misses", "walk_cycles_percent_data"]))
def test_figures_show_what_the_cells_hold(result: Result, quantity: str) -> None:
    table = cells(result)
    for operation in ("write", "read"):
        points, per, zeros = collect({"measured": table}, quantity, operation)
        for point in points:
            found = [c for k, c in table.items() if (k.fs, k.operation, *k[2:]) == (point.fs, operation, *point[2:4])]
            (cell,) = found
            value = cell.per_call(quantity) if per == " per call" else cell.values[quantity]
            assert value is not None and point.value == value.mean > 0 and point.low <= point.value <= point.high
        shown = {point.file_bytes for point in points}
        assert len(shown) <= 4 and zeros == 0


@given(st.sets(st.integers(1, 10**6), min_size=1, max_size=20))
def test_panels_are_at_most_four_with_both_ends(sizes: set[int]) -> None:
    shown = panels(sorted(sizes))
    assert set(shown) <= sizes and len(shown) == len(set(shown)) == min(4, len(sizes))
    assert shown == sorted(shown) and {min(sizes), max(sizes)} <= set(shown)
