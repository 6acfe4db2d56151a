"""Folders that others can write to, and how they are told from the user's."""

import os
from pathlib import Path

import pytest

from scmsim.core import private


def test_a_folder_of_the_user_is_trusted_even_in_a_sticky_one(tmp_path: Path) -> None:
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    private.make(shared / "a" / "b")
    assert (shared / "a").stat().st_mode & 0o777 == 0o700 == (shared / "a" / "b").stat().st_mode & 0o777
    assert private.fault(shared / "a" / "b") == "" == private.fault(shared / "not" / "made")
    assert private.fault(shared) == f"others can write to {str(shared)!r}", "the folder itself holds the files"


@pytest.mark.parametrize("mode", [0o777, 0o707, 0o1777])
def test_a_folder_that_others_can_write_to_is_not(tmp_path: Path, mode: int) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    inner.chmod(mode)
    assert private.fault(inner) and (bool(private.fault(inner / "new")) == (mode != 0o1777))
    link = tmp_path / "link"
    link.symlink_to(inner)
    assert private.fault(link) == private.fault(inner)


def test_the_folder_of_another_user_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    if tmp_path.stat().st_uid:
        assert private.fault(tmp_path).endswith("belongs to another user")
    else:
        os.chown(tmp_path, 77, 77)
        assert private.fault(tmp_path) == f"{str(tmp_path)!r} belongs to another user"
    with (tmp_path / "file").open("wb") as file:
        os.chown(file.fileno(), tmp_path.stat().st_uid, -1)
        assert private.foreign(file.fileno())


def test_a_group_of_others_may_not_write_and_the_own_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o770)
    monkeypatch.setattr(os, "getegid", lambda: tmp_path.stat().st_gid)
    alone = tmp_path.stat().st_gid == os.geteuid()
    assert bool(private.fault(tmp_path)) is not alone
    monkeypatch.setattr(os, "getegid", lambda: tmp_path.stat().st_gid + 1)
    assert private.fault(tmp_path)


def test_a_part_of_the_package_is_as_open_as_the_package(tmp_path: Path) -> None:
    inner = tmp_path / "compiled" / "kernels"
    inner.mkdir(parents=True)
    assert not private.wider(inner, tmp_path)
    inner.parent.chmod(0o777)
    assert private.wider(inner, tmp_path)
    tmp_path.chmod(0o777)
    assert not private.wider(inner, tmp_path)


def test_a_file_in_the_way_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        private.make(tmp_path / "file" / "a")
