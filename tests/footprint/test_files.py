"""Check the files of footprints: those that are shipped, the kernel that stands for another, and mistakes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scmsim import footprint
from scmsim.core.errors import UsageError
from scmsim.footprint.interleave import PAGE


@pytest.mark.parametrize("kernel", footprint.kernels())
def test_shipped_footprints_are_of_the_kernel(kernel: str) -> None:
    own = footprint.load(kernel, "tmpfs", ["syscall", "copy"])
    assert footprint.has_own(kernel, "tmpfs") and footprint.has_own(kernel, "nova-cow") == kernel.startswith(
        footprint.SMALL
    )
    assert footprint.load(kernel, "scmfs", ["syscall"]).measured_on == own.measured_on
    fixed = own.book.pages[own.book.pages["cache"] == 0]
    assert (fixed["vaddr"] < 0).all()  # the program's pages are the program's
    assert set(np.unique(fixed["order"])) <= {12, 21, 30}
    bounds = own.book.bounds
    assert 0 == bounds[0] and bounds[-1] == len(own.book.touches) and 0 < np.diff(bounds).min() <= np.diff(bounds).max()
    assert np.diff(bounds).max() <= footprint.CHUNK and (own.book.calls["end"] < len(bounds)).all()
    assert (own.book.touches >> 1).max() < len(own.book.pages) and own.book.inodes.max() < len(fixed)


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no kernel with footprints named '6.2'"):
        footprint.load("6.2", "tmpfs", [])
    for content in (b"nothing", b"PK\x03\x04 nothing"):
        (tmp_path / "x.npz").write_bytes(content)
        with pytest.raises(UsageError, match="has no footprints .*; make it with scmsim lab footprints"):
            footprint.read(tmp_path / "x.npz", [])


def test_the_nearest_kernel_stands_for_another() -> None:
    """By releases of Linux, of which 5.20 and 6.0 would be the same."""
    nearest = {
        "5.13": "5.13",
        "5.13.13": "5.13",
        "5.15": "5.10",
        "5.16": "6.1",
        "6.0": "6.1",
        "6.6": "6.1",
        "6.8.0-mine": "6.12",
        "7.0": "6.18",
        "7.4": "7.3",
        "4.19": "5.10",
        "x": "5.10",
    }
    assert {kernel: footprint.standing_for(kernel) for kernel in nearest} == nearest


def test_what_a_kernel_lacks_an_older_one_has() -> None:
    """NOVA is measured on 5.13 alone; the page cache's file systems are not."""
    nova = {kernel: footprint.stand_in(kernel, "nova-cow") for kernel in footprint.kernels()}
    own = ("5.13", "nova-cow")
    assert nova == {
        "5.10": ("5.10", None),
        "5.13": own,
        "5.13-lines": ("5.13-lines", "nova-cow"),
        "6.1": own,
        "6.1-lines": ("5.13-lines", "nova-cow"),
        "6.12": own,
        "6.18": own,
        "7.3": own,
    }
    assert footprint.stand_in("5.13", "ext4") == ("5.10", "ext4")
    assert footprint.stand_in("6.1", "pmfs-2m") == ("5.13", "pmfs-4k")
    assert footprint.load("6.1", "pmfs-2m", ["syscall"]).measured_on == "pmfs-4k on Linux 5.13.13"


@pytest.mark.parametrize(("version", "calls"), [(footprint.FORMAT + 1, 1), (footprint.FORMAT, 0)])
def test_footprints_of_another_version_or_without_calls_are_refused(tmp_path: Path, version: int, calls: int) -> None:
    about: dict[str, Any] = {"fs": "tmpfs", "kernel": "6.1", "sites": [], "format": version}
    arrays = {"touches": np.zeros(0, np.uint16), "pages": np.zeros(0, PAGE), "inodes": np.zeros((0, 1), np.int64)}
    footprint.write(tmp_path / "f.npz", about, calls=np.zeros(calls, footprint.MEASURED), **arrays)
    with pytest.raises(UsageError, match="of another version, or empty"):
        footprint.read(tmp_path / "f.npz", [])


def test_a_folder_may_stand_for_a_kernel(tmp_path: Path) -> None:
    footprint.check(str(tmp_path))
    footprint.check(footprint.NONE_AT_ALL)
    with pytest.raises(UsageError, match="no kernel with footprints named"):
        footprint.check(str(tmp_path / "x"))
