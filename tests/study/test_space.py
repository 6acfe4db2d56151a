"""`scmsim space`: pages by policy, waste by equation 1, contiguity of free space, and what is said of bad input."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.alloc import contiguity
from scmsim.core import registry
from scmsim.study import space
from scmsim.trace import TraceWriter
from scmsim.workload import ageing
from tests.fs import drive

MIB, GIB = 1 << 20, 1 << 30


def run(*args):
    return CliRunner().invoke(cli.main, list(map(str, args)))


def one_file(*sizes, policy, **params):
    rows = [("create", 0), *[("write", 0, size - 1, 1) for size in sizes], ("close", 0)]
    return space.of_policy(drive.source(drive.files(-1), drive.ops(*rows)), policy, params).total


@pytest.mark.parametrize(
    ("policy", "waste"), [("pages-4k", 2048), ("pages-2m", 2046 << 10), ("pages-1g", (1023 << 20) + (1022 << 10))]
)
def test_waste_of_a_file_of_1_gib_and_2_kib(policy, waste):
    """VSM paper, section II.B."""
    assert one_file(GIB + 2048, policy=policy)["waste_bytes"] == waste
    assert one_file(GIB, policy=policy)["waste_bytes"] == 0, "equation 1 gives a whole page at an exact multiple"


def test_waste_of_37513_small_files():
    """As many superpages, less what is in them: 73 GiB; the VSM paper's motivation."""
    source = ageing.Workload(capacity=512 * MIB, utilisation=100, turnover=1, sizes="small")
    small, large = (space.of_policy(source, name, {"capacity": "80GiB"}).total for name in ("pages-4k", "pages-2m"))
    assert small["files"] == large["files"] == 37_513 and not large["failed_operations"]
    assert 72.5 < large["waste_bytes"] / GIB < 73.3
    assert small["waste_bytes"] / GIB < 0.1
    assert large["waste_bytes"] == 37_513 * 2 * MIB - large["live_bytes"]


def test_a_file_moves_to_superpages_when_it_outgrows_the_threshold():
    below = one_file(MIB, policy="two-zone", threshold="1MiB")
    above = one_file(MIB, MIB + 1, policy="two-zone", threshold="1MiB")
    assert (below["pages_4k"], below["pages_2m"], below["migrations"]) == (256, 0, 0)
    assert (above["pages_4k"], above["pages_2m"], above["migrated_bytes"]) == (0, 1, MIB)
    assert above["tlb_entries"] == 1


def test_no_superpage_although_space_is_free():
    """Small files side by side, every second one deleted: half of the device is free, no 2 MiB of it in one piece."""
    side = drive.files(*[-1] * 1025)
    rows = [row for i in range(1024) for row in (("create", i), ("write", i, 0, 16 << 10))]
    rows += [("unlink", i, 0, 0, 0) for i in range(0, 1024, 2)] + [("create", 1024), ("write", 1024, 0, 4 * MIB)]
    source = drive.source(side, drive.ops(*rows))
    mixed = space.of_policy(source, "one-zone", {"capacity": "16MiB"}).total
    assert (mixed["missing_superpages"], mixed["missing_although_free"]) == (1, 1)
    assert (mixed["pages_2m"], mixed["failed_operations"], mixed["free_2m_bytes"]) == (0, 0, 0)
    zones = space.of_policy(source, "two-zone", {"capacity": "32MiB", "superpages": 50}).total
    assert (zones["pages_2m"], zones["missing_superpages"]) == (2, 0)


def test_virtual_superpages_give_the_tail_back_at_close_and_do_without_contiguity():
    kept = one_file(5 * MIB, policy="virtual-superpages")
    assert (kept["allocated_bytes"], kept["waste_bytes"], kept["tlb_entries"]) == (5 * MIB, 0, 5 * 256)
    assert kept["page_table_bytes"] == 4 * 4096, "a table for each virtual superpage, one above them"


def test_tailored_pages_are_powers_of_two():
    assert one_file(7 * 4096, policy="tps")["tlb_entries"] == 3
    doubled = one_file(*[n * 4096 for n in range(1, 8)], policy="tps", sizing="doubling")
    assert (doubled["allocated_bytes"], doubled["tlb_entries"]) == (8 * 4096, 1)


def test_what_fallocate_keeps_is_no_waste():
    rows = drive.ops(("create", 0), ("write", 0, 0, 100), ("fallocate", 0, 0, MIB, -1, 128))
    total = space.of_policy(drive.source(drive.files(-1), rows), "pages-4k").total
    assert (total["preallocated_bytes"], total["waste_bytes"]) == (MIB - 4096, 4096 - 100)


def test_an_aged_device_keeps_the_files_of_the_trace_apart():
    source = drive.source(drive.files(-1, names=["/mine"]), drive.ops(("create", 0), ("write", 0, 0, 3 * MIB)))
    old = ageing.Workload(capacity=64 * MIB, utilisation=80, sizes="fixed", mean=256 << 10)
    found = space.of_policy(source, "one-zone", {"capacity": "64MiB"}, aged=old)
    assert [row["path"] for row in space.rows_by_file(found, source.files)] == ["/mine"]
    assert found.total["files"] > 100


def test_small_pages_come_out_of_superpages_where_their_region_is_full():
    """4 MiB of small files in a region of 2 MiB: they take two superpages apart, and a large file still finds one."""
    rows = [row for i in range(64) for row in (("create", i), ("write", i, 0, 64 << 10))]
    rows += [("create", 64), ("write", 64, 0, 4 * MIB)]
    source = drive.source(drive.files(*[-1] * 65), drive.ops(*rows))
    found = space.of_policy(source, "two-zone", {"capacity": "16MiB", "superpages": 90}).total
    assert (found["spilled_files"], found["failed_operations"], found["waste_bytes"]) == (32, 0, 0)
    assert (found["pages_4k"], found["pages_2m"], found["free_2m_bytes"]) == (1024, 2, 8 * MIB)


@pytest.mark.parametrize(("capacity", "zones"), [("2MiB", [512, 0]), ("4MiB", [512, 512]), ("6MiB", [1024, 512])])
def test_zones_of_a_small_device_are_whole_superpages(capacity, zones):
    assert space._Device("two-zone", {"capacity": capacity, "superpages": "1"}, []).record.free[0].tolist() == zones


def test_files_of_a_trace_fit_on_two_zones_that_are_aged():
    """Three quarters of the device are superpages, and most of what ages it are small files."""
    source = drive.source(drive.files(*[100_000] * 80), drive.ops(("write", 0, 0, 10)))
    old = ageing.Workload(capacity=GIB, utilisation=90)
    found = space.of_policy(source, "two-zone", {"capacity": GIB}, aged=old).total
    assert 0.9 * GIB < found["allocated_bytes"] < 0.95 * GIB and found["failed_operations"] == 0


def test_files_that_do_not_fit_are_told_with_what_is_free(tmp_path):
    trace = tmp_path / "t.parquet"
    with TraceWriter(trace, {"tool": "test"}) as writer:
        writer.append(drive.ops(("write", 0, 0, 100)))
        writer.close(drive.files(*[5000] * 70))
    said = (
        "the 70 files that exist before the trace take 71,680.0 MiB in pages of 1GiB, and pages-1g has 65,536.0 of "
        "65,536 MiB free for them; raise --set pages-1g.capacity=..."
    )
    shown = run("space", trace)
    assert shown.exit_code == 0 and f"warning: left out: {said}" in shown.stderr and "pages-1g" not in shown.stdout
    shown = run("space", trace, "--policy", "tps,pages-1g")
    assert shown.exit_code == 2 and said in shown.stderr
    shown = run("space", trace, "--policy", "pages-2m", "--aged", "99", "--set", "pages-2m.capacity=128MiB")
    assert shown.exit_code == 2 and "age the device less (--aged), or raise" in shown.stderr


@pytest.mark.parametrize("name", registry.names("policy"))
def test_a_full_device_refuses_and_goes_on(name):
    capacity = 4 * GIB if name == "pages-1g" else 32 * MIB
    rows = [("create", 0), ("create", 1), ("write", 0, 0, 2 * capacity), ("write", 1, 0, 100)]
    found = space.of_policy(drive.source(drive.files(-1, -1), drive.ops(*rows)), name, {"capacity": capacity})
    assert found.total["failed_operations"] == 1 and found.total["live_bytes"] == 100


@pytest.mark.parametrize("fs", ["nova-cow", "pmfs-2m", "ext4-dax"])
def test_a_model_tells_its_space_by_file_and_how_contiguous_the_rest_is(fs):
    rows = drive.ops(("create", 1), ("write", 1, 0, 5000), ("create", 2), ("write", 2, 0, 3 * MIB + 1), ("sync", -1))
    source = drive.source(drive.files(0, -1, -1, dirs=[0]), rows)
    found = space.of_fs(source, fs, {"capacity": "1GiB"})
    by_file = {row["file"]: row for row in space.rows_by_file(found, source.files)}
    assert by_file[1]["file_bytes"] == 5000 and by_file[2]["file_bytes"] == 3 * MIB + 1
    assert sum(row["waste_bytes"] for row in by_file.values()) == found.total["waste_bytes"]
    assert sum(row["allocated_bytes"] for row in by_file.values()) == found.total["allocated_bytes"]
    assert 0 < found.total["free_2m_bytes"] <= found.total["free_bytes"] < GIB
    assert found.total["largest_free_bytes"] <= found.total["free_bytes"]
    assert sum(length * count for length, count in found.free_runs.items()) <= found.total["free_bytes"]


def test_bits_beyond_what_is_tracked_are_free():
    record = np.zeros(1, [("bits", "i8"), ("tracked", "i8"), ("blocks", "i8")])[0]
    record["tracked"], record["blocks"] = 70, 200
    start, length, _ = contiguity.of_model(record, np.array([0, 1 << 5], np.int64))
    assert (start.tolist(), length.tolist()) == ([69], [131])
    record["blocks"] = 70
    start, length, _ = contiguity.of_model(record, np.array([3, 1 << 5], np.int64))
    assert (start.tolist(), length.tolist()) == ([0, 69], [2, 1])


@pytest.mark.parametrize("seed", range(20))
def test_free_runs_are_those_of_a_look_at_every_block(seed):
    random = np.random.default_rng(seed)
    count, behind = int(random.integers(0, 6)), int(random.choice([0, 100]))
    words = np.where(
        random.random(count) < 0.4, random.choice([0, -1], count), random.integers(-(1 << 63), 1 << 63, count)
    )
    free = [bool(word >> bit & 1) for word in words.tolist() for bit in range(64)] + [True] * behind
    starts = [i for i, is_free in enumerate(free) if is_free and (i == 0 or not free[i - 1])]
    start, length = contiguity.runs(words, behind)
    assert start.tolist() == starts
    assert length.tolist() == [(free[i:] + [False]).index(False) for i in starts]


def test_the_command_shows_policies_beside_file_systems(tmp_path):
    trace = tmp_path / "t.parquet"
    assert run("synth", "microbench", "--op", "append", "--total", "1MiB", "-o", trace).exit_code == 0
    shown = run("space", trace, "--fs", "pmfs-4k", "--policy", "two-zone,tps", "--json", "--by-file")
    found = json.loads(shown.stdout)
    assert [one["name"] for one in found] == ["two-zone", "tps", "pmfs-4k"]
    assert all(one["live_bytes"] == MIB and len(one["by_file"]) == 1 for one in found)
    text = run("space", trace, "--policy", "pages-2m", "--by-file", "--top", "1").output
    assert (
        "waste in last pages, bytes" in text and "files with the most waste" in text and "free runs of at least" in text
    )


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--policy", "two-zones"), "no page-size policy named 'two-zones'; did you mean 'two-zone'"),
        (
            ("--policy", "tps", "--set", "two-zone.threshold=1MiB"),
            "no file system or policy shown here named 'two-zone'",
        ),
        (("--policy", "tps", "--set", "tps.sizing=most"), "tps.sizing: no choice named 'most'"),
        (("--policy", "tps", "--set", "tps.capacity=4KiB"), "tps.capacity = 4KiB; use 2MiB to 16TiB"),
        (("--fs", "nova-cow", "--aged", "50"), "--aged works for page-size policies only"),
    ],
)
def test_bad_input_is_one_line(tmp_path, args, said):
    trace = tmp_path / "t.parquet"
    run("synth", "microbench", "--total", "64KiB", "-o", trace)
    shown = run("space", trace, *args)
    assert shown.exit_code == 2 and said in shown.stderr
