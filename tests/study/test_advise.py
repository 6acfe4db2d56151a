"""`scmsim advise`: its figures against the MMU, the page-size policies and the file systems, and an exact Pareto front."""

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import scmsim
from scmsim import cli, mmu
from scmsim.core.counters import COUNTERS
from scmsim.core.records import EVENT, LOAD
from scmsim.mmu.replay import replay as mmu_replay
from scmsim.study import space
from scmsim.study.advise import kernels as k
from scmsim.study.advise import search, text
from scmsim.study.advise.profile import FAR, GRAINS, MIB, THRESHOLDS, profile
from scmsim.study.advise.search import Choice, advise, pareto
from tests.fs import drive

GIB = 1 << 30
VARMAIL = np.array([[104_996, 8_757_747, 1], [106_060, 4_641_267, 1], [106_324, 496_115, 1.0]])  # front of that trace


def trace(seed=1, files=30, count=3000):
    """Files of 1 byte to 12 MiB that are written, overwritten and read at random."""
    random = np.random.default_rng(seed)
    sizes = (2 ** random.uniform(0, 23.5, files)).astype(int)
    rows = [row for i, n in enumerate(sizes) for row in (("create", i), ("write", i, 0, int(n)))]
    for _ in range(count):
        file = int(random.integers(files))
        offset = int(random.integers(sizes[file]))
        kind = "read" if random.random() < 0.7 else "write"
        rows.append((kind, file, offset, int(min(random.integers(1, 50_000), sizes[file] - offset))))
    return drive.source(drive.files(*[-1] * files), drive.ops(*rows))


@pytest.fixture(scope="module")
def advice():
    return advise(profile(trace()))


def model(found, machine="i7-8700k"):
    return search._Model(found, machine, 1 << 40)


def test_more_than_10000_combinations_are_weighed_and_the_front_is_exact(advice):
    assert len(advice.choices) + advice.infeasible > 10_000
    costs = np.unique(advice.costs, axis=0)
    beaten = [bool(((costs <= one).all(1) & (costs < one).any(1)).any()) for one in costs]
    assert {tuple(one) for one in advice.costs[advice.front]} == {
        tuple(c) for c, b in zip(costs, beaten, strict=True) if not b
    }
    assert advice.best in advice.front


@given(points=st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=40))
def test_the_front_is_what_no_point_beats(points):
    costs = np.array(points, float)
    front = {tuple(costs[i]) for i in pareto(costs)}
    slow = {p for p in points if not any(all(a <= b for a, b in zip(q, p, strict=True)) and q != p for q in points)}
    assert front == slow and len(pareto(costs)) == len(slow)


def lru_machine():
    """The TLBs of the i7-8700k with LRU everywhere, as the search assumes."""
    from scmsim.mmu.presets import read

    table = read("i7-8700k")
    for array in table["tlb"]:
        array["policy"] = "lru"
    return table


def full_walks(found, classes, machine):
    """Walks by class from the whole MMU, one event a page."""
    start = search.layout(found.rows[:, k.PEAK], classes)
    pages = [(f, page) for f, first, last in found.runs for page in range(first, last + 1)]
    events = np.zeros(len(pages), EVENT)
    c = classes[[f for f, _ in pages]]
    page = np.array([page for _, page in pages])
    events["code"], events["order"], events["length"] = LOAD, 12 + 9 * c, 1
    events["vaddr"] = (
        (start[[f for f, _ in pages]] << (12 + 9 * c)) + (page % (1 << 9 * c) << 12) + (page >> 9 * c << (12 + 9 * c))
    )
    counters = np.zeros(2, COUNTERS)
    mmu_replay(mmu.machine(machine), counters, events, np.zeros(len(events), np.int64), len(events))
    walked = [int(counters[f"dtlb_load_misses_walk_completed_{size}"][0]) for size in ("4k", "2m_4m", "1g")]
    return walked, int(counters["dtlb_load_misses_walk_pending"][0])


@pytest.mark.parametrize("limits", [(FAR, FAR), (0, FAR), (0, 0), (64 << 10, FAR), (128 << 10, 4 * MIB)])
def test_walks_and_their_cycles_are_those_of_the_whole_mmu_with_lru(limits):
    found = profile(trace())
    one = model(found)
    classes = one.classes(*limits, 0)
    walked, cycles = full_walks(found, classes, lru_machine())
    assert one.walks(classes).tolist() == [*walked, cycles]


def test_walk_cycles_of_a_sample_of_combinations_are_near_those_of_the_machine(advice):
    """Approximated: LRU in the first level, where the CPU has tree-PLRU."""
    found = advice.profile
    one = model(found)
    for i in advice.front[:: max(1, len(advice.front) // 4)]:
        mapped = one.mapped(advice.orders[int(i)], advice.choices[i].grain)
        walked, cycles = full_walks(found, mapped, "i7-8700k")
        assert abs(one.walks(mapped)[:3].sum() - sum(walked)) <= 0.05 * sum(walked) + 5
        assert advice.costs[i, 0] == pytest.approx(cycles, rel=0.05, abs=300)


def slow_extra(rows, grain):
    """Bytes copied by copy-on-write, byte by byte."""
    sizes, extra = {}, 0
    for op, file, *where in rows:
        if op == "write":
            offset, length = where
            size = sizes.get(file, 0)
            old = {b // grain for b in range(offset, min(offset + length, size))}
            extra += sum(
                not offset <= b < offset + length for block in old for b in range(block * grain, (block + 1) * grain)
            )
            sizes[file] = max(size, offset + length)
    return extra


@given(
    writes=st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 30_000), st.integers(1, 20_000)), min_size=1, max_size=8
    )
)
def test_what_a_grain_copies_is_counted_byte_by_byte(writes):
    rows = [("write", *one) for one in writes]
    found = profile(drive.source(drive.files(-1, -1), drive.ops(*rows)))
    for grain in (12, 13, 15):
        assert found.sums[k.GRAINS + GRAINS.index(grain)] == slow_extra(rows, 1 << grain)
    assert found.rows[:, k.COPIED].sum() == slow_extra(rows, 4096)
    assert found.written == sum(length for _, _, length in writes)


def cost(found, choice):
    one = model(found)
    return one.other_costs(choice, one.classes(choice.small, choice.large, choice.share))


def test_4_kib_of_a_superpage_are_amplified_by_511():
    """VSM paper, section II.A; 2047 for 1 KiB, 3 for 1 KiB of a page of 4 KiB (IV.C)."""
    for length, small, extra in ((4096, 0, 511), (1024, 0, 2047), (1024, FAR, 3)):
        rows = drive.ops(("write", 0, 4 * MIB, length))
        found = profile(drive.source(drive.files(8 * MIB), rows))
        assert cost(found, Choice(small, FAR, 0, "page"))[1] == 1 + extra
        assert cost(found, Choice(small, FAR, 0, "undo"))[1] == 2
        assert cost(found, Choice(small, FAR, 0, "mcow"))[1] < 1 + 4096 / length


@pytest.mark.parametrize("small", [limit for limit in THRESHOLDS if 4096 <= limit <= 4 * MIB])
def test_waste_and_migrated_bytes_are_those_of_the_policy(small):
    """Files that grow by whole pages and stay: the policy moves them when they outgrow the threshold."""
    random = np.random.default_rng(2)
    rows = [row for i in range(20) for row in [("create", i)] + [
        ("write", i, j << 14, 1 << 14) for j in range(int(random.integers(1, 300)))] + [("close", i)]]  # fmt: skip
    source = drive.source(drive.files(*[-1] * 20), drive.ops(*rows))
    found = profile(source)
    policy = space.of_policy(source, "one-zone", {"threshold": small, "capacity": GIB}).total
    rows = found.rows
    assert int((rows[:, k.MOVED + THRESHOLDS.index(small)]).sum()) == policy["migrated_bytes"]
    classes = model(found).classes(small, FAR, 0)
    waste = int((search._whole(rows[:, k.SIZE], classes) - rows[:, k.SIZE]).sum())
    assert waste == policy["waste_bytes"]


@pytest.mark.slow
def test_copied_bytes_are_those_of_a_file_system_that_copies():
    """PMFS with 2 MiB pages and copy-on-write, as VSM's authors made it."""
    random = np.random.default_rng(3)
    rows = [("write", 0, int(random.integers(0, 4000)) << 12, 4096) for _ in range(50)]
    source = drive.source(drive.files(16 * MIB), drive.ops(*rows))
    run = scmsim.replay(source, "pmfs-2m", params={"pmfs-2m": {"data_path": "cow", "capacity": "1GiB"}}).runs[0]
    assert cost(profile(source), Choice(0, FAR, 0, "page"))[1] - 1 == pytest.approx(
        run.metrics["cow_extra_ratio"], rel=1e-3
    )


def test_setup_counts_nothing_but_its_files_are_there():
    rows = drive.ops(
        ("create", 0, 0, 0, -1, 2), ("write", 0, 0, 9000, -1, 2), ("read", 0, 0, 5000), ("read", 0, 8192, 9999)
    )
    found = profile(drive.source(drive.files(-1), rows))
    assert found.written == 0 and found.runs.tolist() == [[0, 0, 1], [0, 2, 2]]
    assert cost(found, Choice(FAR, FAR, 0, "page")) == (3 * 4096 - 9000, 1.0)


def test_a_file_on_broken_superpages_is_mapped_by_small_ones():
    rows = drive.ops(("write", 0, 0, 100), ("read", 1, 0, 100))
    one = model(profile(drive.source(drive.files(8 * MIB, 8 * MIB), rows)))
    classes = one.classes(0, FAR, 0)
    assert [one.mapped(classes, grain).tolist() for grain in ("page", "64KiB", "2MiB", "mcow")] == [
        [1, 1],
        [0, 1],
        [1, 1],
        [0, 1],
    ]


def test_a_region_that_is_full_sends_files_to_small_pages():
    rows = drive.ops(*[("write", i, 0, 3 * MIB) for i in range(4)])
    one = search._Model(profile(drive.source(drive.files(*[-1] * 4), rows)), "i7-8700k", 32 * MIB)
    assert one.classes(0, FAR, 25).tolist() == [1, 1, 0, 0]
    assert one.classes(0, FAR, 0).tolist() == [1, 1, 1, 1]
    assert one.classes(0, 0, 50).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        (Choice(FAR, FAR, 50, "mcow"), "4 KiB pages for all files; multi-grained copy-on-write in virtual superpages"),
        (Choice(0, FAR, 0, "4KiB"), "2 MiB pages for all files; copy-on-write by 4KiB"),
        (Choice(MIB, FAR, 25, "undo"), "4 KiB pages up to 1MiB, 2 MiB pages above, 25 % of the device set aside for large pages; "
         "overwrites in place, with an undo log"),
        (Choice(MIB, GIB, 0, "page"), "4 KiB pages up to 1MiB, 2 MiB pages up to 1GiB, 1 GiB pages above; copy-on-write by the "
         "file's own page"),
    ],
)  # fmt: skip
def test_a_combination_in_words(choice, sentence):
    assert text.sentence(choice) == sentence


def test_the_knee_weighs_a_percent_of_walks_as_a_percent_of_space_and_of_writes():
    """Nobody gives 9 times the waste for 0.25 % of the walk cycles."""
    assert search._knee(VARMAIL, live=3_000_000) == 2
    assert search._knee(np.array([[1_068, 0, 2.0], [281_972, 0, 1.1]]), live=1 << 20) == 0, "264 times the walks"
    assert search._knee(np.array([[500, 4096, 1.0], [400, 1 << 30, 1.0]]), live=1 << 36) == 1, "1 GiB of 64 is 1.6 %"


def test_a_flat_front_is_said_to_be_flat(advice):
    flat = replace(advice, costs=VARMAIL, front=np.arange(3), best=2)
    said = "page sizes do not matter for this trace: walk cycles of all 3 combinations of the front are between 104,996 and 106,324"
    assert any(line.startswith(said) for line in text.recommendation(flat))
    assert not advice.flat and "do not matter" not in "\n".join(text.recommendation(advice))
    assert text.table(advice)["page_sizes_matter"] and text.table(advice)["rule"] == text.RULE


def test_the_command_recommends(tmp_path):
    path = tmp_path / "t.parquet"
    run = CliRunner().invoke
    assert run(cli.main, ["synth", "microbench", "--op", "rewrite", "--total", "4MiB", "-o", str(path)]).exit_code == 0
    shown = run(cli.main, ["advise", str(path)]).output
    assert shown.startswith("recommended: ") and "that no other beats" in shown and "files up to" in shown
    found = json.loads(run(cli.main, ["advise", str(path), "--json"]).stdout)
    assert found["combinations"] > 2000 and found["touches_share"] == 1 and found["recommended"] in found["front"]
    assert sum(row["files"] for row in found["by_size"]) == 1


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--machine", "tps"], "advise takes at most 16 ways"),
        (["--machine", "i7"], "no machine named 'i7'"),
        (["--capacity", "4KiB"], "nothing fits a device of 4KiB; give a larger --capacity"),
    ],
)
def test_bad_input_is_one_line(tmp_path, args, said):
    path = tmp_path / "t.parquet"
    CliRunner().invoke(cli.main, ["synth", "microbench", "--total", "64KiB", "-o", str(path)])
    shown = CliRunner().invoke(cli.main, ["advise", str(path), *args])
    assert shown.exit_code == 2 and said in shown.stderr


def test_a_trace_without_data_is_refused():
    with pytest.raises(scmsim.core.errors.UsageError, match="no file of this trace has any data"):
        profile(drive.source(drive.files(-1), drive.ops(("create", 0))))


@pytest.mark.parametrize(
    ("capacity", "held"),
    [(256 << 20, [True, True, False]), (1 << 30, [True, True, True]), (1 << 20, [True, False, False])],
)
def test_pages_larger_than_the_device_are_not_offered(capacity, held):
    limits = [(search.FAR, search.FAR), (0, search.FAR), (0, 4096)]  # of 4 KiB, 2 MiB and 1 GiB pages
    small = search._Model(profile(trace(files=2, count=10)), "i7-8700k", capacity)
    assert [small.holds_pages(*pair) for pair in limits] == held
