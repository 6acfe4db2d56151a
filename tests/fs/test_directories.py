"""What Linux' file systems take to read a directory: a call, and each name that it returns by the bytes that the trace has."""

import tomllib

import pytest

from scmsim.core import registry
from scmsim.core.records import WORK
from tests.fs import drive

TABLES = {
    ("ext4-dax", "5.13"): "ext4-5.13", ("ext4-dax", "6.1"): "ext4-dax-6.1", ("ext4", "6.12"): "ext4-6.12",
    ("ext2-dax", "5.13"): "ext2-dax-5.13", ("ext2", "6.1"): "ext2-6.1", ("xfs-dax", "6.12"): "xfs-dax-6.12",
    ("tmpfs", "6.1"): "tmpfs-6.1", ("ramfs", "6.1"): "ramfs-6.1", ("splitfs", ""): "ext4-5.13",
}  # fmt: skip


@pytest.mark.parametrize(("fs", "kernel"), TABLES)
def test_a_directory_costs_its_call_and_its_names(fs, kernel):
    family = registry.path("fs", "ext4-dax" if fs == "splitfs" else fs).parent
    costs = tomllib.loads((family / "costs" / f"{TABLES[fs, kernel]}.toml").read_text(encoding="utf-8"))
    params = {"kernel": kernel} if kernel and "kernel" in registry.literals("fs", fs)["PARAMS"] else {}
    model = drive.Model(fs, drive.files(0, 0, dirs=(0, 1)), **params)
    model.feed(drive.ops(("open", 1)))
    for length, names in ((0, 0), (48, 2), (48 + 50 * 32, 52), (48 + 50 * 32 + 31, 52), (-1, 0)):
        events = model.feed(drive.ops(("readdir", 1, 0, length)))
        work = events[events["code"] == WORK]
        for column, amount in (("addr", "instructions"), ("length", "loads"), ("width", "stores")):
            wanted = costs["readdir"][amount] + names * costs["list_entry"][amount]
            assert int(work[column].sum()) == pytest.approx(1000 * wanted), (length, amount)
