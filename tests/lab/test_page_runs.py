"""Check the lab's walk of a guest's page table, and the page runs that the MMU reads."""

import numpy as np
import pytest

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.core.records import joined
from scmsim.lab import pagetable, stream
from scmsim.mmu import page_runs, simulate, simulate_file


def entry(physical, large=False):
    return physical | 3 | (1 << 7 if large else 0)


@pytest.fixture
def memory(tmp_path):
    """A page table with one page of 1 GiB, two neighbours of 2 MiB and one page of 4 KiB."""
    ram = np.zeros(1 << 16, np.uint8)
    tables = ram.view("<u8").reshape(-1, 512)
    tables[1][273] = entry(0x2000)  # 0xffff888000000000
    tables[1][0] = entry(0x2000)  # the user half is not followed
    tables[2][4] = entry(0x100000000, large=True)
    tables[2][0] = entry(0x3000)
    tables[3][0:2] = entry(0, large=True)
    tables[3][5] = entry(0x4000)
    tables[4][7] = entry(0x9000)
    tables[4][8] = 0x1000  # not present
    path = tmp_path / "ram"
    ram.tofile(path)
    return path


def test_walk_of_a_page_table(memory):
    base = 0xFFFF888000000000
    found = pagetable.walk(memory, 0x1000)
    assert found == [
        (base, base + (4 << 20), 21),
        (base + (10 << 20) + 7 * 4096, base + (10 << 20) + 8 * 4096, 12),
        (base + (4 << 30), base + (5 << 30), 30),
    ]
    wanted = np.array([base, base + (4 << 30) + 5, base + (4 << 20), 0x7000], np.uint64)
    assert pagetable.orders(wanted, found).tolist() == [21, 30, 12, 12]


def test_walk_of_garbage_ends(tmp_path, monkeypatch):
    path = tmp_path / "ram"
    np.full(1 << 11, entry(0x1000), "<u8").tofile(path)  # every table is the same one
    monkeypatch.setattr(pagetable, "_MOST_TABLES", 1000)
    with pytest.raises(EnvironmentProblem, match="no page table"):
        pagetable.walk(path, 0x1000)
    assert pagetable.walk(path, 1 << 50) == []


def packed_run(address, count, store):
    return (address >> 12 & (1 << 36) - 1) << 28 | store << 27 | (count - 1)


def test_stream_becomes_page_runs_that_the_mmu_reads(tmp_path):
    kernel_page, user_page = 0xFFFF888100000000, 0x7F0000001000
    packed = np.array([packed_run(kernel_page, 5000, 1), packed_run(user_page, 2, 0)], np.uint64)
    address, count, store = stream.unpacked(packed)
    assert address.tolist() == [kernel_page, user_page]
    assert count.tolist() == [5000, 2] and store.tolist() == [True, False]
    path = tmp_path / "x.pages.npz"
    stream.write(path, packed, [(kernel_page, kernel_page + (1 << 30), 30)])
    events = joined(list(page_runs.events(path)))
    assert events["length"].tolist() == [4096, 904, 2] and events["order"].tolist() == [30, 30, 12]
    found = simulate_file(str(path), "i7-8700k")
    assert found["dtlb_store_lookups"] == 5000 and found["dtlb_load_lookups"] == 2
    assert found["dtlb_store_misses_walk_completed"] == 1
    same = simulate([user_page, user_page], "i7-8700k")
    assert found["dtlb_load_misses_walk_completed_4k"] == same["dtlb_load_misses_walk_completed_4k"]


@pytest.mark.parametrize("content", [b"", b"PK\3\4 nothing", b"\0" * 100])
def test_damaged_page_runs_are_refused(tmp_path, content):
    path = tmp_path / "x.pages.npz"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="page runs"):
        list(page_runs.events(path))
