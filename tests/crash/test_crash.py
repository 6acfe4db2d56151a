"""Crash checks: what holds is found to hold, what is broken is found broken, and known flaws of real file systems are found."""

import json
import random
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from scmsim import cli, crash
from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.core.records import CREATE, FENCE, FLUSH, FSYNC, OP, RENAME, STORE, SYNC, WRITE, Files
from scmsim.fs.recovery.expected import DATA
from scmsim.fs.recovery.observe import prologue
from scmsim.trace import TraceWriter
from tests.crash.histories import history
from tests.fs import drive

MIB = 1 << 20
SYSTEMS = [
    ("nova-cow", {}),
    ("nova-inplace", {}),
    ("nova-fast16", {}),
    ("pmfs-4k", {}),
    ("pmfs-4k", {"data_path": "cow"}),
    ("pmfs-4k", {"version": "original"}),
    ("pmfs-2m", {"data_path": "cow"}),
    ("ext4-dax", {}),
    ("vsm", {}),
    ("winefs", {}),
    ("scmfs", {}),
    ("scmfs-lp", {}),
    ("xfs", {}),
    ("xfs-dax", {}),
    ("ext4", {}),
    ("ext4-linux4", {}),
    ("ext4-dax-linux4", {}),
]
IDS = [" ".join([fs, *params.values()]) for fs, params in SYSTEMS]
SYSTEMS = [
    pytest.param(
        *system, id=name, marks=[pytest.mark.skipif(system[0] not in registry.names("fs"), reason="no such model")]
    )
    for system, name in zip(SYSTEMS, IDS, strict=True)
]
ROWS = [
    ("create", 1, 0, 0, 0), ("write", 1, 0, 8192), ("write", 1, 512, 1024), ("fsync", 1), ("truncate", 1, 4096),
    ("write", 1, 4096, 40_000), ("fsync", 1), ("create", 2, 0, 0, 0), ("write", 2, 0, 4096), ("unlink", 1, 0, 0, 0),
    ("fallocate", 2, 8192, 8192), ("write", 2, 10_000, 80), ("fsync", 2),
    ("write", 2, 800, 12_000), ("fsync", 2),
]  # fmt: skip


def check(fs, trace, params=None, change=None, **more):
    """Check a list of rows, whose files are new, or a source."""
    source = drive.source(drive.files(0, -1, -1, -1, dirs=[0]), drive.ops(*trace)) if isinstance(trace, list) else trace
    given = {"capacity": "256MiB", **(params or {})}
    return crash.check(source, fs, params=given, change=change, **{"samples": 24, **more})


def without(code, site, nth=None):
    """Leave out the events of a mechanism, or the `nth` of each call."""

    def change(events):
        hits = [i for i, event in enumerate(events) if (event.code, event.site) == (code, site)]
        gone = set(hits if nth is None else hits[nth : nth + 1])
        return [event for i, event in enumerate(events) if i not in gone]

    return change


RANDOM = random.Random(6)
ENDS = [(3, 64), (0, 67), (4, 64), (3, 128), (3, 4096), (4090, 12), (61, 6), (3, 4), (1, 64)]
ENDS += [(at, 64 * lines) for at, lines in zip(range(1, 64, 9), range(1, 8), strict=True)]
ENDS += [(RANDOM.randrange(4096), RANDOM.randrange(1, 9000)) for _ in range(12)]


@pytest.mark.parametrize(("fs", "params"), SYSTEMS)
def test_what_is_promised_holds(fs, params):
    """Where ragged ends stay in the cache (below), only for writes aligned to 8 bytes."""
    ragged = not (fs.startswith(("nova", "winefs")) or fs == "ext4-dax-linux4" or "original" in params.values())
    report = check(fs, history(4, 24, 1 if ragged else 8), params)
    assert report.failures == [] and report.failing_states == 0
    assert report.operations == 24 and report.states > 100 and report.possible_states >= report.states


BROKEN = {
    "nova-cow": [
        (FLUSH, "log commit"),
        (FLUSH, "journal"),
        (FENCE, "journal"),
        (FLUSH, "log append"),
        (FLUSH, "partial block"),
    ],
    "nova-inplace": [(FLUSH, "log commit"), (FLUSH, "journal"), (FENCE, "journal"), (FLUSH, "log append")],
    "nova-fast16": [(FLUSH, "log commit"), (FLUSH, "journal"), (FENCE, "journal"), (FLUSH, "partial block")],
    "pmfs-4k": [
        (FLUSH, "data copy"),
        (FENCE, "journal"),
        (FLUSH, "journal"),
        (FENCE, "inode"),
        (FLUSH, "truncate list"),
    ],
    "pmfs-4k cow": [(FLUSH, "cow copy"), (FLUSH, "data copy"), (FENCE, "journal"), (FLUSH, "journal")],
    "pmfs-4k original": [(FENCE, "journal"), (FLUSH, "journal"), (FENCE, "inode")],
    "pmfs-2m cow": [(FLUSH, "cow copy"), (FENCE, "journal")],
    "ext4-dax": [(FENCE, "journal")],
    "vsm": [
        (FENCE, "mcow data"),
        (FLUSH, "mcow log"),
        (FLUSH, "mcow commit"),
        (FLUSH, "mcow swap"),
        (FLUSH, "mcow data"),
    ],
    "xfs": [(FENCE, "log")],
    "xfs-dax": [(FENCE, "log")],
    **dict.fromkeys(["ext4", "ext4-linux4", "ext4-dax-linux4"], [(FENCE, "journal")]),
    "winefs": [(FENCE, "journal"), (FLUSH, "journal"), (FENCE, "inode"), (FLUSH, "truncate list")],
    **dict.fromkeys(
        ["scmfs", "scmfs-lp"],
        [(code, site) for site in ("inode", "page table", "directory") for code in (FLUSH, FENCE)],
    ),
}


@pytest.mark.parametrize(("fs", "params"), SYSTEMS)
def test_a_missing_flush_or_fence_is_found(fs, params):
    broken = BROKEN[" ".join([fs, *params.values()])]
    assert broken
    for code, site in broken:
        report = check(fs, ROWS, params, without(code, site), samples=40, failures=1)
        assert report.failing_states, f"without the {'fence' if code == FENCE else 'flush'} of {site!r}"
        assert report.failures[0].lost, "something must have been lost"
        assert report.failures[0].wrong and report.failures[0].file.startswith("/d/")


@pytest.mark.parametrize(
    ("fs", "params", "pages"), [("pmfs-4k", {"version": "original"}, True), ("winefs", {}, False)], ids=["pmfs", "winefs"]
)  # fmt: skip
@pytest.mark.parametrize(("offset", "length"), ENDS)
def test_pmfs_leaves_the_last_line_of_some_writes_in_the_cache(fs, params, pages, offset, length):
    """Chipmunk's PMFS_BUG4 and WINEFS_BUG3: cached bytes at the end, whose line is written back by the start's offset in a line."""
    end = offset + length
    start = max(offset, (end - 1) // 4096 * 4096) if pages else offset  # PMFS copies page by page
    head = -start % 8 if end - start >= 8 else 0
    cached = (end - start - head) % 4 if (start + head) % 4 == 0 else end - start
    first_line = start % 8 != 0 and (end - 1) // 64 == start // 64  # is written back in any case
    lost = cached != 0 and not (end % 8 != 0 and start % 64 != end % 64) and not first_line
    report = check(fs, [("create", 1, 0, 0, 0), ("write", 1, offset, length)], params, first=1)
    assert bool(report.failures) == lost
    assert all("pmfs_flush_edge_cachelines" in failure.blame for failure in report.failures)


def test_a_commit_before_the_fence_of_the_data_is_found():
    """NOVA: the data, its entry and the tail that commits them are stored in one epoch."""

    def early(events):
        commit = next((i for i, e in enumerate(events) if e.site == "log commit" and e.code == STORE), 0)
        copies = any(e.site == "data copy" for e in events)
        return [e for i, e in enumerate(events) if not (copies and i < commit and e.code == FENCE)]

    report = check("nova-cow", [*ROWS[:2], ("write", 1, 0, 4096)], first=2, change=early)
    failure = report.failures[0]
    assert len(failure.lost) == 1 and failure.before == "the fence of 'log commit'"
    assert "data copy" in failure.lost[0] or "is not completely durable" in failure.wrong


def test_ext4_needs_both_fences_of_a_commit():
    rows = [("create", 1, 0, 0, 0), ("write", 1, 0, 4096), ("fsync", 1)]
    first, last = (check("ext4-dax", rows, change=without(FENCE, "journal", nth)) for nth in (0, 1))
    assert "not all blocks of its transaction" in first.failures[0].wrong
    assert "name" in last.failures[0].wrong and last.failures[0].before == "the next call"


def test_nova_loses_the_unaligned_ends_of_a_write():
    """The copy stores the last bytes of an unaligned write through the cache, and nothing writes them back (fs/nova)."""
    report = check("nova-cow", [("create", 1, 0, 0, 0), ("write", 1, 0, 100)])
    failure = report.failures[0]
    assert report.failing_operations == 1 and len(failure.lost) == 1 and "data copy" in failure.lost[0]
    assert failure.call == "write /d/file-1 0+100" and "byte 96" in failure.wrong


@pytest.mark.parametrize(("copy", "length", "found"), [("nocache", 100, 1), ("nocache", 104, 0), ("cached", 4096, 1)])
def test_linux_4_leaves_data_in_the_caches_at_an_fsync(copy, length, found):
    """dax_io copies past the caches from 4.3 on, except unaligned ends (less than 8 bytes); before, everything is in them."""
    report = check("ext4-dax-linux4", [("create", 1, 0, 0, 0), ("write", 1, 0, length), ("fsync", 1)], {"copy": copy})
    assert report.failing_operations == found == len(report.failures)
    assert all("fs/dax.c of Linux 4" in failure.blame for failure in report.failures)


@pytest.mark.parametrize("fs", ["nova-cow", "nova-inplace", "nova-fast16"])
def test_novas_rename_is_not_atomic(fs):
    """The old name is taken back in place before the new one is committed, as bug studies found of in-place updates."""
    report = check(fs, [("create", 1, 0, 0, 0), ("write", 1, 0, 4096), ("rename", 1, 0, 0, -1)])
    assert report.failing_operations == 1 and "has no name" in report.failures[0].wrong


@pytest.mark.parametrize("fs", ["pmfs-4k", "ext4-dax", "xfs", "xfs-dax", "winefs", "ext4"])
def test_other_names_are_atomic(fs):
    rows = [
        ("create", 1, 0, 0, 0),
        ("create", 2, 0, 0, 0),
        ("write", 2, 0, 8192),
        ("rename", 1),
        ("rename", 1, 0, 0, 2),
    ]
    rows += [
        ("link", 1, 0, 0, 0),
        ("fsync", 1),
        ("unlink", 1, 0, 0, 0),
        ("mkdir", 3, 0, 0, 0),
        ("rmdir", 3, 0, 0, 0),
        ("sync", 1),
    ]
    assert check(fs, rows).failures == []


def test_a_long_log_and_its_garbage_collection():
    rows = [("create", 1, 0, 0, 0), *[("write", 1, i * 7 % 20 * 4096, 4096) for i in range(400)]]
    assert check("nova-cow", rows, samples=4, first=60).failures == []


@pytest.mark.skipif("vsm" not in registry.names("fs"), reason="no such model")
def test_the_worked_example_of_mcow():
    """An 8 MiB file, 4 MiB overwritten at 3 MiB: the log holds a slot and two halves of entries, and every crash keeps the file."""
    from scmsim.fs.vsm import crash as vsm_crash

    kept = []

    class Spy(vsm_crash.RecoveryModel):
        def __init__(self, *given):
            super().__init__(*given)
            kept.append(self)

    rows = [("create", 1, 0, 0, 0), ("write", 1, 0, 8 * MIB), ("write", 1, 3 * MIB, 4 * MIB)]
    original, vsm_crash.RecoveryModel = vsm_crash.RecoveryModel, Spy
    try:
        report = check("vsm", rows, first=2)
    finally:
        vsm_crash.RecoveryModel = original
    assert report.operations == 1 and report.failures == [] and report.states > 100
    (length, replacements), recovery = kept[0].logs[-1], kept[0]
    slots = [word[2] for word, _ in replacements if word[0] == "slot"]
    entries = {word[1] for word, _ in replacements if word[0] == "pte"}
    assert slots == [2] and length >= 56 + 16 * 515 and (length - 56) % 16 == 0
    second, fourth = recovery.known[1][1], recovery.known[1][3]
    assert entries >= {second + i for i in range(256, 512)} | {fourth + i for i in range(256)} and len(entries) == 1024


def test_models_without_a_guarantee_say_so():
    for fs in ("tmpfs", "ramfs", "ext2-ramdisk"):
        with pytest.raises(UsageError, match=f"no crash guarantee is modelled for '{fs}'.*in DRAM.*choose from"):
            crash.check(drive.source(drive.files(0), drive.ops()), fs)
    with pytest.raises(UsageError, match="did you mean 'nova-cow'"):
        crash.check(drive.source(drive.files(0), drive.ops()), "nova-cwo")


@pytest.mark.parametrize(
    "more", [{"lines": -1}, {"samples": 1}, {"first": 5, "stop": 5}, {"params": {"capacity": "x"}}]
)
def test_bad_bounds_are_refused(more):
    with pytest.raises(UsageError):
        check("nova-cow", ROWS, **more)


def test_the_same_seed_gives_the_same_report():
    reports = [check("pmfs-4k", history(3, 12, 1), seed=seed).to_dict() for seed in (1, 1)]
    assert reports[0] == reports[1]


@pytest.fixture
def stored(tmp_path):
    path = tmp_path / "t.parquet"
    with TraceWriter(path, {"tool": "test"}) as writer:
        writer.append(drive.ops(("create", 1, 0, 0, 0), ("write", 1, 0, 4096), ("write", 1, 0, 100)))
        writer.close(drive.files(0, -1, dirs=[0]))
    return str(path)


def test_the_command(stored):
    run = CliRunner()
    bad = run.invoke(cli.main, ["crash", stored, "--fs", "nova-cow", "--set", "capacity=64MiB"], standalone_mode=False)
    assert bad.return_value == 1 and "call 2: write /d/file-1 0+100" in bad.output and "lost: 0x" in bad.output
    assert "to blame: the file system: its copy stores a write's unaligned ends" in bad.output
    good = run.invoke(cli.main, ["crash", stored, "--fs", "nova-cow", "--ops", "0-1", "--json"], standalone_mode=False)
    table = json.loads(good.stdout)
    assert good.return_value == 0 and table["operations"] == 2 and table["failures"] == []
    with pytest.raises(UsageError, match="--ops '2-1'"):
        run.invoke(
            cli.main,
            ["crash", stored, "--fs", "nova-cow", "--ops", "2-1"],
            standalone_mode=False,
            catch_exceptions=False,
        )


def test_several_file_systems_at_once(stored):
    args = ["crash", stored, "--ops", "0-1", "--set", "capacity=64MiB", "--set", "pmfs-4k.data_path=cow"]
    done = CliRunner().invoke(cli.main, [*args, "--fs", "nova-cow,pmfs-4k", "--json"], standalone_mode=False)
    found = json.loads(done.stdout)
    assert done.return_value == 0 and [one["fs"] for one in found] == ["nova-cow", "pmfs-4k"]
    assert [one["operations"] for one in found] == [2, 2] and "an overwrite too" in found[1]["claim"]
    bad = CliRunner().invoke(cli.main, [*args, "--fs", "nova-cow"])
    assert bad.exit_code == 2 and "no file system in this check named 'pmfs-4k'" in bad.stderr
    assert CliRunner().invoke(cli.main, [*args, "--fs", "nova-cow,tmpfs"]).exit_code == 2


@pytest.mark.parametrize(
    ("fs", "op", "offset", "length", "lost", "blamed"),
    [
        ("nova", WRITE, 0, 100, ["0x40 (data copy)"], "the file system: its copy stores a write's unaligned ends"),
        ("nova", WRITE, 0, 4096, ["0x40 (data copy)"], "not known: "),
        ("nova", WRITE, 0, 100, ["0x40 (log append)"], "not known: "),
        ("nova", RENAME, 0, 0, [], "the file system: it removes the old name in place"),
        ("winefs", WRITE, 0, 8, ["0x40 (data copy)"], "the file system: inside a block"),
        ("splitfs", FSYNC, 0, 0, ["0x40 (journal)"], "the file system: an fsync relinks"),
        ("pmfs", WRITE, 0, 100, ["0x40 (data copy)"], "not known: "),
        ("pmfs", WRITE, 3, 64, ["0x40 (data copy)"], "the file system: if a write begins and ends"),
        ("vsm", WRITE, 0, 100, ["0x40 (mcow log)"], "the model, as far as is known"),
        ("scmfs", RENAME, 0, 0, [], "the model, as far as is known"),
    ],
)
def test_who_is_to_blame(fs, op, offset, length, lost, blamed):
    kind = registry.load("crash", fs).RecoveryModel
    call = SimpleNamespace(op=op, offset=offset, length=length)
    assert kind.to_blame(SimpleNamespace(flaws=kind.flaws, blame=kind.blame), call, lost, DATA).startswith(blamed)


def test_a_freed_block_is_not_given_to_another_file_before_the_commit():
    rows = [("create", 1, 0, 0, 0), ("write", 1, 0, 4096), ("fsync", 1), ("unlink", 1, 0, 0, 0)]
    report = check("ext4-dax", [*rows, ("create", 2, 0, 0, 0), ("write", 2, 0, 4096), ("fsync", 2)])
    assert report.unknown_pages == 0 and not report.failures


@pytest.mark.parametrize("fs", ["pmfs-4k", "vsm"])
@pytest.mark.parametrize("op", ["create", "mkdir"])
def test_a_name_of_15_characters_is_no_dot_entry(fs, op):
    """Its record is as long as what a new directory of PMFS begins with."""
    side = drive.files(0, -1, -1, dirs=[0] if op == "create" else [0, 2], names=["/d", "/d/a", "/d/load.db-journal"])
    report = crash.check(drive.source(side, drive.ops(("create", 1, 0, 0, 0), (op, 2, 0, 0, 0), ("fsync", 2))), fs)
    assert report.operations == 3 and not report.failures


def test_progress_counts_the_operations_that_were_asked_for():
    seen = []
    check(*("nova-cow", ROWS), first=2, stop=6, samples=4, progress=lambda *step: seen.append(step))
    assert seen == [("nova-cow", done, 4) for done in range(5)]


def test_a_file_that_a_trace_only_replaces_was_there_before_it():
    rows = np.zeros(2, OP)
    rows["op"], rows["file2"] = [CREATE, RENAME], [-1, 1]

    class Trace:
        files, header, rows = Files(["/new", "/old"], np.array([-1, 100]), np.zeros(2, bool)), {}, 2

        def batches(self, chunk=1 << 14):
            yield rows.view(np.recarray)

    _, before = prologue(Trace())
    assert [(int(op.op), int(op.file), int(op.length)) for op in before] == [
        (CREATE, 1, 0),
        (WRITE, 1, 100),
        (SYNC, -1, 0),
    ]
