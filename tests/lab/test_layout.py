"""Where files are: what a guest reports as a table, and a model's extents beside a kernel's; no guest runs here."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.cli import main
from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.core.records import CREATE, OP, SYNC, WRITE, Files
from scmsim.fs.engine.extents import EXTENT, FREE
from scmsim.lab import faults, layout, plan, qemu, systems
from scmsim.lab.job import Job
from scmsim.lab.measured import Measured
from scmsim.result import extents as tables
from scmsim.study.layout import judge, table
from scmsim.study.page_size import rules
from scmsim.trace import TraceWriter
from tests.fs import drive

PAGE, HUGE = 4096, 2 << 20
FILES = Files(["/", "/a", "/b"], np.array([0, -1, -1]), np.array([True, False, False]))


def extents(*rows):
    """Rows (file, logical, physical, length, unwritten) in pages."""
    found = np.zeros(len(rows), EXTENT)
    for at, (file, logical, physical, length, *unwritten) in zip(found, rows, strict=True):
        at["file"], at["unwritten"] = file, bool(unwritten and unwritten[0])
        at["logical"], at["physical"], at["length"] = logical * PAGE, physical * PAGE, length * PAGE
    return layout.in_order(found)


def told(*rows):
    """A guest that reported (file, flags, logical, physical, length) in bytes."""
    raw = np.zeros(len(rows), faults.EXTENT)
    for at, row in zip(raw, rows, strict=True):
        at["file"], at["flags"], at["logical"], at["physical"], at["length"] = row
    return Measured(np.zeros(0), b"", {}, 1.0, extents=raw)


def plain(found):
    return [(*row[:4], bool(row[4])) for row in found.tolist()]


def test_reported_extents_are_sorted_joined_and_without_those_that_have_no_place():
    free = (1 << 32) - 1
    guest = told(
        (2, 0x800, 4096, 8192, 4096), (2, 0, 0, 4096, 4096), (1, 0, 0, 20480, 8192), (1, 1, 8192, 28672, 4096),
        (1, 0x6, 65536, 0, 4096), (free, 0, 0, 40960, 4096), (free, 0, 0, 36864, 4096),
    )  # fmt: skip
    assert plain(layout.extents(guest, systems.load()["ext4"])) == [
        (1, 0, 20480, 12288, False),
        (2, 0, 4096, 4096, False),
        (2, 4096, 8192, 4096, True),
        (FREE, 0, 36864, 8192, False),
    ]


def test_pages_of_a_mapping_are_places_on_the_device_where_there_is_one():
    by_pages, at = 1 << 31, qemu.PM_AT
    guest = told((1, by_pages, 0, at + 8192, 8192), (1, by_pages, 8192, 4096, 4096))  # the page of zeros, in memory
    assert plain(layout.extents(guest, systems.load()["winefs"])) == [(1, 0, 8192, 8192, False)]
    assert len(layout.extents(guest, systems.load()["tmpfs"])) == 2


def test_free_space_without_a_place_is_a_number_of_bytes():
    guest = told((1, 0, 0, 20480, 8192), ((1 << 32) - 1, 1 << 30, 0, 0, 40960))
    assert plain(layout.extents(guest, systems.load()["nova-cow"])) == [(1, 0, 20480, 8192, False)]
    assert layout.free_bytes(guest) == 40960 and layout.free_bytes(told((1, 0, 0, 4096, 4096))) is None


def test_a_guest_without_extents_is_told():
    with pytest.raises(EnvironmentProblem, match="ext2: the guest reported no extents"):
        layout.check_told(extents(), "ext2")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_recorded_table_is_read_as_it_was_written(tmp_path, suffix):
    found = extents((1, 0, 512, 512), (1, 512, 4096, 3, True), (2, 0, 9, 1), (FREE, 0, 10000, 7))
    tables.write({"ext4": tables.frame(found, FILES.path)}, tmp_path / f"x{suffix}")
    assert (layout.read(tmp_path / f"x{suffix}") == found).all()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.csv", "file,path\n1,/a\n", "it has no column 'logical'"),
        ("x.csv", "model,file\next4,1\n", "several file systems"),
        (
            "x.csv",
            "file,path,logical,physical,length,unwritten\n1,/a,zero,0,4096,False\n",
            "logical has no whole numbers",
        ),
        ("x.csv", "file,path,logical,physical,length,unwritten\n1,/a,0,0,4096,7\n", "unwritten has no truth values"),
        ("x.csv", "file,path,logical,physical,length,unwritten\n-2,/a,0,0,4096,False\n", "negative number"),
        ("x.parquet", "no parquet", "is not a table of extents"),
        ("x.csv", "", "is not a table of extents"),
    ],
)
def test_what_is_no_table_is_refused_in_one_line(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=said) as caught:
        layout.read(tmp_path / name)
    assert "\n" not in str(caught.value)


class Trace:
    header = {"tool": "test"}

    def __init__(self):
        rows = [(CREATE, 1, 0, 0, 0), (WRITE, 1, 0, 3 * HUGE, -1), (CREATE, 2, 0, 0, 0), (WRITE, 2, 0, 5000, -1)]
        self.array, self.files, self.rows = np.zeros(len(rows), OP), FILES, len(rows)
        for at, row in zip(self.array, rows, strict=True):
            at["op"], at["file"], at["offset"], at["length"], at["file2"] = row

    def batches(self, chunk=1 << 14):
        yield self.array.view(np.recarray)


@pytest.fixture
def trace(tmp_path):
    path, source = tmp_path / "two.parquet", Trace()
    with TraceWriter(path, source.header) as writer:
        for batch in source.batches():
            writer.append(batch)
        writer.close(source.files)
    return str(path)


def test_a_plan_with_a_layout_ends_with_the_report_and_has_no_file_of_its_own(trace):
    made, usual = Job(("ext4",), trace, layout=True).plan(), Job(("ext4",), trace).plan()
    assert len(made.files) == len(FILES) == len(usual.files) - 1
    assert made.operations["op"].tolist() == [CREATE, WRITE, CREATE, WRITE, plan.LAYOUT]
    assert made.operations["file"][-1] == -1 and made.operations["region"][-1] == 0


def slow_mappable(found):
    """Every 2 MiB of a file, page by page."""
    pages = {}
    for file, logical, physical, length, unwritten in found.tolist():
        for k in range(length // PAGE):
            pages[file, logical // PAGE + k] = (physical // PAGE + k, unwritten)
    huge = set()
    for file, page in pages:
        first = page - page % rules.FAN
        blocks = [pages.get((file, first + k), (None, True)) for k in range(rules.FAN)]
        start = blocks[0][0]
        if start is not None and start % rules.FAN == 0:
            if all(block == (start + k, False) for k, block in enumerate(blocks)):
                huge.add((file, first // rules.FAN))
    return huge


runs = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([200, 512, 513, 1024, 1500]), st.integers(0, 2), st.booleans()),
    max_size=4,
)


@given(st.lists(runs, min_size=2, max_size=2))
@settings(max_examples=15, deadline=None)
def test_mappable_pages_are_those_of_a_walk_page_by_page_and_of_scmsim_map(of_files):
    rows, place = [], 0
    for file, parts in enumerate(of_files, 1):
        at = 0
        for gap, length, skip, unwritten in parts:
            at, place = at + 100 * gap, place + 256 * skip
            rows.append((file, at, place, length, unwritten))
            at, place = at + length, place + length
    found = extents(*rows)
    pages = judge.mappable(found)
    assert {(int(page) >> 40, int(page) & (1 << 40) - 1) for page in pages} == slow_mappable(found)
    for file in (1, 2):
        one = found[found["file"] == file]
        if len(one):
            columns = (one[name] // PAGE for name in ("logical", "length", "physical"))
            end = int((one["logical"] + one["length"]).max())
            classes = rules.classes(rules.Extents(*columns, one["unwritten"]), end)
            assert (classes == rules.WHOLE).sum() == (pages >> 40 == file).sum()


def compared(real, model):
    return judge.compared(extents(*real), extents(*model), FILES)


def test_equal_extents_are_equal_and_extents_of_directories_do_not_count():
    rows = [(1, 0, 512, 1024), (2, 0, 1, 1, True), (FREE, 0, 2048, 512)]
    cell = compared([*rows, (0, 0, 7, 1)], rows)
    assert cell["verdict"] == judge.EQUAL and cell["real"] == cell["model"]
    assert cell["real"]["mappable_2m"] == 2 and cell["real"]["free_2m_bytes"] == HUGE
    assert cell["equal"] == {
        "files": 2, "extents": 2, "cuts": 2, "bytes": 1025 * PAGE, "mappable_2m": 2, "free_extents": 1,
    }  # fmt: skip
    assert [(row["path"], row["equal"], row["bytes"]) for row in cell["by_file"]] == [
        ("/a", True, 1024 * PAGE), ("/b", True, PAGE),
    ]  # fmt: skip


def test_records_that_continue_one_another_are_one_extent():
    assert compared([(1, 0, 512, 3), (1, 3, 515, 2)], [(1, 0, 512, 5)])["verdict"] == judge.EQUAL


def test_other_places_may_map_the_same_pages():
    cell = compared([(1, 0, 512, 512), (2, 0, 3, 2)], [(1, 0, 1024, 512), (2, 0, 4, 2)])
    assert cell["verdict"] == judge.SAME_PAGES
    assert cell["equal"]["extents"] == 0 and cell["equal"]["cuts"] == 2 and cell["equal"]["bytes"] == 0


def test_a_block_at_another_place_is_off_where_a_page_depends_on_it():
    cell = compared([(1, 0, 512, 1024)], [(1, 0, 512, 700), (1, 700, 2000, 324)])
    assert cell["verdict"] == judge.OFF and not judge.agrees([cell])
    assert cell["equal"]["mappable_2m"] == 1 and cell["equal"]["bytes"] == 700 * PAGE
    line = table.verdict({"fs": "ext4-dax", "trace": "t", **cell})
    assert line.startswith("ext4-dax: off: ") and "1 of 2 mappable 2 MiB equal (1 in the model)" in line


def test_a_model_is_synced_before_its_extents_are_taken():
    source = Trace()
    assert [int(op) for batch in judge.Synced(source).batches() for op in batch.op][-1] == SYNC
    found, failed = judge.of_model(source, "ext4", {"capacity": 2 << 30})  # the page cache: blocks come with the sync
    assert failed == 0 and found[found["file"] == 1]["length"].sum() == 3 * HUGE


def test_a_model_without_places_is_left_out(monkeypatch):
    monkeypatch.setattr("scmsim.fs.engine.model.Model.extents", lambda self: None)
    assert "has no extents" in judge.of_model(Trace(), "ext4-dax", {"capacity": 2 << 30})


def lab(*words):
    return CliRunner().invoke(main, ["lab", "layout", *words], catch_exceptions=False)


@pytest.fixture
def recorded(trace, tmp_path):
    """The extents of the model itself, as a guest would have reported them."""
    path = tmp_path / "real.parquet"
    found, _ = judge.of_model(Trace(), "ext4-dax", {"capacity": 2 << 30})
    tables.write({"ext4-dax": tables.frame(found, FILES.path)}, path)
    return str(path)


def test_a_model_agrees_with_itself_and_not_with_one_whose_data_begin_elsewhere(trace, recorded):
    told = lab(trace, "--real", recorded, "--by-file")
    assert told.exit_code == 0 and "ext4-dax: equal: every extent is equal" in told.stdout and "/a" in told.stdout
    off = lab(trace, "--real", recorded, "--set", "ext4-dax.data_alignment=2MiB", "--json")
    (cell,) = json.loads(off.stdout)["cells"]
    assert off.exit_code == 1 and cell["verdict"] == "off" and cell["model"]["mappable_2m"] == 3
    assert cell["real"]["files"] == 2 and cell["model_failed_operations"] == 0
    markdown = lab(trace, "--real", recorded, "--format", "markdown")
    assert markdown.stdout.startswith("| file system |")


def test_a_folder_of_several_traces_has_a_folder_for_each(trace, recorded, tmp_path):
    for name in ("two", "other"):
        (tmp_path / "kept" / name).mkdir(parents=True)
        (tmp_path / "kept" / name / f"ext4-dax-1{layout.SUFFIX}").write_bytes(open(recorded, "rb").read())
    (tmp_path / "other.parquet").write_bytes(open(trace, "rb").read())
    told = lab(trace, str(tmp_path / "other.parquet"), "--real", str(tmp_path / "kept"), "--by-file")
    lines = [line.split() for line in told.stdout.splitlines()]
    assert told.exit_code == 0 and lines[0][0] == "trace"
    assert [(line[:2], line[-1]) for line in lines[1:3]] == [
        (["two", "ext4-dax"], "equal"), (["other", "ext4-dax"], "equal"),
    ]  # fmt: skip
    assert "ext4-dax after other, by file" in told.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give -o FOLDER to run guests, or --real PATH"),
        (["--real", "{recorded}", "--fs", "ext4-dax,xfs-dax"], "has one file system, but --fs names 2"),
        (["--real", "{recorded}", "--set", "xfs-dax.capacity=1GiB"], "no file system compared here named 'xfs-dax'"),
        (["--real", "{trace}.csv"], "is not a table of extents"),
        (["--real", "{recorded}", "--fs", "nova"], "nova"),
    ],
)
def test_mistakes_are_one_line(trace, recorded, words, said):
    given = [word.format(recorded=recorded, trace=trace) for word in words]
    told = CliRunner().invoke(main, ["lab", "layout", trace, *given])
    assert told.exit_code == 2 and said in told.stderr and told.stderr.count("\n") == 1


def test_extents_of_another_trace_are_refused(trace, tmp_path):
    path = tmp_path / "real.csv"
    tables.write({"ext4-dax": tables.frame(extents((3, 0, 1, 1)), [*FILES.path, "/c"])}, path)
    told = CliRunner().invoke(main, ["lab", "layout", trace, "--real", str(path)])
    assert told.exit_code == 2 and "has a file that" in told.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--extents", "x.txt"], "must end with .csv or .parquet"),
        (["--fs", "ext4-dax,xfs-dax", "--extents", "x.csv"], "records one file system on one kernel"),
        (["--extents", "none/x.csv"], "no folder 'none'"),
    ],
)
def test_extents_of_a_run_go_into_one_table(trace, tmp_path, words, said):
    told = CliRunner().invoke(main, ["lab", "run", trace, "-o", str(tmp_path / "out"), *words])
    assert told.exit_code == 2 and said in told.stderr


def test_the_model_has_the_ticks_of_the_guests_clock():
    source, counters = (
        drive.source(drive.files(0), drive.ops(*[("stat", 0)] * 101)),
        {"instructions": 40e6, "rep_loads": 10e6},
    )
    known = {"timestamp_tick": ["4ms", "time", ""]}
    assert judge.by_the_guests_clock(source, counters, known) == {"timestamp_tick": "8000ns"}  # 100 us took 50 ms
    assert judge.by_the_guests_clock(source, {}, known) == {} == judge.by_the_guests_clock(source, counters, {})
