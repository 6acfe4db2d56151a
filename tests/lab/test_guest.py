"""The lab with an emulator: what a guest counts, and how each way to fail is told.  Skipped where it cannot run."""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from click.testing import CliRunner

from scmsim.cli import main
from scmsim.core.errors import EnvironmentProblem
from scmsim.core.records import (
    CLOSE,
    CREATE,
    FALLOCATE,
    FSYNC,
    LINK,
    MADVISE,
    MKDIR,
    MMAP,
    MSYNC,
    MUNMAP,
    OP,
    READ,
    RENAME,
    RMDIR,
    STAT,
    SYNC,
    TRUNCATE,
    UFENCE,
    UFLUSH,
    ULOAD,
    UNLINK,
    USTORE,
    WRITABLE_SHARED,
    WRITE,
    Files,
)
from scmsim.lab import (
    call_counts,
    diff,
    initramfs,
    job,
    kernel,
    machine,
    outcome,
    plan,
    qemu,
    runner,
    stream,
    systems,
    tlb,
    tools,
    touches,
)
from scmsim.mmu import presets
from scmsim.result import SHORT

pytestmark = pytest.mark.slow
_MISSING = [finding for finding in tools.examine() if finding.package]
if _MISSING:
    pytest.skip(f"no lab here: {_MISSING[0].value}", allow_module_level=True)


@pytest.fixture
def setting():
    """Linux 6.1, whichever kernel is chosen: counts of mapped files differ between kernels."""
    if not any(each.release.startswith("6.1.") for each in kernel.kept()):
        pytest.skip("kernel 6.1 is not kept; run: scmsim lab setup --release 6.1 --apply")
    return machine.Setting(qemu.find(), kernel.named("6.1"), timeout_s=300)


class Trace:
    """A source of rows (op, file, offset, length, file2, flag, buffer)."""

    header = {"tool": "test"}

    def __init__(self, rows, files):
        self.files, self.rows, self.array = files, len(rows), np.zeros(len(rows), OP)
        for row, entry in zip(self.array, rows, strict=True):
            given = (*entry, *(0, 0, 0, -1, 0, 0)[len(entry) - 1 :])
            row["op"], row["file"], row["offset"], row["length"], row["file2"], row["flag"], row["buffer"] = given

    def batches(self, chunk=1 << 14):
        yield self.array.view(np.recarray)


def side_table(count, folders=(0,)):
    sizes = np.full(count, -1, np.int64)
    sizes[list(folders)] = 0
    return Files([f"/{i}" for i in range(count)], sizes, np.isin(np.arange(count), folders))


def test_counts_of_ext4_dax_and_resuming(setting, tmp_path):
    wanted = job.Job(fs=("ext4-dax",), units=(4096,), total=1 << 20)
    table = systems.load()
    result, ran, before = runner.run(wanted, setting, table, tmp_path / "out", workers=1)
    assert (ran, before) == (1, 0)
    stored = {run.cell["operation"]: run.counters["pm_stored_bytes"] / run.calls for run in result.runs}
    assert stored["append"] == 8192 and stored["rewrite"] == 4096 and stored["read"] == 0  # zeroed, then written
    fences = {run.cell["operation"]: run.counters["fences"] / run.calls for run in result.runs}
    assert fences["append"] == fences["rewrite"] == 1 and fences["read"] == 0
    for run in result.runs:
        assert sum(site["instructions"] for site in run.sites.values()) == run.counters["instructions"]
        assert run.counters["instructions"] > run.counters["mem_inst_retired_all_loads"] > 0
    assert json.loads((tmp_path / "out/result.json").read_text())["manifest"]["harness"]["backend"] == "lab"
    again, ran, before = runner.run(wanted, setting, table, tmp_path / "out", workers=1)
    assert (ran, before) == (0, 1) and again.runs == result.runs


def test_every_kind_of_operation_runs(setting):
    rows = [
        (MKDIR, 1, 0, 0, 0), (CREATE, 2, 0, 0, 1), (WRITE, 2, 0, 8192), (READ, 2, 100, 1000), (FSYNC, 2), (TRUNCATE, 2, 4096),
        (FALLOCATE, 2, 0, 65536), (MMAP, 2, 0, 8192, -1, WRITABLE_SHARED), (USTORE, 2, 4096, 64), (CLOSE, 2), (STAT, 2), (LINK, 2),
        (RENAME, 2), (UNLINK, 2), (CREATE, 3, 0, 0, 0), (RENAME, 3, 0, 0, 2), (UNLINK, 3), (RMDIR, 1), (SYNC, -1),
    ]  # fmt: skip
    made = plan.from_trace(Trace(rows, side_table(4)))
    found = machine.run(setting, systems.load()["ext4-dax"], made)
    assert found.about["failed"] == 0 and found.about["done"] == len(made.operations)
    (run,) = outcome.Outcome("ext4-dax", made, found).runs(1, 1)
    # the first touch of a block that fallocate gave zeroes it; then the program's own stores into its mapping
    assert run.groups["store"]["pm_stored_bytes"] == 4096 + 64
    assert run.groups["write"]["pm_stored_bytes"] == 16384
    assert set(run.groups) == {"create", "read", "write", "fsync", "truncate", "fallocate", "unlink", "rename", "link",
        "mkdir", "rmdir", "stat", "mmap", "store", "close", "sync"}  # fmt: skip


@pytest.mark.parametrize(("fs", "large"), [("ext4-dax", 2), ("tmpfs", 0)])
def test_faults_of_mapped_files_are_told_by_the_size_of_their_entries(setting, fs, large):
    size, head = 4 << 20, 8 << 20  # of the file's second half, which ext4 aligns, and of the mapping
    rows = [
        (CREATE, 1, 0, 0, 0), *[(WRITE, 1, at, 1 << 20) for at in range(0, size, 1 << 20)], (FSYNC, 1),
        (MMAP, 1, 0, head, -1, WRITABLE_SHARED, 1 << 45), (ULOAD, 1, 0, size), (USTORE, 1, 0, 64), (MSYNC, 1, 0, size),
        (UFLUSH, 1, 0, 128), (UFENCE, -1), (USTORE, 1, size, 8), (MADVISE, 1, 0, size, -1, 0, 4), (MUNMAP, 1, 0, head),
        (ULOAD, 1, 0, 8),
    ]  # fmt: skip
    made = plan.from_trace(Trace(rows, side_table(2)))
    (run,) = outcome.Outcome(fs, made, machine.run(setting, systems.load()[fs], made)).runs(1, 1)
    load, store = run.groups["load"], run.groups["store"]
    assert load["page_faults_pmd"] == large
    assert load["page_faults_pte"] == (0 if large else size // 4096 // 16)  # the page cache maps 16 pages around a load
    assert store["page_faults_pmd"] == (1 if large else 0) and store["page_faults_pte"] == 0
    assert store["pm_stored_bytes"] == (64 if large else 0)
    assert run.groups["msync"]["flushes"] == large * (2 << 20) // 64  # 6.1 writes back what was only loaded, too
    assert run.groups["flush"]["flushes"] == 2 and run.groups["fence"]["fences"] == 1
    assert run.errors == {"SIGBUS": 1, "SIGSEGV": 1}  # behind the end; without a mapping
    assert run.calls == sum(row[0] not in (ULOAD, USTORE, UFLUSH, UFENCE) for row in rows)


def test_an_unmapping_interrupts_every_other_cpu_of_the_program(setting):
    """Four threads on three CPUs: the fourth runs on the first's.  The kernel does not know which of them used the mapping."""
    calls = [(WRITE, 0, 0, 65536, 0), (WRITE, 0, 0, 4096, 1)]
    for toucher in (2, 3):
        calls += [
            (MMAP, 0, 0, 65536, 0),
            (ULOAD, 0, 0, 65536, 0),
            (ULOAD, 0, 0, 65536, toucher),
            (MUNMAP, 0, 0, 65536, 0),
        ]
    trace = Trace([call[:4] for call in calls], Files(["/a"], np.array([0]), np.array([False])))
    trace.array["thread"] = [call[4] for call in calls]
    made = plan.from_trace(trace, 3)
    several = dataclasses.replace(setting, cpus=3)
    first, second = (
        outcome.Outcome("ext4-dax", made, machine.run(several, systems.load()["ext4-dax"], made), 3) for _ in range(2)
    )
    (one,), (two,) = first.runs(1, 1), second.runs(1, 1)
    assert one == two
    assert one.groups["munmap"]["tlb_shootdowns"] == 2 * 2
    sent = {row["func"]: row["entered"] for row in first.other_cpus() if row["op"] == "munmap"}
    assert sent["flush_tlb_func"] == 2 and sent["native_flush_tlb_one_user"] == 2 * 16
    assert one.groups["write"]["tlb_shootdowns"] == 0 and one.groups["munmap"]["other_instructions"] > 0


def test_a_stream_of_calls_on_several_cpus_is_refused(tmp_path):
    table, trace = tmp_path / "t.csv", tmp_path / "t.parquet"
    table.write_text("op,path,thread,offset,length\ncreate,/a,1\nwrite,/a,1,0,4096\nwrite,/a,2,0,4096\n")
    assert CliRunner().invoke(main, ["trace", "convert", str(table), str(trace)]).exit_code == 0
    given = ["--cpus", "2", "-o", str(tmp_path / "out")]
    for words in (["lab", "run", trace, "--stream", "10/100"], ["lab", "tlb", trace], ["lab", "caches", trace]):
        done = CliRunner().invoke(main, [*map(str, words), *given])
        assert done.exit_code == 2 and "threads run on 2 CPUs" in done.output and not (tmp_path / "out").exists()


def test_what_one_cpu_touches_is_no_mix_of_several(setting):
    """What is kept is of the CPU that makes the call, although the other thread waits in user mode for its turn."""
    trace = Trace([(CREATE, 1, 0, 0, 0), *[(WRITE, 1, i << 12, 4096) for i in range(8)], (STAT, 1)], side_table(2))
    trace.array["thread"][-1] = 1
    kept = dataclasses.replace(setting, window=machine.Window(1, 1, calls=True), touches=1000, lines=True)
    one, two = (
        machine.run(dataclasses.replace(kept, cpus=n), systems.load()["ext4-dax"], plan.from_trace(trace, n))
        for n in (1, 2)
    )
    for name in ("stream", "touches", "lines"):
        assert 0.8 < len(getattr(two, name)) / len(getattr(one, name)) < 1.2, name


def first_touches(part, window):
    """Of the runs of one call: (address of the 4 KiB page, whether stores) of each page's first touch in every `window` runs."""
    found, seen = [], set()
    for k, touch in enumerate(zip(part.page.tolist(), part.store.tolist(), strict=True)):
        seen = seen if k % window else set()
        found += [] if touch in seen else [touch]
        seen.add(touch)
    return found


def test_a_stream_tells_its_calls_and_touches_are_the_first_of_its_pages(setting, tmp_path):
    rows = [(CREATE, 1, 0, 0, 0), (WRITE, 1, 0, 8192), (STAT, 1), (READ, 1, 0, 8192), (UNLINK, 1)]
    made = plan.from_trace(Trace(rows, side_table(2)))
    setting = dataclasses.replace(setting, window=machine.Window(1, 1, calls=True), touches=300)
    found = machine.run(setting, systems.load()["ext4-dax"], made)
    stream.keep(tmp_path / "a.runs.parquet", found.stream, "ext4-dax", made, found, "6.1")
    touches.keep(tmp_path / "a.touches.parquet", "ext4-dax", made, found, "6.1")
    (runs,) = stream.Kept(tmp_path / "a.runs.parquet").batches()
    table = touches.load(tmp_path / "a.touches.parquet")[1].to_pandas()
    assert sorted(set(runs.call)) == sorted(set(table["call"])) == [0, 1, 2, 3, 4]
    assert table.groupby("call")["kind"].first().tolist() == ["create", "write", "stat", "read", "unlink"]
    for call, part in table.groupby("call"):
        pages = [(address & -4096, store) for address, store in zip(part["address"], part["store"], strict=True)]
        assert pages == first_touches(runs.part(runs.call == call), 300)
    used = set(table["cache"])
    assert {"dentry", "ext4_inode_cache", "filp"} <= used and "" in used
    assert {"vfs_write", "dax_iomap_rw"} & set(table["function"]) and {"persistent memory", "vmalloc"} < set(
        table["region"]
    )


def test_misses_by_code_add_up_to_those_of_the_stream(setting, tmp_path):
    rows = [(CREATE, 1, 0, 0, 0), *[(WRITE, 1, i << 12, 4096) for i in range(40)], (FSYNC, 1), (UNLINK, 1)]
    made = plan.from_trace(Trace(rows, side_table(2)))
    setting = dataclasses.replace(setting, window=machine.Window(1, 1, calls=True), machine="i7-8700k")
    found = machine.run(setting, systems.load()["ext4-dax"], made)
    assert len(found.cells) == len(found.stream) and set(found.cells) <= {0, *found.rows["number"]}
    stream.keep(tmp_path / "a.runs.parquet", found.stream, "ext4-dax", made, found, "6.1")
    kept = tlb.counted(stream.Kept(tmp_path / "a.runs.parquet"), {"one": presets.machine("i7-8700k")}, lambda *_: None)
    by_row = tlb.by_row(found, "i7-8700k")
    for name, misses in by_row.items():
        assert misses.sum() == sum(row[name] for row in kept["one"]) > 0
    call_counts.keep(tmp_path / "a.calls.parquet", outcome.Outcome("ext4-dax", made, found), "6.1", "i7-8700k", by_row)
    frame = call_counts.load(tmp_path / "a.calls.parquet").frame
    assert frame["walks"].sum() == by_row["walks"].sum() and (frame["walks"] <= frame["l1_misses"]).all()
    assert (
        frame["l1_misses"]
        <= frame["load_accesses"] + frame["store_accesses"] + frame["rep_loads"] + frame["rep_stores"]
    ).all()


def test_a_full_file_system_is_counted(setting):
    small = dataclasses.replace(systems.load()["tmpfs"], options="size=3m")  # the warm-up has a file of 1 MiB
    rows = [(CREATE, 1, 0, 0, 0), *[(WRITE, 1, i * 700_000, 700_000) for i in range(4)]]
    made = plan.from_trace(Trace(rows, side_table(2)))
    (run,) = outcome.Outcome("tmpfs", made, machine.run(setting, small, made)).runs(1, 1)
    assert run.errors["ENOSPC"] == 1 and run.errors[SHORT] == 1 and "errno 28" in run.warnings[0]
    assert run.payload["written"] == 2 << 20


def fails(setting, system, match):
    with pytest.raises(EnvironmentProblem, match=match) as caught:
        machine.run(setting, system, plan.microbench([4096], total=4096))
    assert "\n" not in str(caught.value) and caught.value.exit_code == 3
    assert not list(pathlib.Path("/dev/shm").glob(f"{machine.PREFIX}{os.getpid()}-*"))


def test_a_file_system_without_dax_is_refused(setting):
    fails(setting, dataclasses.replace(systems.load()["tmpfs"], dax=True), "without DAX")


def test_mkfs_that_fails(setting):
    ext4 = systems.load()["ext4"]
    fails(setting, dataclasses.replace(ext4, mkfs=("mke2fs", "-t", "nonsense", "DEVICE")), "failed at run")


def test_a_panic_is_told(setting, monkeypatch):
    monkeypatch.setattr(initramfs, "archive", lambda files: b"")
    fails(setting, systems.load()["tmpfs"], "panicked: Kernel panic")


def test_wrong_plugin_api(setting):
    newer = dataclasses.replace(setting.qemu, version=(10, 0, 0) if setting.qemu.version < (9, 2, 0) else (7, 2, 0))
    fails(dataclasses.replace(setting, qemu=newer), systems.load()["tmpfs"], "plugin")


def test_too_long(setting):
    fails(dataclasses.replace(setting, timeout_s=0.5), systems.load()["tmpfs"], "exceeded its time limit")


def text_of(path):
    """A file of /proc, empty if its process has ended."""
    try:
        return pathlib.Path(path).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def started(tmp_path):
    """A run, and the process ids of its emulators as soon as there are any."""
    command = [sys.executable, "-m", "scmsim", "lab", "run", "smoke", "-o", str(tmp_path / "out")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    for _ in range(600):
        tasks = pathlib.Path(f"/proc/{process.pid}/task").glob("*/children")
        emulators = [pid for task in tasks for pid in text_of(task).split()]
        emulators = [pid for pid in emulators if "-initrd" in text_of(f"/proc/{pid}/cmdline")]
        if emulators or process.poll() is not None:
            break
        time.sleep(0.1)
    assert emulators
    return process, emulators


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_leaves_no_emulator(tmp_path, number):
    process, emulators = started(tmp_path)
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    for _ in range(100):
        if not any(os.path.exists(f"/proc/{pid}") for pid in emulators):
            break
        time.sleep(0.1)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in emulators)
    if number == signal.SIGINT:
        assert process.returncode == 130 and "stopped by SIGINT" in said and len(said.strip().splitlines()) == 1
    runner.sweep()
    assert not list(pathlib.Path("/dev/shm").glob(f"{machine.PREFIX}{process.pid}-*"))


def test_an_emulator_that_is_killed_is_one_line_and_leaves_nothing(tmp_path):
    process, emulators = started(tmp_path)
    os.kill(int(emulators[0]), signal.SIGKILL)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 3 and len(said.strip().splitlines()) == 1
    assert "the emulator ended with status -9: signal 9" in said
    assert not list(pathlib.Path("/dev/shm").glob(f"{machine.PREFIX}{process.pid}-*"))
    assert not list((tmp_path / "out").glob("*.parquet")) and not (tmp_path / "out/result.json").exists()


def test_repeats_are_equal_to_the_count_and_the_journal_is_deferred(setting, tmp_path):
    wanted = job.Job(fs=("ext4-dax",), units=(4096,), total=1 << 18, passes=("wsync",), repeats=2)
    result, _, _ = runner.run(wanted, setting, systems.load(), tmp_path / "out", workers=1)
    first, second = result.runs
    assert first.counters == second.counters and first.sites == second.sites
    assert 0 < first.counters["deferred_instructions"] < first.counters["instructions"]
    found = diff.compare(*[[each] for each in diff.measured(tmp_path / "out", "ext4-dax")])
    assert found["operations"][0]["instructions"] == [first.counters["instructions"]] * 2
    tasks = {row["name"]: row["instructions"][0] for row in found["task"]}
    assert tasks["kjournald2"] > 10_000 and tasks[""] > tasks["kjournald2"] / 10
    assert "(interrupts)" not in tasks and first.counters["other_instructions"] > 0
