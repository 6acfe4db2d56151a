"""Files of page runs: what is written comes back as accesses, and what is none is refused."""

import numpy as np
import pytest

from scmsim.core.errors import UsageError
from scmsim.core.records import LOAD, STORE, joined
from scmsim.mmu import page_runs

RUNS = {
    "page": np.array([4096, 1 << 40, (1 << 64) - 4096, 0], np.uint64),
    "count": np.array([1, 4096, 4097, 3 * 4096], np.uint32),
    "store": np.array([False, True, False, True]),
    "order": np.array([12, 21, 30, 12], np.uint8),
}


def changed(name, row, value):
    arrays = {key: array.copy() for key, array in RUNS.items()}
    arrays[name][row] = value
    return arrays


def test_a_run_is_events_of_up_to_a_page(tmp_path):
    page_runs.write(tmp_path / "x.pages.npz", **RUNS)
    (events,) = page_runs.events(tmp_path / "x.pages.npz")
    fields = ("vaddr", "length", "code", "order", "width")
    assert [tuple(int(event[name]) for name in fields) for event in events] == [
        (4096, 1, LOAD, 12, 1),
        (1 << 40, 4096, STORE, 21, 1),
        (-4096, 4096, LOAD, 30, 1),
        (-4096, 1, LOAD, 30, 1),
        *[(0, 4096, STORE, 12, 1)] * 3,
    ]
    where = np.concatenate(list(page_runs.addresses(tmp_path / "x.pages.npz")))
    counts = RUNS["count"].astype(int)
    assert np.array_equal(where, np.repeat(RUNS["page"].view(np.int64), counts))
    assert page_runs.as_events(**RUNS)[1].tolist() == [0, 1, 2, 2, 3, 3, 3]


def test_files_of_no_run_and_of_more_than_are_read_together(tmp_path, monkeypatch):
    page_runs.write(tmp_path / "x.pages.npz", **{name: array[:0] for name, array in RUNS.items()})
    assert not list(page_runs.events(tmp_path / "x.pages.npz"))
    page_runs.write(tmp_path / "x.pages.npz", **RUNS)
    (whole,) = page_runs.events(tmp_path / "x.pages.npz")
    monkeypatch.setattr(page_runs, "_CHUNK", 3)
    monkeypatch.setattr(page_runs, "_EXPANDED", 2)
    parts = list(page_runs.events(tmp_path / "x.pages.npz"))
    assert np.array_equal(joined(parts), whole) and len(parts) == 2
    lengths = [len(some) for some in page_runs.addresses(tmp_path / "x.pages.npz")]
    assert lengths == [4097, 4097, 2 * 4096, 4096]


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        (changed("count", 1, 0), "no accesses or a page size that is not 4 KiB to 1 GiB"),
        (changed("order", 0, 11), "no accesses or a page size"),
        (changed("order", 3, 31), "no accesses or a page size"),
        ({**RUNS, "count": RUNS["count"][:3]}, "do not have the types or the common length"),
        ({**RUNS, "order": RUNS["order"].astype(np.int64)}, "do not have the types or the common length"),
        ({name: array.reshape(2, 2) for name, array in RUNS.items()}, "do not have the types or the common length"),
        ({name: array for name, array in RUNS.items() if name != "store"}, "is not a file of page runs"),
    ],
)
def test_what_is_no_run_is_one_line(tmp_path, arrays, said):
    np.savez(tmp_path / "x.pages.npz", **arrays)
    with pytest.raises(UsageError, match=said) as error:
        list(page_runs.events(tmp_path / "x.pages.npz"))
    assert "\n" not in str(error.value)


def test_more_runs_than_a_file_may_have(tmp_path, monkeypatch):
    page_runs.write(tmp_path / "x.pages.npz", **RUNS)
    monkeypatch.setattr(page_runs, "_MAX_RUNS", 4)
    assert len(list(page_runs.events(tmp_path / "x.pages.npz"))) == 1
    monkeypatch.setattr(page_runs, "_MAX_RUNS", 3)
    with pytest.raises(UsageError, match="the common length of page runs"):
        list(page_runs.events(tmp_path / "x.pages.npz"))
