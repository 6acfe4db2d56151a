"""The SCM manager, FAT, ext2 and FAT on NAND against the tables of the SCM manager paper (docs/models/scm_manager.md)."""

import pytest

from scmsim.reproduce import scm_manager as cells
from tests.conftest import NO_JIT
from tests.fs import drive

pytestmark = [pytest.mark.slow, pytest.mark.skipif(NO_JIT, reason="the board's times are for the compiled kernels")]


@pytest.mark.parametrize("row", cells.TABLE2)
def test_memory_objects(row):
    """On FeRAM within 7 % (malloc and free are fitted); loops on SDRAM within 4 %; its malloc and free had company."""
    op, size = cells.TABLE2[row]
    assert cells.micro("scm-manager", size)[op] == pytest.approx(cells.values(row)[0], rel=0.07)
    simulated = cells.micro("scm-manager", size, "sdram")[op]
    if op in ("malloc", "free"):
        assert simulated < cells.baseline(row)  # the kernel's daemons take space at the same time
    else:
        assert simulated == pytest.approx(cells.baseline(row), rel=0.04)


def test_who_is_faster():
    """The paper's order: the SCM manager before ext2 and FAT on SCM, those by an order of magnitude before FAT on NAND."""
    for op, size in (("create", 512), ("write", 512), ("write", 1024), ("read", 1024), ("read", 4096)):
        manager, ext2, fat, nand = (
            cells.micro(fs, size)[op] for fs in ("scm-manager", "ext2-scm", "fat-scm", "fat-nand")
        )
        assert manager < min(ext2, fat)
        if op != "read":
            assert nand > 10 * fat
    assert cells.micro("ext2-scm", 4096)["write"] < cells.micro("fat-scm", 4096)["write"]


def test_synchronous_writes_on_nand_cost_erases():
    """A rewritten page of the FAT takes a fold each time; the same trace without synchronous writes takes none."""
    rows = [("create", 1), *[("write", 1, 512 * k, 512) for k in range(64)], ("fsync", 1)]
    trace = drive.source(drive.files(0, -1, dirs=[0]), drive.ops(*rows))
    folds = [cells.run("fat-nand", trace, mount=mount).space["nand_folds"] for mount in ("sync", "async")]
    assert folds[0] > 64 * 4 * 0.9 and folds[1] <= 2


@pytest.mark.parametrize("app", ["distillery", "ftpget", "insmod", "cp", "cat"])
def test_programs_are_faster_with_objects(app):
    """Table 5: no copy between the file and the program's memory."""
    objects = cells.program("scm-manager", app, "objects")
    assert objects < cells.program("scm-manager", app, "files") < cells.program("ext2-scm", app, "files")
