"""A mapping uses the pages of a file as a read does: the second use moves a page to the active list, once (mark_page_accessed)."""

import pytest

from scmsim.core import records as r
from scmsim.fs.engine import costs
from tests.fs import drive

PAGES = 4
LENGTH = PAGES << 12
MAPS, MAPS_ALL = (("mmap", 1, 0, LENGTH, -1, r.WRITABLE_SHARED | flag) for flag in (0, r.POPULATE))
LOADS, STORES, ENDS = ((op, 1, 0, LENGTH) for op in ("load", "store", "munmap"))
WRITES, GROWS, RESERVES = ("write", 1, 0, LENGTH), ("truncate", 1, LENGTH), ("fallocate", 1, 0, LENGTH)


def moved(fs, *rows):
    """Pages that the last of some operations moves to the active list."""

    def marked(_, table):
        return {cost: {**row, "instructions": int(cost == "activate_page")} for cost, row in table.items()}

    with costs.changed(marked):
        model = drive.Model(fs, drive.files(0, -1, dirs=[0]))
        for row in [("create", 1), *rows]:
            events = model.feed(drive.ops(row))
    return int(events.addr[events.code == r.WORK].sum()) // r.MILLI


@pytest.mark.parametrize(
    ("rows", "count"),
    [
        ([WRITES, MAPS, LOADS, ENDS], PAGES),  # the write was their first use
        ([WRITES, MAPS, LOADS, ENDS, MAPS, LOADS, ENDS], 0),
        ([WRITES, MAPS, ENDS], 0),
        ([GROWS, MAPS, STORES, ENDS], 0),  # a fault is no use
        ([RESERVES, MAPS, STORES, ENDS], 0),
        ([GROWS, MAPS, STORES, ENDS, MAPS, LOADS, ENDS], PAGES),
        ([GROWS, MAPS_ALL, ENDS], PAGES),  # populating uses pages
        ([WRITES, MAPS_ALL], PAGES),
        ([GROWS, MAPS, STORES, WRITES], 0),
        ([GROWS, MAPS, STORES, ENDS, WRITES], PAGES),
    ],
)
def test_the_second_use_of_a_page_moves_it(rows, count):
    assert moved("tmpfs", *rows) == count


def test_ramfs_has_no_such_list():
    assert moved("ramfs", WRITES, MAPS, LOADS, ENDS) == 0
