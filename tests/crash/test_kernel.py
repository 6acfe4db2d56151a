"""Crash states of a kernel: recordings made by hand, and a made-up kernel in place of the guest."""

from types import SimpleNamespace

import numpy as np
import pytest

from scmsim import crash
from scmsim.core.errors import EnvironmentProblem, UnknownName, UsageError
from scmsim.core.records import CREATE, FSYNC, OP, RENAME, TRUNCATE, WRITE, Files
from scmsim.crash import kernel
from scmsim.crash.kernel import _check, _outcomes, _walk, _whole
from scmsim.crash.kernel._files import FIRST, Words
from scmsim.fs.recovery.expected import HALVED, FileState
from scmsim.fs.recovery.expected import Files as States
from scmsim.fs.recovery.image import label_of
from scmsim.fs.recovery.model import Guarantee
from scmsim.lab import counts, persistence, systems
from scmsim.lab.persistence import Entry, Name, Recording, Seen, SeenFile
from scmsim.lab.plan import FILE, OPERATION

SIZE_AT, DATA_AT = 0, 4096  # of the made-up file system: one file, its size in the first word, its data behind
NAMES = ["copy_data", "set_size", "make_durable"]
PATH, INODE = "/mnt/f000000", 7
ROOT = SeenFile(1, 4096, True, (), links=2, listed=False)


def recording(entries, ops, tmp_path):
    """A recording of one file that is there at first, with 64 bytes."""
    base = tmp_path / "base"
    base.write_bytes((64).to_bytes(8, "little") + bytes(DATA_AT - 8) + word(FIRST) * 8 + bytes(4032))
    files = np.zeros(1, FILE)
    files["first_size"], files["parent"] = 64, -1
    operations = np.zeros(len(ops), OP)
    for row, (op, offset, length) in zip(operations, ops, strict=True):
        row["op"], row["offset"], row["length"], row["file2"] = op, offset, length, -1
    first = Name(-1, 0, 0)
    return Recording(
        entries, operations, files, [0] * len(ops), [(first, INODE)], [(first, 0)] * len(ops), base, 1.0,
        counts.Symbols(np.array([1 << 63, (1 << 63) + 100, (1 << 63) + 200], np.uint64), NAMES),
    )  # fmt: skip


def word(version):
    return (version << 32).to_bytes(8, "little")


def entry(kind, at=0, data=b"", function="copy_data", lines=0):
    code = (1 << 63) + 100 * NAMES.index(function)
    return Entry(kind, at, len(data) or lines, code, persistence.calls.NO_PARENT, data)


BEGIN, END = entry(persistence.BEGUN), entry(persistence.ENDED)
FENCE = entry(persistence.FENCED, function="make_durable")


def appended(write_back_data=True, order=True):
    """An append of 64 bytes and an fsync: data, fence, size, fence."""
    data = [entry(persistence.STORED, DATA_AT + 64, word(2) * 8)]
    flush = [entry(persistence.WRITTEN_BACK, DATA_AT + 64, lines=1, function="make_durable")] if write_back_data else []
    size = [entry(persistence.NT_STORED, SIZE_AT, (128).to_bytes(8, "little"), "set_size")]
    between = [FENCE] if order else []
    return [BEGIN, *data, END, BEGIN, *flush, *between, *size, FENCE, END]


OPS = [(WRITE, 64, 64), (FSYNC, 0, 0)]


def made_up_kernel(setting, system, states, base, numbers, paths, progress=None):
    """What `persistence.look` does, without a guest: the file is what the device says."""
    device, number, at, raw = bytearray(base.read_bytes()), -1, 0, states.read_bytes()
    found, now = [], None
    while at < len(raw):
        place, length, kind = persistence._PIECE.unpack_from(raw, at)
        data = raw[at + 16 : at + 16 + length]
        at += 16 + -(-length // 8) * 8
        if kind != persistence._LEFT and now is not None:
            found.append(now)
            now = None
        if kind == persistence._STATE:
            number += 1
            now = bytearray(device)
        else:
            (device if kind == persistence._ARRIVED else now)[place : place + length] = data
    if now is not None:
        found.append(now)
    for image in found[numbers.start : numbers.stop]:
        size = int.from_bytes(image[:8], "little")
        words = np.frombuffer(bytes(image[DATA_AT : DATA_AT + size]), "<u8").tolist()
        yield Seen(0, (SeenFile(INODE, size, False, tuple((value, 1) for value in words)), ROOT))


def checked(monkeypatch, tmp_path, entries, ops=OPS, **bounds):
    monkeypatch.setattr(persistence, "look", made_up_kernel)
    setting = type("Setting", (), {"version": lambda self: "6.1"})()
    system = type("System", (), {"name": "made-up"})()
    plan = _check.Plan(**bounds)
    found = recording(entries, ops, tmp_path)
    return _check.Check(setting, system, found, kernel.PROMISES["fsync"], ["/f"], plan, tmp_path, None).run()


def test_an_order_that_holds_has_no_finding(monkeypatch, tmp_path):
    report = checked(monkeypatch, tmp_path, appended())
    assert report.failing_states == 0 and report.failures == []
    # before each fence and after each call: what is stored may be lost or not
    assert report.crash_points == 4 and report.states == report.possible_states == 2 + 2 + 2 + 1


def test_a_missing_write_back_is_found_with_the_line_that_is_lost(monkeypatch, tmp_path):
    report = checked(monkeypatch, tmp_path, appended(write_back_data=False))
    [failure] = report.failures
    assert (failure.operation, failure.call, failure.file) == (1, "fsync /f", "/f")
    [lost] = failure.lost
    assert (lost["line"], lost["operation"], lost["call"]) == (hex(DATA_AT + 64), 0, "write")
    assert lost["functions"][0] == "copy_data"
    assert "zeroes" in failure.wrong


def test_a_fence_of_another_cpu_makes_nothing_durable(monkeypatch, tmp_path):
    """The data's write-back is on CPU 1, and every fence on CPU 0."""
    elsewhere = [one._replace(cpu=1) if one.kind == persistence.WRITTEN_BACK else one for one in appended()]
    [failure] = checked(monkeypatch, tmp_path, elsewhere).failures
    assert failure.operation == 1 and failure.lost[0]["line"] == hex(DATA_AT + 64)
    both = [
        one._replace(cpu=1) if one.kind in (persistence.WRITTEN_BACK, persistence.FENCED) else one for one in appended()
    ]
    [failure] = checked(monkeypatch, tmp_path, both).failures  # the size, stored past the caches by CPU 0, has no fence
    assert failure.operation == 1 and failure.lost[0]["line"] == hex(SIZE_AT)


def test_dropped_write_backs_are_as_missing_ones(monkeypatch, tmp_path):
    planted = checked(monkeypatch, tmp_path, appended(), dropped="make_durable")
    missing = checked(monkeypatch, tmp_path, appended(write_back_data=False))
    assert planted.failures == missing.failures and planted.failing_states == missing.failing_states


def test_a_dropped_non_temporal_store_waits_in_the_cache(monkeypatch, tmp_path):
    report = checked(monkeypatch, tmp_path, appended(), dropped="set_size")
    [failure] = report.failures
    assert failure.operation == 1 and "64 bytes, expected 128" in failure.wrong


def test_a_function_that_writes_nothing_back_is_refused(tmp_path):
    found = recording(appended(), OPS, tmp_path)
    _walk.check_dropped(found, "make_durable")
    with pytest.raises(UnknownName, match="make_durable"):
        _walk.check_dropped(found, "make_durables")


def test_several_lost_lines_are_tried_alone(monkeypatch, tmp_path):
    """Of many lines that are lost in a sample, one that suffices is told."""
    data = [entry(persistence.STORED, DATA_AT + 128 + 64 * k, b"\0" * 8) for k in range(12)]
    entries = [BEGIN, *data, entry(persistence.STORED, DATA_AT + 64, word(2) * 8), END, BEGIN]
    entries += [entry(persistence.NT_STORED, SIZE_AT, (128).to_bytes(8, "little"), "set_size"), FENCE, END]
    [failure] = checked(monkeypatch, tmp_path, entries, lines=1, samples=4, seed=3).failures
    assert [one["line"] for one in failure.lost] == [hex(DATA_AT + 64)]


def test_a_locked_instruction_is_a_fence_by_the_rules_of_x86(monkeypatch, tmp_path):
    locked = entry(persistence.LOCKED_FENCE)
    entries = [locked if one is FENCE else one for one in appended()]
    assert not checked(monkeypatch, tmp_path, entries).failures
    assert checked(monkeypatch, tmp_path, entries, locked=False).failures


FILE_A, DIRECTORY = SeenFile(INODE, 8, False, ()), SeenFile(9, 4096, True, (), links=2)
GONE = SeenFile(0, 0, False, (), links=0, listed=False, error=2)


@pytest.mark.parametrize(
    ("seen", "number", "said"),
    [
        ([FILE_A, GONE], None, ""),
        ([FILE_A._replace(links=2)] * 2, None, ""),
        ([FILE_A._replace(links=2), GONE], 0, "has a link count of 2, but 1 names"),
        ([FILE_A, GONE._replace(listed=True, error=116)], 1, "is listed in its directory but cannot be reached: stale"),
        ([FILE_A._replace(listed=False), GONE], 0, "can be opened, but its directory does not list it"),
        ([DIRECTORY._replace(error=5), FILE_A], 0, "cannot be listed: input/output error"),
        ([DIRECTORY._replace(use=39), FILE_A._replace(use=1)], 1, "cannot be removed: operation not permitted"),
        ([DIRECTORY._replace(use=28), FILE_A], 0, "does not let a file be made and removed in it"),
    ],
)
def test_a_file_system_that_is_not_whole_is_found(seen, number, said):
    problem = _whole.broken([*seen, ROOT])
    if number is None:
        assert problem is None
    else:
        assert problem[0] == number and problem[1].text.startswith(said)


def test_a_root_in_which_no_file_can_be_made_is_found():
    [number, wrong] = _whole.broken([FILE_A, ROOT._replace(use=12)])
    assert number == 1 and wrong.kind == _whole.UNUSABLE


def test_a_wrong_link_count_is_a_finding(monkeypatch, tmp_path):
    def two_links(*given):
        for seen in made_up_kernel(*given):
            yield seen._replace(files=(seen.files[0]._replace(links=2), ROOT))

    monkeypatch.setattr(persistence, "look", two_links)
    system, setting = SimpleNamespace(name="made-up"), SimpleNamespace(version=lambda: "6.1")
    found = recording(appended(), OPS, tmp_path)
    work = _check.Check(setting, system, found, kernel.PROMISES["fsync"], ["/f"], _check.Plan(), tmp_path, None)
    [failure, _] = work.run().failures
    assert (failure.file, failure.kind) == ("/f", _whole.COUNT)


def test_a_rename_that_only_removed_the_old_target_is_half_done():
    """/f is renamed over /g: a crash left neither the old /g nor the new one."""
    work = _check.Check.__new__(_check.Check)
    work.guarantee, work.paths = kernel.PROMISES["atomic"], ["/f", "/g"]
    before, after = States(), States()
    before.now = {0: FileState(frozenset({FIRST})), 1: FileState(frozenset({FIRST}))}
    after.now = {0: FileState(frozenset({FIRST + 1})), 1: FileState()}
    walk = SimpleNamespace(before=before, files=after)
    assert work._parted(walk, {0: (-1,), 1: (-1,)}) is None and work._parted(walk, {0: (0,), 1: ()}) is None
    assert work._parted(walk, {0: (-1,), 1: ()})[1].kind == HALVED
    work.guarantee = kernel.PROMISES["call"]
    assert work._parted(walk, {0: (-1,), 1: ()}) is None


def test_states_are_thinned_by_the_seed(monkeypatch, tmp_path):
    report = checked(monkeypatch, tmp_path, appended(write_back_data=False), states=3, seed=5)
    assert report.states == 3 and report.sampled_points > 0
    again = checked(monkeypatch, tmp_path, appended(write_back_data=False), states=3, seed=5)
    again.seconds = report.seconds
    assert again == report


def test_words_written_in_part_are_known_by_their_content():
    words, before = Words(3), FileState(frozenset({1}), 64, {0: label_of(1, 0)})
    op = type("Op", (), {"op": WRITE, "offset": 12, "length": 8, "file": 0})()
    words.take(op, 2, before)
    old, new = label_of(1, 0).to_bytes(8, "little"), label_of(2, 0).to_bytes(8, "little")
    after = FileState(
        frozenset({1}), 64, {0: np.array([label_of(1, 0)] + [label_of(2, 0)] * 2 + [label_of(1, 0)] * 509)}
    )
    read = np.frombuffer(old + old[:4] + new[4:] + new[:4] + old[4:] + old, "<u8")
    assert words.normal(0, read, 32, [before, after]).tolist() == [label_of(v, 0) for v in (1, 2, 2, 1)]
    assert words.normal(0, np.array([0x5A5A5A5A5A5A5A5A], "<u8"), 8, [before]).tolist() == [-1]


def test_a_plan_s_operations_have_the_names_of_each_call(tmp_path):
    """Truncates and renames are followed by `new_size` and `replaced`, which the operations of a plan lack."""
    planned = np.zeros(2, OPERATION)
    planned["op"], planned["offset"], planned["file2"], planned["cpu"] = [TRUNCATE, RENAME], [8, -1], -1, 1
    found = recording([BEGIN, END] * 2, [(TRUNCATE, 0, 0)] * 2, tmp_path)
    found.operations = persistence._as_of_a_trace(planned)
    walk = _walk.Walk(found, kernel.PROMISES["fsync"], True)
    assert list(walk.points()) == [] and walk.files.of(0).size == 8 and walk.files.of(0).names == {FIRST + 2}


def test_an_inode_that_another_file_has_now(monkeypatch, tmp_path):
    """A name whose inode was freed and given to another file of the same name belongs to whom its content says."""
    found = recording([], [(CREATE, 0, 0), (RENAME, 0, 0)], tmp_path)
    found.operations["file"] = 1
    found.names = [(Name(-1, 1, 0), INODE), (Name(-1, 0, 0), INODE)]
    names = _check.Names(found)
    walk = _walk.Walk(found, kernel.PROMISES["fsync"], True)
    seen = SeenFile(INODE, 8, False, ((2 << 32, 1),))
    assert (
        names.shared(0) and names.found(1, ((PATH, seen),), walk) == {3} and not names.found(0, ((PATH, seen),), walk)
    )


def test_states_of_files_beside_those_of_the_model():
    """ext4-dax's model shows an append as lost or as there; a kernel that shows zeroes in its place differs in that page."""
    rows = np.zeros(3, OP)
    rows["op"], rows["length"] = [CREATE, WRITE, FSYNC], [0, 4096, 0]
    rows["file2"] = -1

    class Trace:
        files, header = Files(["/f"], np.array([-1]), np.array([False])), {}

        def batches(self, chunk=1 << 14):
            yield rows.view(np.recarray)

    whole = _outcomes.Outcome((0,), 4096, ((1,),))
    torn = _outcomes.Outcome((0,), 4096, ((_outcomes.ZEROES, 2),))
    shown = {(2, 0): {_outcomes.Outcome((), 0, ()), whole, torn}}
    [found] = _outcomes.against_model(shown, Trace(), "ext4-dax", {}, 6, 64, 0)
    assert found.both == 3 and [_outcomes.text(part) for part in found.kernel_only] == [
        "page 0 of zeroes and 2, 4,096 bytes"
    ]
    assert not found.model_only


def test_what_is_promised_is_said_or_refused():
    assert kernel.guarantee_of("ext4-dax").at_return is False
    assert kernel.guarantee_of("my-fs", "atomic").atomic
    with pytest.raises(UsageError, match="--promise"):
        kernel.guarantee_of("my-fs")


def test_each_checked_model_says_what_it_promises():
    found = {fs: kernel.guarantee_of(fs) for fs in crash._checked(crash.models())}
    assert all(isinstance(guarantee, Guarantee) for guarantee in found.values())
    assert found["nova-cow"].atomic and not found["nova-inplace"].atomic and found["winefs"].at_return
    assert not found["winefs-relaxed"].atomic


@pytest.mark.parametrize("fs", ["nova-cow", "nova-inplace", "pmfs-4k", "winefs", "winefs-relaxed"])
def test_what_a_crash_left_is_mounted_without_a_format(fs, tmp_path, monkeypatch):
    system = systems.load()[fs]
    assert "init" in system.mount_options(fresh=True).split(",") and system.modules
    mounts = []

    def packed(plan, setup):
        mounts.extend(words[3] for words in setup if words[0] == "states")
        raise EnvironmentProblem("no guest here")

    monkeypatch.setattr(persistence.machine, "prepared", lambda *_, **__: ([], b""))
    monkeypatch.setattr(persistence.Plan, "packed", packed)
    setting = SimpleNamespace(kernel=None)
    with pytest.raises(EnvironmentProblem):
        list(persistence.look(setting, system, tmp_path, tmp_path, range(1), []))
    assert mounts == [{"nova-cow": "data_cow", "winefs": "strict"}.get(fs, "")]


def test_a_recovery_thread_that_dies_ends_the_guest(tmp_path, monkeypatch):
    """Without oops=panic, the mount waits for the thread, and the state takes two minutes."""
    given = []

    def boot(folder, setting, *_):
        given.append(setting.words)
        raise EnvironmentProblem("no guest here")

    monkeypatch.setattr(persistence.machine, "prepared", lambda *_, **__: ([], b""))
    monkeypatch.setattr(persistence.machine, "boot", boot)
    monkeypatch.setattr(persistence.cache, "plugin", lambda *_: tmp_path)
    setting = persistence.machine.Setting(SimpleNamespace(api=1), None, words=("quiet",))
    with pytest.raises(EnvironmentProblem):
        list(persistence.look(setting, systems.load()["nova-cow"], tmp_path, tmp_path, range(1), []))
    assert given == [("quiet", "oops=panic")]


def test_options_that_format_at_each_mount_are_refused():
    system = systems.System("mine", "NOVA", options="init,data_cow")
    with pytest.raises(UsageError, match="'mine' has 'init'.*format_options"):
        kernel.check(None, system, None, promise="call")
