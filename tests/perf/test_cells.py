"""Finished cells and the directories of the targets: atomic, locked, and nothing that is not ours."""

import json
import os
import pathlib
import subprocess
import types

import pytest

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.perf import cells, targets
from scmsim.perf.matrix import Cell, Target
from tests.perf.helper import matrix


def test_a_cell_is_there_whole_or_not_at_all(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = matrix(tmp_path)
    small = whole.identity()
    first, second, *_ = whole.cells()
    with cells.opened(tmp_path / "out", small) as store:
        cells.save(store, first, {"counters": {"a": 1}})
        assert store.finished() == {first.key} and cells.load(store, first.key)["counters"] == {"a": 1}

        def fail(source: object, target: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", fail)
            with pytest.raises(EnvironmentProblem, match="no space left on device; free some space"):
                cells.save(store, second, {})
        assert store.finished() == {first.key} and len(list(store.pieces.iterdir())) == 1
        (store.pieces / f"{second.key}.json").write_text("{")
        with pytest.raises(UsageError, match="is not a finished cell"):
            cells.load(store, second.key)
        (store.pieces / f"{second.key}.json").write_text(json.dumps({"cell": first._asdict()}))
        with pytest.raises(UsageError, match="the record is of another cell"):
            cells.load(store, second.key)


def test_one_run_at_a_time_and_one_matrix_a_folder(tmp_path: pathlib.Path) -> None:
    small = matrix(tmp_path).identity()
    with cells.opened(tmp_path / "out", small):
        with pytest.raises(EnvironmentProblem, match="another run uses"):
            with cells.opened(tmp_path / "out", small):
                pass
    with cells.opened(tmp_path / "out", small):
        pass
    other = matrix(tmp_path, repeats=3, seed=9).identity()
    with pytest.raises(UsageError, match=r"another matrix \(repeats, seed differ\)"):
        with cells.opened(tmp_path / "out", other):
            pass


def test_output_folders_that_are_refused(tmp_path: pathlib.Path) -> None:
    small = matrix(tmp_path).identity()
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "matrix").write_text('{"format": 99}')
    for name, why in [
        ("file", "is not a folder"),
        ("full", "is not empty"),
        ("none/out", "no folder"),
        ("old", "another version"),
    ]:
        with pytest.raises(UsageError, match=why):
            cells.check(tmp_path / name, small)


def test_room_for_the_results_is_asked_for_before_the_start(tmp_path: pathlib.Path) -> None:
    cells.check_space(tmp_path / "new", 1)
    with pytest.raises(EnvironmentProblem, match="MiB free, the results need 1,099,511,627,776 MiB; give -o"):
        cells.check_space(tmp_path, 1 << 60)


def test_little_room_is_said_in_kib(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: types.SimpleNamespace(f_bavail=2, f_frsize=1024))
    with pytest.raises(EnvironmentProblem, match="has 2 KiB free, the results need 313 KiB; give -o"):
        cells.check_space(tmp_path, 320_000)


def test_leftovers_of_a_killed_run_are_swept(tmp_path: pathlib.Path) -> None:
    small = matrix(tmp_path).identity()
    with cells.opened(tmp_path / "out", small) as store:
        (store.pieces / ".123.x.json").write_text("")
        (store.path / "scmsim-perf-abc").mkdir()
    with cells.opened(tmp_path / "out", small) as store:
        assert sorted(path.name for path in store.path.iterdir()) == ["cells", "lock", "matrix"]
        assert not list(store.pieces.iterdir())


def test_a_target_is_marked_and_left_as_it_was(tmp_path: pathlib.Path) -> None:
    (tmp_path / "here").mkdir()
    both = [Target("here", str(tmp_path / "here")), Target("made", str(tmp_path / "made"), create=True)]
    with targets.opened(both, 1 << 20) as places:
        for place in places.values():
            assert os.listdir(place.target.path) == [targets.MARKER]
            pathlib.Path(place.data).write_text("x")
            place.check()
    assert os.listdir(tmp_path / "here") == [] and not (tmp_path / "made").exists()


def test_what_a_killed_run_left_in_a_target_is_removed(tmp_path: pathlib.Path) -> None:
    (tmp_path / targets.MARKER).write_text("")
    (tmp_path / targets.DATA).write_text("left")
    with targets.opened([Target("x", str(tmp_path))], 0) as places:
        assert not os.path.exists(places["x"].data)
    assert os.listdir(tmp_path) == []


def test_a_directory_is_removed_only_by_who_made_it(tmp_path: pathlib.Path) -> None:
    target = Target("x", str(tmp_path / "x"), create=True)
    for there in (True, False):
        if there:
            (tmp_path / "x").mkdir()
        if os.fork() == 0:  # a run that is killed leaves the directory and its marker
            with targets.opened([target], 0):
                os._exit(0)
        os.wait()
        assert os.listdir(tmp_path / "x") == [targets.MARKER]
        with targets.opened([target], 0):
            pass
        assert (tmp_path / "x").exists() == there
        if there:
            (tmp_path / "x").rmdir()


def test_targets_that_are_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "thesis.tex").write_text("precious")
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange" / targets.DATA).write_text("whose?")
    for name, why in [
        ("file", "is not a directory"),
        ("none", "no directory"),
        ("used", "is not empty, it holds 'thesis.tex'"),
        ("strange", "without the harness's marker"),
    ]:
        with pytest.raises(UsageError, match=why):
            targets.check(Target("x", str(tmp_path / name)), 0)
    devices = [f"/dev/{name}" for name in os.listdir("/sys/class/block") if os.path.exists(f"/dev/{name}")]
    for device in devices[:1]:
        with pytest.raises(UsageError, match="is a block device, and only directories are written to"):
            targets.check(Target("x", device), 0, allow_other_files=True)
    with pytest.raises(EnvironmentProblem, match="MiB free, the largest file needs"):
        targets.check(Target("x", str(tmp_path / "used")), 1 << 60, allow_other_files=True)


def test_other_files_are_kept_where_they_are_allowed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with targets.opened([Target("x", str(tmp_path))], 0, allow_other_files=True) as places:
        pathlib.Path(places["x"].data).write_text("x")
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_a_link_in_place_of_our_file_is_not_followed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "t" / targets.MARKER).symlink_to(tmp_path / "precious")
    with pytest.raises(EnvironmentProblem):
        with targets.opened([Target("x", str(tmp_path / "t"))], 0):
            pass
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_directory_that_was_exchanged_is_noticed_and_not_cleaned(tmp_path: pathlib.Path) -> None:
    place = tmp_path / "mnt"
    place.mkdir()
    with targets.opened([Target("x", str(place))], 0) as places:
        place.rename(tmp_path / "elsewhere")
        with pytest.raises(EnvironmentProblem, match="has vanished"):
            places["x"].check()
        place.mkdir()
        (place / targets.DATA).write_text("another's")
        with pytest.raises(EnvironmentProblem, match="is no longer the directory that it was"):
            places["x"].check()
    assert (place / targets.DATA).read_text() == "another's"


def test_a_read_only_file_system(tmp_path: pathlib.Path) -> None:
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(tmp_path)], capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        with pytest.raises(EnvironmentProblem, match="is read-only; 'mount -o remount,rw' it"):
            targets.check(Target("x", str(tmp_path)), 0)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_run_that_fails_before_its_first_cell_leaves_no_folder(tmp_path: pathlib.Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(EnvironmentProblem), cells.opened(out, {"a": 1}):
        raise EnvironmentProblem("read-only")
    assert not out.exists()
    out.mkdir()
    with pytest.raises(EnvironmentProblem), cells.opened(out, {"a": 1}):
        raise EnvironmentProblem("read-only")
    assert out.exists()  # not ours to remove


def test_a_run_that_fails_later_keeps_its_cells(tmp_path: pathlib.Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(EnvironmentProblem), cells.opened(out, {"a": 1}) as store:
        cells.save(store, Cell("ext4", "write", 4096, 4096, 1), {})
        raise EnvironmentProblem("unmounted")
    assert len(list((out / "cells").iterdir())) == 1
