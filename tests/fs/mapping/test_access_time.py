"""mmap sets a file's access time on ext4 as a read does: once after each change of the file (relatime)."""

import pytest

from scmsim.core import records as r
from scmsim.fs.engine import costs
from tests.fs import drive, laws

MAPS, WRITES = ("mmap", 1, 0, 4096, -1, r.WRITABLE_SHARED), ("write", 1, 0, 100)


@pytest.mark.parametrize("fs", ["ext4", "ext4-dax"])
def test_an_mmap_after_a_change_sets_the_access_time(fs):
    def marked(_, table):
        return {cost: {**row, "instructions": int(cost == "access_time")} for cost, row in table.items()}

    with costs.changed(marked):
        model = drive.Model(fs, drive.files(0, -1, dirs=[0]))
        model.feed(drive.ops(("create", 1, 0, 0, 0), WRITES, MAPS, ("load", 1, 0, 8)))
        found = []
        for tick, row in enumerate([MAPS, MAPS, WRITES, MAPS, MAPS], 1):
            batch = drive.ops(row)
            batch["time_ns"] = tick * laws.TICK
            events = model.feed(batch)
            found.append(int(events.addr[events.code == r.WORK].sum()) // r.MILLI)
    assert found == [1, 0, 0, 1, 0]
