"""The lab without an emulator: the job's binary form, symbols, page tables, console, tables and their mistakes."""

import json
import struct

import numpy as np
import pytest
from click.testing import CliRunner

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.core.records import (
    CLOSE,
    CREATE,
    FSYNC,
    MALLOC,
    MKDIR,
    OP,
    OPEN,
    READ,
    RENAME,
    SETUP,
    SYNC,
    UNLINK,
    WRITE,
    Files,
    joined,
)
from scmsim.lab import (
    cache,
    console,
    counts,
    initramfs,
    job,
    kernel,
    machine,
    outcome,
    pagetable,
    plan,
    qemu,
    runner,
    stream,
    systems,
    tools,
)
from scmsim.lab.plan import UNKNOWN
from scmsim.mmu import page_runs, simulate, simulate_file
from scmsim.result import Result, Run
from scmsim.result.cells import by_operation

KALLSYMS = b"""\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000100 T vfs_write
ffffffff81000200 t ext4_file_write_iter.cold
ffffffff82410000 D init_top_pgt
ffffffffc0000000 t xfs_alloc\t[xfs]
"""


class Trace:
    """A source of a few operations."""

    header = {"tool": "test"}

    def __init__(self, rows, files):
        self.files, self.rows = files, len(rows)
        self.array = np.zeros(len(rows), OP)
        self.array["file2"] = -1
        for i, row in enumerate(rows):
            for name, value in row.items():
                self.array[name][i] = value

    def batches(self, chunk=1 << 14):
        yield self.array.view(np.recarray)


def side_table(*rows):
    paths, sizes, folders = zip(*rows, strict=True)
    return Files(list(paths), np.array(sizes, np.int64), np.array(folders))


def small_trace():
    files = side_table(("/d", 0, True), ("/d/a; rm -rf $HOME", -1, False), ("/b", 4096, False))
    return Trace(
        [
            {"op": CREATE, "file": 1, "file2": 0, "flag": SETUP},
            {"op": WRITE, "file": 1, "offset": 0, "length": 100},
            {"op": WRITE, "file": 1, "offset": 100, "length": 100},
            {"op": READ, "file": 2, "offset": 0, "length": 4096, "buffer": 64},
            {"op": CLOSE, "file": 1},
        ],
        files,
    )


def test_trace_has_a_region_for_each_kind_of_operation():
    made = plan.from_trace(small_trace())
    own = made.operations[made.operations["file"] < 3]
    assert own["region"].tolist() == [0, WRITE + 1, WRITE + 1, READ + 1, CLOSE + 1]
    write = made.regions[WRITE]
    assert (write.label, write.calls, write.written) == ("write", 2, 200)
    assert made.regions[READ].read == 4096
    assert made.files["parent"][:3].tolist() == [-1, 0, -1]
    assert made.files["first_size"][:3].tolist() == [0, -1, 4096]


def test_packed_plan_has_the_layout_that_guest_h_declares():
    made = plan.from_trace(small_trace())
    packed = made.packed([["mount", "DEVICE", "ext4", ""]])
    magic, setup, files, operations, buffer, output = plan.HEADER.unpack_from(packed)
    assert magic == b"SCMJOB1\n" and setup % 8 == 0
    assert packed[48 : 48 + setup].rstrip(b"\0") == b"4\0mount\0DEVICE\0ext4"
    assert (files, operations, buffer) == (len(made.files), len(made.operations), 4160)
    assert output % 4096 == 0 and output >= len(packed)
    at = 48 + setup + 16 * files
    assert len(packed) == at + 40 * operations
    last = struct.unpack_from("<BBHiiIqqq", packed, len(packed) - 40)
    assert last[0] == CLOSE and last[2] == CLOSE + 1 and last[3] == 1


def test_no_name_of_a_trace_reaches_the_guest():
    packed = plan.from_trace(small_trace()).packed([])
    assert b"rm -rf" not in packed and b"/d" not in packed


def test_a_trace_that_no_system_call_can_run_is_refused():
    files = side_table(("/a", -1, False))
    with pytest.raises(UsageError, match="malloc"):
        plan.from_trace(Trace([{"op": MALLOC, "length": 10}], files))
    with pytest.raises(UsageError, match="moves"):
        plan.from_trace(Trace([{"op": WRITE, "length": 1 << 40}], files))


def test_a_file_that_is_there_first_lies_in_a_directory_that_is_there_first():
    paths = (("/m", 0, True), ("/m/d", -1, True), ("/m/d/e", -1, True), ("/m/d/e/f", 10, False), ("/n/g", 5, False))
    made = plan.from_trace(Trace([{"op": OPEN, "file": 3}], side_table(*paths)))
    assert made.files["parent"][:5].tolist() == [-1, 0, 1, 0, -1]


def test_whole_paths_have_the_directories_that_a_trace_only_names():
    files = side_table(("/p/a", 5, False), ("/p/b/c/f", 5, False), ("/p/b", 0, True))
    opens = Trace([{"op": OPEN, "file": row} for row in (0, 1)], files)
    assert plan.with_directories(files).path[3:] == ["/p", "/p/b/c"]
    made = plan.from_trace(opens, whole_paths=True)
    assert made.files["parent"][:5].tolist() == [3, 4, 3, -1, 2]
    assert made.files["directory"][3:5].all() and not made.files["first_size"][3:5].any()
    assert plan.from_trace(opens).files["parent"][:3].tolist() == [-1, -1, -1]


def test_directories_that_contain_themselves_lie_at_the_mount_point():
    rows = [{"op": MKDIR, "file": i, "file2": (i + 1) % 3} for i in range(3)]
    made = plan.from_trace(Trace(rows, side_table(*((f"/{i}", -1, True) for i in range(3)))))
    for row in range(3):
        at, steps = row, 0
        while at >= 0 and steps < 10:
            at, steps = int(made.files["parent"][at]), steps + 1
        assert at == -1


def test_microbench_counts_what_the_rows_say():
    made = plan.microbench([1024, 4096], total=1 << 20, passes=("append", "wsync"))
    labels = [(r.label, r.calls, r.cell["unit_bytes"]) for r in made.regions]
    assert labels == [("append", 1024, 1024), ("wsync", 256, 1024), ("append", 256, 4096), ("wsync", 256, 4096)]
    for number, region in enumerate(made.regions, 1):
        mine = made.operations[made.operations["region"] == number]
        assert len(mine) == region.operations
        assert mine["length"].sum() == region.written
        assert set(mine["op"]) == ({WRITE, FSYNC} if region.label == "wsync" else {WRITE})


def test_threads_take_turns_on_the_cpus():
    rows = [{"op": WRITE, "length": 4096, "thread": thread} for thread in (7, 3, 7, 9, 3, 9)]
    source = Trace(rows, side_table(("/a", 0, False)))
    made = plan.from_trace(source, 2)
    assert made.operations["cpu"][-6:].tolist() == [0, 1, 0, 0, 1, 0]
    warm = len(made.operations) - 6
    assert made.operations["cpu"][:warm].tolist() == [0] * (warm // 2) + [1] * (warm // 2)
    assert plan.from_trace(source).packed([]) != made.packed([])


def test_names_are_made_before_they_are_used():
    made = plan.microbench([4096], total=4096, names=3)
    alive = set()
    for row in made.operations:
        file, op = int(row["file"]), int(row["op"])
        if op in (CREATE, MKDIR):
            alive.add(file)
        elif op != SYNC:
            assert file in alive, (op, file)
        if op == UNLINK and not (made.operations["op"] == RENAME).sum() == 0 and row["region"] == 0:
            continue
    labels = [region.label for region in made.regions]
    assert labels[4:6] == ["create", "create_sync"] and len(labels) == 4 + 2 * len(plan.NAMESPACE)


def rows_of(*entries):
    out = np.zeros(len(entries), counts.ROW)
    for i, entry in enumerate(entries):
        for name, value in entry.items():
            out[name][i] = value
    return out


def measured_rows():
    return rows_of(
        {"address": 0xFFFFFFFF81000110, "region": WRITE + 1, "instructions": 30, "load_instructions": 9},
        {"address": 0xFFFFFFFF81000200, "region": WRITE + 1, "instructions": 12, "pm_stored_bytes": 64},
        {"address": 0xFFFFFFFF81000210, "region": READ + 1, "instructions": 5},
        {"address": 0x401DEA, "region": WRITE + 1, "instructions": 3},
    )


def test_counts_by_label():
    functions = counts.symbols(KALLSYMS)
    assert functions.names == ["_stext", "vfs_write", "ext4_file_write_iter.cold", "xfs_alloc"]
    rows = measured_rows()
    found = counts.sums(
        rows, zip(rows["region"].tolist(), counts.functions_at(rows["address"], functions), strict=True)
    )
    assert found[WRITE + 1, "vfs_write"]["mem_inst_retired_all_loads"] == 9
    assert (
        found[WRITE + 1, counts.USER]["instructions"] == 3 and found[READ + 1, functions.names[2]]["instructions"] == 5
    )
    assert counts.symbol_address(KALLSYMS, "init_top_pgt") == 0xFFFFFFFF82410000


def test_counts_that_are_cut_short_are_refused(tmp_path):
    path = tmp_path / "counts"
    path.write_bytes(rows_of({"region": 1}).tobytes()[:-1])
    with pytest.raises(EnvironmentProblem, match="cut short"):
        counts.read(path)


def measured():
    from scmsim.lab.measured import Measured

    names = (
        "buffer",
        "buffer_bytes",
        "huge_bytes",
        "done",
        "failed",
        "first_failed",
        "first_errno",
        "no_space",
        "short_writes",
        "unwritten",
        "busy",
    )
    return Measured(measured_rows(), KALLSYMS, dict.fromkeys(names, 0), 1.0)


def test_a_trace_gives_one_run_with_its_kinds_of_operation_and_mechanisms():
    (run,) = outcome.Outcome("ext4-dax", plan.from_trace(small_trace()), measured()).runs(1, 1)
    assert run.counters["instructions"] == 50 and run.calls == 4
    assert run.groups["write"]["instructions"] == 45
    assert run.sites["syscall"]["instructions"] == 47  # vfs_write and ext4_file_write_iter, with or without a suffix
    assert sum(site["instructions"] for site in run.sites.values()) == 50
    assert run.payload == {"written": 200, "read": 4096}
    json.loads(Result({}, [run]).to_json())
    split = by_operation(Result({}, [run]))
    assert {(each.cell["operation"], each.counters["instructions"]) for each in split.runs} >= {("write", 45)}


def test_a_result_without_a_breakdown_cannot_be_compared_by_operation():
    with pytest.raises(UsageError, match="--by op"):
        by_operation(Result({}, [Run("ext4")]))


def test_a_kernel_that_does_not_tell_page_sizes_is_measured_and_the_gap_is_told(tmp_path):
    """CONFIG_PROC_PAGE_MONITOR: only the pages of the program's buffer depend on it."""
    found = measured()
    found.about |= {"huge_bytes": UNKNOWN, "buffer": 4 << 20, "buffer_bytes": 2 << 20}
    (run,) = outcome.Outcome("tmpfs", plan.from_trace(small_trace()), found).runs(1, 1)
    assert run.counters["instructions"] == 50 and not run.errors
    assert "CONFIG_PROC_PAGE_MONITOR" in run.warnings[0] and len(run.warnings) == 1
    ram = tmp_path / "ram"
    with ram.open("wb") as file:
        file.truncate(64 << 20)
    for huge, ranges in ((UNKNOWN, []), (2 << 20, [(4 << 20, 6 << 20, 21)])):
        assert pagetable.ranges(ram, KALLSYMS, {**found.about, "huge_bytes": huge}) == ranges


def test_failed_operations_are_told():
    found = measured()
    found.about |= {"failed": 3, "done": 9, "first_failed": 4, "first_errno": 28, "no_space": 2}
    (run,) = outcome.Outcome("tmpfs", plan.from_trace(small_trace()), found).runs(1, 1)
    assert run.errors["ENOSPC"] == 2 and "operation 4 with errno 28" in run.warnings[0]


def entry(physical, large=False):
    return physical | 3 | (1 << 7 if large else 0)


@pytest.fixture
def memory(tmp_path):
    """A page table with one page of 1 GiB, two neighbours of 2 MiB and one page of 4 KiB."""
    ram = np.zeros(1 << 16, np.uint8)
    tables = ram.view("<u8").reshape(-1, 512)
    tables[1][273] = entry(0x2000)  # 0xffff888000000000
    tables[1][0] = entry(0x2000)  # the user half is not followed
    tables[2][4] = entry(0x100000000, large=True)
    tables[2][0] = entry(0x3000)
    tables[3][0:2] = entry(0, large=True)
    tables[3][5] = entry(0x4000)
    tables[4][7] = entry(0x9000)
    tables[4][8] = 0x1000  # not present
    path = tmp_path / "ram"
    ram.tofile(path)
    return path


def test_walk_of_a_page_table(memory):
    base = 0xFFFF888000000000
    found = pagetable.walk(memory, 0x1000)
    assert found == [
        (base, base + (4 << 20), 21),
        (base + (10 << 20) + 7 * 4096, base + (10 << 20) + 8 * 4096, 12),
        (base + (4 << 30), base + (5 << 30), 30),
    ]
    wanted = np.array([base, base + (4 << 30) + 5, base + (4 << 20), 0x7000], np.uint64)
    assert pagetable.orders(wanted, found).tolist() == [21, 30, 12, 12]


def test_walk_of_garbage_ends(tmp_path, monkeypatch):
    path = tmp_path / "ram"
    np.full(1 << 11, entry(0x1000), "<u8").tofile(path)  # every table is the same one
    monkeypatch.setattr(pagetable, "_MOST_TABLES", 1000)
    with pytest.raises(EnvironmentProblem, match="no page table"):
        pagetable.walk(path, 0x1000)
    assert pagetable.walk(path, 1 << 50) == []


def packed_run(address, count, store):
    return (address >> 12 & (1 << 36) - 1) << 28 | store << 27 | (count - 1)


def test_stream_becomes_page_runs_that_the_mmu_reads(tmp_path):
    kernel_page, user_page = 0xFFFF888100000000, 0x7F0000001000
    packed = np.array([packed_run(kernel_page, 5000, 1), packed_run(user_page, 2, 0)], np.uint64)
    address, count, store = stream.unpacked(packed)
    assert address.tolist() == [kernel_page, user_page]
    assert count.tolist() == [5000, 2] and store.tolist() == [True, False]
    path = tmp_path / "x.pages.npz"
    stream.write(path, packed, [(kernel_page, kernel_page + (1 << 30), 30)])
    events = joined(list(page_runs.events(path)))
    assert events["length"].tolist() == [4096, 904, 2] and events["order"].tolist() == [30, 30, 12]
    found = simulate_file(str(path), "i7-8700k")
    assert found["dtlb_store_lookups"] == 5000 and found["dtlb_load_lookups"] == 2
    assert found["dtlb_store_misses_walk_completed"] == 1
    same = simulate([user_page, user_page], "i7-8700k")
    assert found["dtlb_load_misses_walk_completed_4k"] == same["dtlb_load_misses_walk_completed_4k"]


@pytest.mark.parametrize("content", [b"", b"PK\3\4 nothing", b"\0" * 100])
def test_damaged_page_runs_are_refused(tmp_path, content):
    path = tmp_path / "x.pages.npz"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="page runs"):
        list(page_runs.events(path))


@pytest.mark.parametrize(
    ("text", "messages", "status", "said"),
    [
        ("[ 1.2] Kernel panic - not syncing: VFS\n", "", 0, "panicked: Kernel panic - not syncing: VFS"),
        ("a\nscmsim: failed: mount ext4: errno 22\n", "", 0, "failed at mount ext4 (invalid argument)"),
        (
            "\nscmsim: failed: find persistent memory: it has no block device (CONFIG_BLK_DEV_PMEM and CONFIG_BTT, modules nd_pmem "
            "and nd_btt): errno 19\n",
            "",
            0,
            "CONFIG_BTT, modules nd_pmem and nd_btt) (no such device); choose a kernel that has it, or give its modules",
        ),
        ("\nscmsim: failed: dax the file system was mounted, but without DAX: errno 95\n", "", 0, "CONFIG_FS_DAX"),
        ("", "qemu: Could not load plugin x.so: undefined symbol\n", 1, "plugin x.so"),
        ("one\ntwo\n", "", None, "exceeded its time limit"),
        ("", "", -9, "signal 9"),
        ("\x1b[2Jlast\x07 words\n", "", 1, "console ends: last"),
    ],
)
def test_diagnosis_is_one_line(text, messages, status, said):
    line = console.diagnose(text, messages, status)
    assert said in line and "\n" not in line and "\x1b" not in line and "\x07" not in line


def test_a_panic_shows_what_the_kernel_said_of_the_fault():
    console_text = """
[    2.1] BUG: kernel NULL pointer dereference, address: 0000000000000008
[    2.1] #PF: supervisor read access in kernel mode
[    2.1] Oops: 0000 [#1] SMP NOPTI
[    2.1] RIP: 0010:winefs_new_inode+0xb1/0x2a0 [winefs]
[    2.1] Call Trace:
[    2.2] RIP: 0033:0x401234
[    2.3] Kernel panic - not syncing: Fatal exception
"""
    line = console.diagnose(console_text, "", 0)
    assert "panicked: Kernel panic - not syncing: Fatal exception; BUG: kernel NULL pointer dereference" in line
    assert "; in winefs_new_inode (RIP: 0010:winefs_new_inode+0xb1/0x2a0 [winefs])" in line and "console" not in line
    place = "[ 1.0] kernel BUG at fs/pmfs/inode.c:12!\n[ 1.0] RIP: 0010:0x0\n[ 1.0] Kernel panic - not syncing: x\n"
    assert "kernel BUG at fs/pmfs/inode.c:12!; in unknown code (RIP: 0010:0x0)" in console.diagnose(place, "", 0)
    warned = "[ 0.9] WARNING: CPU: 0 PID: 1 at mm/vmalloc.c:2876\n[ 0.9] RIP: 0010:__vmalloc_node_range+0x24d/0x2d0\n"
    assert "; in unknown code" in console.diagnose(warned + place, "", 0)  # the place of the fault, not of the warning


def test_finished_is_the_guests_own_word():
    assert console.finished("boot\r\n\r\nscmsim: finished\r\n")
    assert not console.finished("scmsim: failed: x y: errno 1\n")


def test_shipped_systems_and_jobs_are_sound():
    table = systems.load()
    assert {"ext4-dax", "xfs-dax", "tmpfs", "nova-cow", "pmfs-4k"} <= set(table)
    for name in job.names():
        loaded = job.load(name, {})
        assert set(loaded.fs) <= set(table) and loaded.plan().regions


def test_own_systems_replace_ours(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text('[ext4]\ntype = "ext4"\noptions = "noatime"\n')
    assert systems.load(path)["ext4"].options == "noatime"
    with pytest.raises(UsageError, match="did you mean 'ext4-dax'"):
        systems.get(systems.load(), "ext4-dex")


def test_a_file_system_may_need_several_cpus():
    assert systems.get(systems.load(), "winefs", 8).cpus == 8
    with pytest.raises(UsageError, match="'winefs' needs a guest with 8 CPUs, not 1; run it with --cpus 8"):
        systems.get(systems.load(), "winefs")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[x]\ntype = 1", "2: x.type: must be text"),
        ('[x]\nmkfs = ["a"]', "1: x.type: is missing; give the file system's name"),
        ('[x]\ntype = "a"\nmkfss = []', "did you mean 'mkfs'"),
        ('[x]\ntype = "a\\u0000b"', "x.type: must be text"),
        ("x = 1", "must be a table"),
        ('[x]\ntype = "a"\ncpus = 0', "x.cpus: must be a whole number from 1 to 64"),
        ("[x", "not TOML"),
    ],
)
def test_mistakes_in_a_table_of_systems(tmp_path, text, said):
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        systems.load(path)


def test_every_mistake_of_a_job_is_told_at_once(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text('fs = []\nfoo = 1\n[microbench]\nunits = ["4XB"]\npasses = ["apend"]\n[run]\nrepeats = 0\n')
    with pytest.raises(UsageError) as caught:
        job.load(str(path), {})
    lines = str(caught.value).splitlines()
    keys = ("fs:", "foo:", "microbench.units.0:", "microbench.passes.0:", "run.repeats:")
    assert len(lines) == 5 and all(any(key in line for line in lines) for key in keys)


def test_job_of_a_trace_and_of_a_file(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text('fs = ["tmpfs"]\ntrace = "t.parquet"\n[run]\nrepeats = 2\ntimeout = "90s"\nerms = false\n')
    loaded = job.load(str(path), {"fs": ("ext4",)})
    assert (loaded.fs, loaded.repeats, loaded.timeout_s, loaded.erms) == (("ext4",), 2, 90.0, False)
    assert loaded.trace == str(tmp_path / "t.parquet")
    assert job.load("x/t.parquet", {}).trace == "x/t.parquet"
    with pytest.raises(UsageError, match="did you mean 'smoke'"):
        job.load("smok", {})
    assert [guest.key for guest in runner.guests(loaded)] == ["ext4-1", "ext4-2"]


def test_archive_is_newc():
    import gzip

    content = gzip.decompress(initramfs.archive({"/a/b": b"12345"}))
    assert content.startswith(b"070701")
    assert b"a/b\0" in content and b"12345" in content and content.endswith(b"TRAILER!!!\0\0\0\0")
    assert len(content) % 4 == 0


def make_modules(folder):
    (folder / "fs").mkdir(parents=True)
    (folder / "fs/xfs.ko").write_bytes(b"\x7fELF\0license=GPL\0depends=libcrc32c,\0name=xfs\0")
    (folder / "fs/libcrc32c.ko").write_bytes(b"\x7fELF\0depends=\0")
    (folder / "fs/crc32c-intel.ko").write_bytes(b"\x7fELF\0depends=\0")
    return folder


def test_modules_come_after_those_that_they_need(tmp_path):
    found = kernel.module_files(
        kernel.Kernel("vmlinuz", str(make_modules(tmp_path / "6.1"))), ["crc32c-intel", "xfs", "builtin"]
    )
    assert list(found) == ["crc32c_intel", "libcrc32c", "xfs"]


def test_kernel_without_dax_is_told_from_its_configuration(tmp_path):
    config = tmp_path / "config"
    config.write_text("CONFIG_X86_PMEM_LEGACY=m\nCONFIG_BLK_DEV_PMEM=m\n# CONFIG_FS_DAX is not set\n")
    found = kernel.Kernel("vmlinuz", "", "9.9", str(config))
    found.check(dax=False)
    with pytest.raises(EnvironmentProblem, match="CONFIG_FS_DAX"):
        found.check()


def test_an_image_that_is_none(tmp_path):
    path = tmp_path / "bzImage"
    path.write_bytes(bytes(2048))
    with pytest.raises(UsageError, match="not a bzImage"):
        kernel.from_image(str(path))
    path.write_bytes(bytes(514) + b"HdrS" + bytes(512))
    assert kernel.from_image(str(path)).version() == "bzImage"


def program(folder, text):
    path = folder / qemu.PROGRAM
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo nothing", "the version of "),
        ("echo 'QEMU emulator version 4.1.0'", "no plugins"),
        ("echo 'QEMU emulator version 7.2.0'", "without plugins"),
    ],
)
def test_an_emulator_that_cannot_serve(tmp_path, text, said):
    with pytest.raises(EnvironmentProblem, match=said):
        qemu.find(str(program(tmp_path, text)))


@pytest.mark.parametrize(("version", "api"), [((7, 2, 22), 1), ((9, 0, 0), 2), ((9, 1, 2), 3), ((10, 0, 2), 4)])
def test_api_of_an_emulator(version, api):
    assert qemu.Qemu("q", version).api == api


def test_missing_emulator_leaves_with_3_and_one_line(monkeypatch, tmp_path):
    from scmsim.cli import main

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    qemu.find.cache_clear()
    try:
        done = CliRunner().invoke(main, ["lab", "check"], standalone_mode=False)
        assert done.return_value == 3 and "apt-get install" in done.output and "qemu-system-x86" in done.output
        ran = CliRunner().invoke(main, ["lab", "run", "smoke", "-o", str(tmp_path / "out")], standalone_mode=False)
        assert isinstance(ran.exception, EnvironmentProblem) and ran.exception.exit_code == 3
        assert "\n" not in str(ran.exception) and not (tmp_path / "out").exists()
    finally:
        qemu.find.cache_clear()


def test_command_for_what_is_missing():
    found = [tools.Finding("emulator", "", "qemu-system-x86"), tools.Finding("compiler", "", "gcc libc6-dev")]
    assert tools.command(found) == "apt-get install --no-install-recommends qemu-system-x86 gcc libc6-dev"
    assert tools.command([tools.Finding("kernel", "", "scmsim lab setup --apply")]) == ""


def test_memory_of_the_guest_in_its_file():
    low = qemu.LOW_BYTES
    addresses = {0: 0, low - 1: low - 1, qemu.HIGH: low, qemu.MAILBOX_AT: low + qemu.MAILBOX_AT - qemu.HIGH}
    assert {address: qemu.file_offset(address) for address in addresses} == addresses


def test_arguments_escape_commas():
    words = qemu.arguments(
        qemu.Qemu("q", (7, 2, 0)), image="k", initrd="i", ram="/t,mp/ram", console="c", plugin=["p", "out=a,b"],
        mailbox=128 << 20, erms=True,
    )  # fmt: skip
    assert words[-1] == "p,out=a,,b" and any("mem-path=/t,,mp/ram" in word for word in words)


def test_each_boot_has_a_seed_and_from_the_second_on_memory_in_random_order():
    def words(boot):
        return qemu.arguments(
            qemu.Qemu("q", (7, 2, 0)), image="k", initrd="i", ram="r", console="c", plugin=["p"], mailbox=128 << 20,
            erms=True, boot=boot,
        )  # fmt: skip

    def after(option, boot):
        return words(boot)[words(boot).index(option) + 1]

    assert [after("-seed", boot) for boot in (1, 2, 3)] == ["1", "2", "3"]
    assert ["page_alloc.shuffle=1" in after("-append", boot) for boot in (1, 2, 3)] == [False, True, True]


@pytest.mark.parametrize(("boots", "expected"), [(False, [1, 1]), (True, [1, 2])])
def test_repeats_are_other_boots_where_that_is_asked_for(monkeypatch, boots, expected):
    seen = []

    class Seen(Exception):
        pass

    def run(setting, *_):
        seen.append(setting.boot)
        raise Seen

    monkeypatch.setattr(machine, "run", run)
    setting = machine.Setting(qemu.Qemu("q", (7, 2, 0)), None, boots=boots)
    for repeat in (1, 2):
        with pytest.raises(Seen):
            runner._one(runner.Guest("tmpfs", repeat), None, setting, {"tmpfs": None}, None, None)
    assert seen == expected


def test_no_compiler_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cache, "compiler", lambda: None)
    with pytest.raises(EnvironmentProblem, match="no C compiler"):
        cache.plugin(1)


def test_plugin_is_compiled_once(monkeypatch, tmp_path):
    if cache.compiler() is None:
        pytest.skip("no C compiler")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = cache.plugin(1)
    stamp = first.stat().st_mtime_ns
    assert cache.plugin(1) == first and first.stat().st_mtime_ns == stamp
    assert cache.plugin(3) != first


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "smoke", "--fs", "ext4-dex"], "did you mean 'ext4-dax'"),
        (["run", "smoke", "--fs", "ext4,ext4"], "twice"),
        (["run", "smoke", "--units", "4XB"], "not a number of bytes"),
        (["run", "nothing"], "no job named 'nothing'"),
        (["setup", "--kernel", "a", "--kernel-image", "b"], "exclude each other"),
        (["setup", "--modules", "a"], "--modules needs --kernel-image"),
    ],
)
def test_mistakes_on_the_command_line_are_one_line(tmp_path, words, said):
    from scmsim.cli import main

    words = [*words, "-o", str(tmp_path / "out")] if words[0] == "run" else words
    done = CliRunner().invoke(main, ["lab", *words], standalone_mode=False)
    assert isinstance(done.exception, UsageError) and said in str(done.exception)
    assert "\n" not in str(done.exception) and not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["x", "5/2", "0/7", "1/", "9" * 50])
def test_windows_that_make_no_sense(text):
    from scmsim.cli.lab.run import _window

    with pytest.raises(UsageError, match="--stream"):
        _window(text)
