"""`scmsim mmu` and `scmsim mrc`: files of accesses, options, and what is said of bad ones."""

import concurrent.futures
import csv
import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from scmsim import cli
from scmsim.accesses.processor import INSTRUCTION
from scmsim.core.records import FETCH, LOAD, STORE
from scmsim.mmu import accesses, mrc, page_runs, simulate

ROOT = Path(__file__).parents[2]
PAGES = np.random.default_rng(4).zipf(1.3, 3000) % 2000 * 4096


def run(*args: object) -> Result:
    return CliRunner().invoke(cli.main, list(map(str, args)))


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    PAGES.astype("<u8").tofile(tmp_path / "a.u64")
    return tmp_path / "a.u64"


def test_a_raw_file_and_a_numpy_file_say_the_same(raw, tmp_path):
    np.save(tmp_path / "a.npy", PAGES.astype(np.int32))
    with gzip.open(tmp_path / "b.u64.gz", "wb") as file:
        file.write(raw.read_bytes())
    files = (raw, tmp_path / "a.npy", tmp_path / "b.u64.gz")
    told = [json.loads(run("mmu", file, "--json").stdout)["results"] for file in files]
    known = {
        name: count for name, count in simulate(PAGES).items() if name != "instructions"
    }  # no fetch is in the files
    assert told == 3 * [[known]]


def test_a_pipe_that_gives_a_few_bytes_at_a_time_is_read_whole(raw, tmp_path):
    pipe, content = tmp_path / "pipe.u64", raw.read_bytes()
    os.mkfifo(pipe)

    def write() -> None:
        with open(pipe, "wb", buffering=0) as file:
            for start in range(0, len(content), 1001):  # no multiple of 8
                file.write(content[start : start + 1001])

    with concurrent.futures.ThreadPoolExecutor() as pool:
        pool.submit(write)
        parts = [addresses for _, addresses in accesses.read(pipe)]
    assert np.concatenate(parts).tolist() == PAGES.tolist()


def test_a_file_longer_than_what_is_read_at_once(tmp_path):
    where = np.arange(3 * (1 << 17) + 5, dtype=np.int64) * 64
    where.tofile(tmp_path / "a.u64")
    np.save(tmp_path / "a.npy", where.astype(np.uint64))
    for name in ("a.u64", "a.npy"):
        parts = [addresses for _, addresses in accesses.read(tmp_path / name)]
        assert len(parts) > 1 and np.array_equal(np.concatenate(parts), where)
        assert all(part.flags.writeable and part.dtype == np.int64 for part in parts)


def test_two_levels_of_given_shapes(raw):
    told = json.loads(run("mmu", raw, "--l1", "64x4", "--l2", "1536x12", "--json").stdout)
    assert list(told) == ["file", "l1", "l2", "page", "results"]
    (counts,) = told["results"]
    assert list(counts) == ["accesses", "l1_misses", "l2_misses"]
    assert counts["accesses"] == 3000 and counts["l2_misses"] == len(np.unique(PAGES))
    (wide,) = json.loads(run("mmu", raw, "--l1", "100x20", "--json").stdout)["results"]
    assert wide["l1_misses"] <= counts["l1_misses"] and set(wide) == {"accesses", "l1_misses"}
    shown = run("mmu", raw, "--l1", "64x4").output
    assert f"{counts['l1_misses']:,}" in shown


LACKEY = """==12== Lackey, an example Valgrind tool
I  0023C790,2
 L 0400001000,8
 S 0400001008,8
 M 0400002000,4
==12==
"""


@pytest.mark.parametrize("packed", [False, True])
def test_lackey_counts_loads_stores_and_fetches(tmp_path, packed):
    file = tmp_path / ("t.lackey.gz" if packed else "t.lackey")
    file.write_bytes(gzip.compress(LACKEY.encode()) if packed else LACKEY.encode())
    told = json.loads(run("mmu", file, "--json").stdout)
    assert (told["machine"], told["page"]) == ("i7-8700k", "4KiB")
    (counts,) = told["results"]
    assert (counts["dtlb_load_lookups"], counts["dtlb_store_lookups"], counts["itlb_lookups"]) == (2, 2, 1)
    assert counts["dtlb_load_misses_walk_completed"] == 2 and counts["dtlb_store_misses_walk_completed"] == 0


def test_champsim_instructions(tmp_path):
    table = np.zeros(2, INSTRUCTION)
    table["ip"], table["loads"][:, 0], table["stores"][1, 0] = [0x1000, 0x1004], [0x9000, 0xA000], 0xB000
    table.tofile(tmp_path / "t.champsim")
    (counts,) = json.loads(run("mmu", tmp_path / "t.champsim", "--json").stdout)["results"]
    assert (counts["itlb_lookups"], counts["dtlb_load_lookups"], counts["dtlb_store_lookups"]) == (2, 2, 1)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xyz", b"", "is not a file of memory accesses; use .npy, .u64"),
        ("a.u64", b"1234567", "has 7 bytes, not a multiple of 8"),
        ("a.npy", b"hello", "is not a NumPy array"),
        ("b.npy", None, "holds float64, not integers"),
        ("a.lackey", b" L 12zz,4\n", "line 1: 'L 12zz,4' is not an access; an access reads"),
        ("c.lackey", b"== hello\n L 10\n", "line 2: 'L 10' is not an access"),
        ("d.lackey", b"x" * 10_000, "line 1 is 10000 bytes long"),
        ("e.lackey", b"garbage\n" * 1000, "1,000 of 1,000 lines are not accesses, the first is line 1"),
        ("f.lackey", b"==1== a message\n", "holds no access"),
        ("b.u64", b"", "holds no access"),
        ("c.u64.gz", gzip.compress(b"12345678123", mtime=0), "has 11 bytes, not a multiple of 8"),
        ("c.npy", np.array([8, -1]), "entry 1 is -1, not an address"),
        ("d.npy", np.zeros(0, "i8"), "holds no access"),
        ("a.pages.npz", b"1234", "is not a file of page runs"),
        ("a.champsim", b"12345", "ends within an instruction"),
        ("a.lackey.gz", b"12345", "cannot be read"),
        ("missing.u64", ..., "cannot be read: No such file"),
    ],
)
@pytest.mark.parametrize("command", ["mmu", "mrc"])
def test_a_bad_file_is_one_line(tmp_path, command, name, content, message):
    file = tmp_path / name
    if content is None or isinstance(content, np.ndarray):
        np.save(file, np.zeros(3) if content is None else content)
    elif content is not ...:
        file.write_bytes(content)
    if command == "mrc" and name == "a.xyz":
        message = "a.xyz"  # not a trace of operations either
    result = run(command, file)
    assert result.exit_code == 2 and message in result.output
    assert len(result.output.strip().splitlines()) == 1 and "Traceback" not in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--l1", "64"], "'64' is not a TLB; write entries x ways"),
        (["--l1", "64x5"], "'64x5': ways: 5 does not divide entries = 64"),
        (["--l2", "64x4"], "--l2 needs --l1"),
        (["--machine", "zen9"], "no machine named 'zen9'"),
        (["--machine", "i7-8700k", "--l1", "64x4"], "excludes --l1 and --l2"),
        (["--page", "5KiB"], "use a power of two from 4KiB to 1GiB"),
        (["--l1", "64x4", "--contiguous"], "--contiguous has no meaning with --l1"),
    ],
)
def test_bad_options_of_mmu(raw, options, message):
    result = run("mmu", raw, *options)
    assert result.exit_code == 2 and message in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sets", "1,3"], "each must be a power of two"),
        (["--sets", "1", "--curve"], "ignore --sets"),
        (["--ways", "2", "--sample", "0.5"], "ignore --ways"),
        (["--fs", "ext4"], "not replayed; leave --fs out"),
        (["--sets", "a"], "write numbers with commas"),
        (["--ways", "0-4"], "must ascend from 1 or more"),
        (["--ways", "1-20"], "at most 16"),
        (["--sample", "2"], "above 0 and at most 1"),
        (["--sample", "0.0001"], "too few pages for any capacity (100 are needed)"),
        (["--out", "x.txt"], "must end in .csv or .parquet"),
        (["--plot", "x.gif"], "must end in .svg"),
    ],
)
def test_bad_options_of_mrc(raw, options, message):
    result = run("mrc", raw, *options)
    assert result.exit_code == 2 and message in result.output


def test_mrc_rows(raw, tmp_path):
    told = json.loads(run("mrc", raw, "--sets", "1,16", "--ways", "1-4,8", "--page", "4KiB,2MiB", "--json").stdout)
    assert told["accesses"] == 3000 and len(told["rows"]) == 2 * 2 * 5
    assert list(told["rows"][0]) == ["page", "sets", "ways", "misses"]
    table = mrc.geometries([PAGES.astype(np.int64)], (12,), (1, 16))[12]
    row = next(row for row in told["rows"] if (row["page"], row["sets"], row["ways"]) == ("4KiB", 16, 8))
    assert row["misses"] == table[1, 7]
    out = tmp_path / "m.csv"
    assert run("mrc", raw, "--sets", "1", "--ways", "2", "--page", "4KiB", "--out", out).exit_code == 0
    with open(out) as file:
        assert list(csv.DictReader(file)) == [{"page": "4KiB", "sets": "1", "ways": "2", "misses": str(table[0, 1])}]
    shown = run("mrc", raw, "--page", "4KiB").output
    assert "miss ratio, pages of 4KiB" in shown and len(shown.splitlines()) == 4 + 12


def test_mrc_of_a_trace_of_operations():
    trace = ROOT / "traces" / "sqlite-load.parquet"
    curve = json.loads(run("mrc", trace, "--curve", "--page", "4KiB,2MiB", "--json").stdout)["rows"]
    small = [row for row in curve if row["page"] == "4KiB"]
    assert all(a["misses"] >= b["misses"] for a, b in zip(small, small[1:], strict=False))
    assert small[-1]["entries"] == small[-1]["misses"]  # every page misses once
    both = json.loads(run("mrc", trace, "--fs", "ext4-dax", "--sets", "1", "--ways", "1", "--json").stdout)
    assert len(both["rows"]) == 4 and both["accesses"] > 10_000


def test_mrc_draws(raw, tmp_path):
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    assert run("mrc", raw, "--curve", "--page", "4KiB", "--plot", tmp_path / "c.svg").exit_code == 0
    assert "entries" in (tmp_path / "c.svg").read_text() and list(tmp_path.glob(".*")) == []


def test_a_plot_that_cannot_be_written_is_one_line(raw, tmp_path):
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    result = run("mrc", raw, "--curve", "--plot", tmp_path / "absent" / "c.svg")
    assert result.exit_code == 2 and f"no folder '{tmp_path / 'absent'}'" in result.output


def test_the_plot_of_a_sample_does_not_say_exact(raw, tmp_path):
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    drawn = run("mrc", raw, "--sample", "1", "--page", "4KiB", "--plot", tmp_path / "s.svg")
    assert drawn.exit_code == 0, drawn.output
    text = (tmp_path / "s.svg").read_text()
    assert "sample" in text and "exact" not in text


def test_counts_are_shown_with_units_meanings_and_ratios(raw):
    shown = run("mmu", raw, "--machine", "zen4", "--page", "2MiB").stdout
    assert shown.startswith("machine zen4, pages of 2MiB\n")
    assert "page walks for loads" in shown and "data look-ups that ended in a page walk" in shown
    assert run("mmu", raw, "--l1", "64x4").stdout.splitlines()[0] == "arrays 64x4, pages of 4KiB"
    assert "misses of the first array, " in run("mmu", raw, "--l1", "64x4").output


def test_page_runs_of_the_lab_are_accesses_for_every_reader(raw, tmp_path):
    runs, count = PAGES[:500].astype("u8"), np.arange(500) % 3 + 1
    page_runs.write(tmp_path / "a.pages.npz", runs, count, np.zeros(500, bool), np.full(500, 12))
    np.repeat(runs, count).tofile(tmp_path / "b.u64")
    for options in (["mrc", "--sets", "1,16", "--ways", "1,4"], ["mmu", "--l1", "64x4"]):
        told = [json.loads(run(*options, tmp_path / name, "--json").stdout) for name in ("a.pages.npz", "b.u64")]
        assert [{**one, "file": ""} for one in told[:1]] == [{**one, "file": ""} for one in told[1:]]


LINES = st.sampled_from(
    [
        " L 1ffefffe80,8", "I  0023C790,2", " S 0400001008,4", " M FFFFffff81000000,16", "L  10,1", " L  20,4", " L 0x30,4",
        "==1== message", "", " L 00000000000000000040,8", " S 50,8 ", " L 1_0,1",
    ]
)  # fmt: skip


@given(st.lists(LINES, max_size=40), st.booleans())
def test_a_lackey_trace_is_what_its_lines_are(tmp_path_factory, lines, ends):
    """Against Python's own reading of each line."""
    file = tmp_path_factory.mktemp("lackey") / "t.lackey"
    file.write_text("\n".join([" L 1,1", *lines]) + "\n" * ends)
    codes = {"I": [FETCH], "L": [LOAD], "S": [STORE], "M": [LOAD, STORE]}
    expected = []
    for line in [" L 1,1", *lines]:
        if line[:2].strip() in codes:
            value = int(line[3:].split(",")[0], 16)
            expected += [(code, value - (value >> 63 << 64)) for code in codes[line[:2].strip()]]
    found = [pair for batch in accesses.read(file) for pair in zip(*(part.tolist() for part in batch), strict=True)]
    assert found == expected


def test_instructions_are_the_fetches_of_a_file():
    file = ROOT / "tests/data/mmu/five_fetches.lackey"
    told = json.loads(run("mmu", file, "--json").stdout)["results"][0]
    assert told["instructions"] == 5 and told["mem_inst_retired_all_loads"] == 1
    assert "retired instructions;" in run("mmu", file).stdout


def test_without_fetches_no_instructions_are_printed(raw, tmp_path):
    (tmp_path / "data.lackey").write_text(" L 1ffe7000,8\n S 1ffe7000,8\n")
    for file in (raw, tmp_path / "data.lackey"):
        done = run("mmu", file)
        assert done.exit_code == 0 and "retired instructions;" not in done.stdout
