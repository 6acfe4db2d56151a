"""Virtual superpages and multi-grained copy-on-write (VSM): its examples, exact; its evaluation, by estimated time.

Counts follow from the models; times are estimates for the paper's machine (E5-2640 v4) with DRAM for persistent memory.  Files,
requests and Postmark's numbers are scaled down; a ratio is of the same calls on both systems.  No constant is fitted to these rows.
"""

from collections.abc import Callable, Iterator
from functools import cache
from statistics import mean
from typing import Any, cast

import numpy as np

from scmsim.core.records import CLOSE, CREATE, OP, OPEN, READ, STORE, UNLINK, WRITE, Files, Source
from scmsim.fs.engine.model import Model
from scmsim.fs.pmfs import state as pmfs_state
from scmsim.pipeline import model_params, replay
from scmsim.reproduce.rows import Answer
from scmsim.result import Run, metrics
from scmsim.workload import pattern, postmark

TITLE = "Virtual superpages and multi-grained copy-on-write (VSM)"
SOURCES = ("vsm",)

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
FILE_BYTES = 8 * GIB
SIZES = tuple(1 << k for k in range(10, 21))  # 1 KiB to 1 MiB: below the superpage's
OLD: dict[str, str | int] = {"version": "original"}  # PMFS of Linux 4.4.30: non-temporal copies
COW: dict[str, str | int] = {"data_path": "cow"}
PARAMS: dict[str, dict[str, str | int]] = {
    "vsm": OLD,
    "pmfs-2m": {**OLD, **COW},
    "pmfs-4k": {**OLD, **COW},
    "nova-fast16": {},
}
PAGING = {"vsm": "virtual-superpages"}  # the others: the direct map, two levels
INVALIDATIONS = "each swap of entries interrupts nine other CPUs, which the paper leaves out; without that {:.2f}"


class Requests:
    """One thread's requests of one size over a file that exists: in order, or at random."""

    header: dict[str, Any] = {"tool": "scmsim reproduce"}
    files = Files(["/d", "/d/file"], np.array([0, FILE_BYTES], np.int64), np.array([True, False]))

    def __init__(self, op: int, order: str, size: int, calls: int, most: int) -> None:
        self.rows = max(min(calls, most // size), 1)
        batch = np.zeros(self.rows, OP).view(np.recarray)
        batch.op, batch.file, batch.file2, batch.length = op, 1, -1, size
        draw = np.random.default_rng(1)
        slots = np.arange(self.rows) if order == "seq" else draw.integers(0, FILE_BYTES // size, self.rows)
        batch.offset, batch.time_ns = slots * size, 1000 * np.arange(self.rows)
        self.batch = batch

    def batches(self, chunk: int = 1 << 14) -> Iterator[np.recarray]:
        """Yield the requests."""
        yield self.batch


def run(fs: str, source: Source, **params: str | int) -> Run:
    """The run on the paper's machine."""
    given = {fs: {**PARAMS[fs], **params}}
    return replay(source, fs, "e5-2640v4", paging=PAGING.get(fs, "directmap-1g"), params=given).runs[0]


def nanoseconds(found: Run) -> np.ndarray:
    """(time of all calls, the same without what invalidations of the TLB cost), ns."""
    total = sum(found.time_ns.values())
    return np.array([total, total - found.time_ns.get("invalidations", 0)])


@cache
def cell(fs: str, op: int, order: str, size: int, quick: bool) -> np.ndarray:
    """Time of one call of one cell, with and without invalidations."""
    found = run(fs, Requests(op, order, size, 200 if quick else 2000, GIB // 8 if quick else GIB))
    return nanoseconds(found) / found.calls


def faster(fs: str, than: str, op: int, order: str, sizes: tuple[int, ...], quick: bool) -> tuple[float, float]:
    """Mean over the sizes of `than`'s time over `fs`'s, with and without invalidations."""
    ratios = [cell(than, op, order, size, quick) / cell(fs, op, order, size, quick) for size in sizes]
    return mean(float(r[0]) for r in ratios), mean(float(r[1]) for r in ratios)


def _throughput(fs: str, than: str, op: int, order: str, sizes: tuple[int, ...], quick: bool) -> Answer:
    with_them, without = faster(fs, than, op, order, sizes, quick)
    note = INVALIDATIONS.format(without) if abs(without / with_them - 1) > 0.01 else "estimated time"
    return Answer(round(with_them, 3), "derived", note)


@cache
def mail(fs: str, quick: bool) -> np.ndarray:
    """Time of a Postmark of files of 2 to 6 MB, scaled down."""
    count = 15 if quick else 60
    source = postmark.Workload(
        files=count, transactions=count, size_low=2_000_000, size_high=6_000_000, write=4096, read=4096
    )
    return nanoseconds(run(fs, cast(Source, source), capacity=4 * GIB))


def _elapsed(than: str, quick: bool) -> Answer:
    ratio = mail("vsm", quick) / mail(than, quick)
    return Answer(round(float(ratio[0]), 3), "derived", f"estimated time; without invalidations {ratio[1]:.2f}")


def _slightly_less(quick: bool) -> Answer:
    read = faster("vsm", "pmfs-2m", READ, "random", SIZES, quick)[0]
    mails = 1 / float((mail("vsm", quick) / mail("pmfs-2m", quick))[0])
    text = f"{read:.2f} of PMFS-2MB's throughput on random reads, {mails:.2f} on Postmark"
    return Answer(
        text,
        "derived",
        "estimated time; the order is that of the paper where both are below 1",
        read <= 1.005 and mails <= 1.005,
    )


@cache
def extra(fs: str, unit: int) -> float | None:
    """Extra data bytes per byte of an aligned overwrite."""
    work = pattern.Workload(op="overwrite", unit=unit, stride=2 * MIB, file_size=16 * MIB, calls=8)
    params = {fs: COW} if fs.startswith("pmfs") else {}
    return replay(cast(Source, work), fs, params=params).runs[0].metrics["cow_extra_ratio"]


def _extra(systems: tuple[str, ...], unit: int, quick: bool) -> Answer:
    """The same: one value, or a text where the systems differ."""
    found = {fs: extra(fs, unit) for fs in systems}
    values = set(found.values())
    same = values.pop() if len(values) == 1 else None
    note = ", ".join(f"{fs} {value:g}" for fs, value in found.items() if value is not None)
    return Answer(same if same is not None else note, "exact", f"metric cow_extra_ratio: {note}")


def _waste(page: int, quick: bool) -> Answer:
    note = "evaluates the paper's equation 1, with 0 where the size divides exactly"
    return Answer(metrics.space_waste(GIB + 2 * KIB, page), "not comparable", note)


def _closed_waste(quick: bool) -> Answer:
    """Waste of closed files on vsm over that on 4 KiB pages."""
    source = postmark.Workload(files=15 if quick else 60, transactions=0, size_low=2_000_000, size_high=6_000_000)
    rows = np.concatenate(list(source.batches()))
    kept = rows[: int(np.argmax(rows["op"] == UNLINK))]
    waste = [run(fs, _Rows(source.files, kept), capacity=4 * GIB).space["waste_bytes"] for fs in ("vsm", "pmfs-4k")]
    return Answer(waste[0] / waste[1], "exact", "Postmark's files once all are closed")


class _Rows:
    """Rows as a source."""

    header: dict[str, Any] = {"tool": "scmsim reproduce"}

    def __init__(self, files: Files, rows: np.ndarray) -> None:
        self.files, self.rows, self._rows = files, len(rows), rows

    def batches(self, chunk: int = 1 << 14) -> Iterator[np.recarray]:
        """Yield the rows."""
        for first in range(0, self.rows, chunk):
            yield self._rows[first : first + chunk].view(np.recarray)


def _ops(*rows: tuple[int, int, int]) -> np.recarray:
    """Operations on the file of row 1: (op, offset, length)."""
    batch = np.zeros(len(rows), OP).view(np.recarray)
    batch.file, batch.file2 = 1, -1
    for i, (op, offset, length) in enumerate(rows):
        batch.op[i], batch.offset[i], batch.length[i] = op, offset, length
    return batch


def _worked_example(quick: bool) -> Answer:
    """Which entries change when 4 MiB at 3 MiB of an 8 MiB file are overwritten, from the stores that the model emits."""
    files = Files(["/d", "/d/f"], np.array([0, -1], np.int64), np.array([True, False]))
    model = Model("vsm", model_params("fs", "vsm", {"capacity": GIB}), files)
    state, sites = model.state, model.sites
    for _ in model.events(_ops((CREATE, 0, 0), (WRITE, 0, 8 * MIB))):
        pass
    index = state.arena[int(state.record.files[0]) + pmfs_state.FILE_WORDS + pmfs_state.BLOCKS]
    pages = [int(page) for page in state.arena[index : index + 4]]  # first virtual page of each superpage of the file
    events = np.concatenate([part.copy() for part in model.events(_ops((WRITE, 3 * MIB, 4 * MIB)))])
    stores = events[events["code"] == STORE]
    swap, slot = (stores[stores["site"] == sites.index(name)] for name in ("mcow swap", "mcow index"))
    table = int(state.record.page_table[0])
    entries = {
        (int(e["addr"]) - table) // 8 + k for e in swap if e["addr"] >= table for k in range(int(e["length"]) // 8)
    }
    slots = [int(e["addr"]) % 4096 // 8 for e in slot]
    words = []
    for place, first in enumerate(pages):
        mine = sorted(entry - first for entry in entries if first <= entry < first + 512)
        if mine:
            words.append(f"{_nth(place)}: PTE {mine[0]}..{mine[-1]}")
        elif place in slots:
            words.append(f"{_nth(place)}: index entry")
    return Answer("; ".join(words), "exact", "from the stores that the model emits at mcow swap and mcow index")


def _nth(place: int) -> str:
    return ("1st", "2nd", "3rd", "4th")[place]


def _migration(quick: bool) -> Answer:
    """Entries that reopening a file of 513 pages for an append swaps."""
    rows = _ops((CREATE, 0, 0), (WRITE, 0, 513 * 4096), (CLOSE, 0, 0), (OPEN, 0, 0), (WRITE, 513 * 4096, 100))
    files = Files(["/d", "/d/f"], np.array([0, -1], np.int64), np.array([True, False]))
    space = replay(_Rows(files, rows), "vsm-1g").runs[0].space
    return Answer(f"{space['swapped_pmds']} PMD + {space['swapped_ptes']} PTE", "exact", "counted by the model")


def _rows(fs: str, than: str, op: int, order: str, *sizes: int) -> Callable[[bool], Answer]:
    return lambda quick: _throughput(fs, than, op, order, sizes or SIZES, quick)


ANSWERS: dict[str, Callable[[bool], Answer]] = {
    "VSM-1": lambda quick: _extra(("pmfs-2m",), 4 * KIB, quick),
    "VSM-2": lambda quick: _extra(("pmfs-2m",), KIB, quick),
    "VSM-3": lambda quick: _extra(("pmfs-4k", "nova-cow", "vsm"), KIB, quick),
    "VSM-4": lambda quick: _waste(4 * KIB, quick),
    "VSM-5": lambda quick: _waste(2 * MIB, quick),
    "VSM-6": lambda quick: _waste(GIB, quick),
    "VSM-7": _rows("pmfs-4k", "pmfs-2m", WRITE, "seq", KIB),
    "VSM-8": _rows("pmfs-2m", "pmfs-4k", WRITE, "seq", 2 * MIB),
    "VSM-9": _rows("vsm", "pmfs-2m", WRITE, "seq", KIB),
    "VSM-10": _rows("vsm", "pmfs-2m", WRITE, "seq", MIB),
    "VSM-11": _rows("vsm", "pmfs-2m", WRITE, "random", KIB),
    "VSM-12": _rows("vsm", "pmfs-2m", WRITE, "random", MIB),
    "VSM-13": _rows("vsm", "pmfs-4k", WRITE, "seq"),
    "VSM-14": _rows("vsm", "pmfs-4k", WRITE, "random"),
    "VSM-15": _rows("vsm", "nova-fast16", WRITE, "seq"),
    "VSM-16": _rows("vsm", "nova-fast16", WRITE, "random"),
    "VSM-17": _rows("vsm", "pmfs-4k", READ, "seq"),
    "VSM-18": _rows("vsm", "pmfs-4k", READ, "random"),
    "VSM-19": _rows("vsm", "nova-fast16", READ, "seq"),
    "VSM-20": _rows("vsm", "nova-fast16", READ, "random"),
    "VSM-21": lambda quick: _elapsed("pmfs-4k", quick),
    "VSM-22": lambda quick: _elapsed("nova-fast16", quick),
    "VSM-23": _slightly_less,
    "VSM-24": _closed_waste,
    "VSM-25": _worked_example,
    "VSM-26": _migration,
}
BANDWIDTH = (
    "a superpage is copied at the bandwidth of nontemporal stores; PMEP's copy of data that miss the cache was faster"
)
SHOOTDOWN = (
    "every range that is swapped interrupts nine other CPUs, one after the other; the paper's figures leave that out"
)
TABLES = "the page table lies in a slower memory than the data; the paper ran on DRAM"
REASONS = {
    "VSM-7": BANDWIDTH,
    "VSM-8": BANDWIDTH,
    **dict.fromkeys(("VSM-9", "VSM-11", "VSM-13", "VSM-14", "VSM-15", "VSM-16"), SHOOTDOWN),
    **dict.fromkeys(("VSM-18", "VSM-19", "VSM-20"), TABLES),
    "VSM-22": "PMFS and NOVA clear new blocks, a superpage is not cleared: the reconstruction's choice",
    "VSM-23": "PMFS clears new blocks of 2 MiB, a superpage is not cleared: the reconstruction's choice",
}
