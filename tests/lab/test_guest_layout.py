"""A guest reports where its files and its free space are.  Skipped where the lab cannot run."""

import numpy as np
import pytest

from scmsim.core.records import CLOSE, CREATE, FALLOCATE, FSYNC, KEEP_SIZE, OP, PUNCH_HOLE, UNLINK, WRITE, Files
from scmsim.fs.engine.extents import FREE
from scmsim.lab import kernel, layout, machine, plan, qemu, systems, tools

pytestmark = pytest.mark.slow
_MISSING = [finding for finding in tools.examine() if finding.package]
if _MISSING:
    pytest.skip(f"no lab here: {_MISSING[0].value}", allow_module_level=True)
UNIT = 1 << 20
ROWS = [
    (CREATE, 1, 0, 0, 0), *[(WRITE, 1, k * UNIT, UNIT) for k in range(4)], (FSYNC, 1), (CLOSE, 1),
    (CREATE, 2, 0, 0, 0), (WRITE, 2, 0, UNIT), (FALLOCATE, 2, 65536, 65536, -1, PUNCH_HOLE | KEEP_SIZE),
    (FALLOCATE, 2, UNIT, UNIT), (CLOSE, 2), (CREATE, 3, 0, 0, 0), (WRITE, 3, 0, UNIT), (CLOSE, 3), (UNLINK, 3, 0, 0, 0),
]  # fmt: skip


class Trace:
    header = {"tool": "test"}

    def __init__(self):
        sizes = np.array([0, -1, -1, -1])
        self.files, self.rows = Files([f"/{k}" for k in range(4)], sizes, sizes == 0), len(ROWS)
        self.array = np.zeros(len(ROWS), OP)
        for at, entry in zip(self.array, ROWS, strict=True):
            row = (*entry, *(0, 0, 0, -1, 0)[len(entry) - 1 :])
            at["op"], at["file"], at["offset"], at["length"], at["file2"], at["flag"] = row

    def batches(self, chunk=1 << 14):
        yield self.array.view(np.recarray)


@pytest.mark.parametrize("fs", ["ext4-dax", "tmpfs"])  # by FIEMAP and GETFSMAP; by the pages of a mapping
def test_a_guest_reports_its_files_and_its_free_space(fs):
    setting = machine.Setting(qemu.find(), kernel.find(), timeout_s=300)
    system = systems.load()[fs]
    measured = machine.run(setting, system, plan.from_trace(Trace(), layout=True))
    assert measured.about["failed"] == 0
    found = layout.extents(measured, system)
    one, two = (found[found["file"] == file] for file in (1, 2))
    assert one["length"].sum() == 4 * UNIT and not one["unwritten"].any()
    written, hole = two[~two["unwritten"]], two[(two["logical"] < 131072) & (two["logical"] + two["length"] > 65536)]
    assert not len(hole) and len(found[found["file"] == 3]) == 0
    assert written["length"].sum() == UNIT - 65536 if fs == "ext4-dax" else written["length"].sum() >= UNIT - 65536
    places = np.sort(found, order="physical")
    assert (places["physical"][1:] >= (places["physical"] + places["length"])[:-1]).all()
    free = found[found["file"] == FREE]
    if fs == "ext4-dax":
        assert two["unwritten"].any() and qemu.PM_BYTES * 0.9 < free["length"].sum() < qemu.PM_BYTES
        assert len(one) == 1  # the kernel gives appends of 1 MiB one run
