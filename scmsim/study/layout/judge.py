"""Compare a model's allocator with a real kernel's by the extents of both after the same trace.

Two extents are equal if file, offset, place on the device, length and state (unwritten or not) are equal.  Adjacent extents
are first joined on both sides, because where a kernel splits its records makes no difference to a mapping.  Unit: bytes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from scmsim.alloc import contiguity
from scmsim.core.records import OP, SETUP, SYNC, Files, Source
from scmsim.core.units import format_bytes
from scmsim.fs.engine.extents import FREE
from scmsim.lab import qemu
from scmsim.lab.layout import in_order
from scmsim.lab.plan import guest_paths
from scmsim.pipeline import place
from scmsim.pipeline.arguments import Progress
from scmsim.result.extents import without
from scmsim.study.page_size.rules import HUGE

EQUAL, SAME_PAGES, OFF = "equal", "same pages", "off"
TICK = 4_000_000  # ns between changes of a guest's file times (CONFIG_HZ=250)
_RETIRED = ("instructions", "rep_loads", "rep_stores")  # counters whose sum is the guest's run time in ns
# fields that must match for an extent to equal the kernel's
PLACED = ("file", "logical", "physical", "length", "unwritten")
CUT = ("file", "logical", "length", "unwritten")  # the same without the place on the device


class Synced:
    """A trace as the lab's guest runs it: files have the guest's names, and a sync follows the last operation."""

    def __init__(self, source: Source) -> None:
        files = source.files
        self.files = Files(guest_paths(files.path), files.first_size, files.is_dir)
        self.header, self.rows, self._source = source.header, source.rows + 1, source

    def batches(self, chunk: int = 1 << 14) -> Iterator[np.recarray]:
        """Yield batches of the operations, then the sync."""
        last = 0
        for batch in self._source.batches(chunk):
            last = int(batch.time_ns[-1]) if len(batch) else last
            yield batch
        end = np.zeros(1, OP).view(np.recarray)
        end.op, end.file, end.file2, end.offset, end.time_ns = SYNC, -1, -1, -1, last + 1000
        yield end


def of_model(
    source: Source, fs: str, params: Mapping[str, Any], progress: Progress | None = None
) -> tuple[np.ndarray, int] | str:
    """Return (extents of a model after a trace and a sync, failed operations), or a text if the model places no blocks."""
    report, model = place(Synced(source), fs, params, progress)
    found = model.extents()
    return without(fs) if found is None else (in_order(found), report["failed_operations"])


def on_the_guests_device(params: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return `params` with the capacity of the guest's device, unless they have one or the model has no such parameter.

    `known` has the model's parameters (PARAMS).
    """
    size = {"capacity": format_bytes(qemu.PM_BYTES)} if "capacity" in known else {}
    return {**size, **params}


def by_the_guests_clock(source: Source, counters: Mapping[str, int], known: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameter `timestamp_tick`: the guest's tick of file times, scaled to the time span of the trace.

    The scale is needed because the guest runs the trace without pauses.  The tick matters because an fsync after a write commits
    the inode only if the write changed the file's times.  `counters` are those of the guest's run (without them, the result is
    empty), `known` has the model's parameters (PARAMS).
    """
    took = sum(int(counters.get(name, 0)) for name in _RETIRED)
    if not took or "timestamp_tick" not in known:
        return {}
    counted = [batch["time_ns"][batch["flag"] & SETUP == 0] for batch in source.batches()]
    span = int(np.ptp(np.concatenate(counted)))
    return {"timestamp_tick": f"{max(TICK * span // took, 1)}ns"}


def compared(real: np.ndarray, model: np.ndarray, files: Files) -> dict[str, Any]:
    """Return counts of the real layout, of the model's, and of what is equal in both; the verdict; and a row per file.

    `real` and `model` are extents as `in_order` returns them; directories are left out.
    """
    is_dir = np.append(np.asarray(files.is_dir, bool), False)  # the last entry is for FREE
    sides = {name: of[~is_dir[of["file"]]] for name, of in (("real", real), ("model", model))}
    data = {name: of[of["file"] != FREE] for name, of in sides.items()}
    free = {name: of[of["file"] == FREE] for name, of in sides.items()}
    pages = {name: mappable(of) for name, of in data.items()}
    rows = list(_by_file(data, pages, files))
    equal = {
        "files": sum(row["equal"] for row in rows),
        "extents": _common(data, PLACED),
        "cuts": _common(data, CUT),
        "bytes": _bytes_in_common(data["real"], data["model"]),
        "mappable_2m": len(np.intersect1d(pages["real"], pages["model"])),
        "free_extents": _common(free, ("physical", "length")),
    }
    found: dict[str, Any] = {name: _counts(data[name], free[name], pages[name]) for name in sides}
    return {**found, "equal": equal, "verdict": _verdict(found, equal), "by_file": rows}


def mappable(data: np.ndarray) -> np.ndarray:
    """Return the 2 MiB ranges of files that one page-table entry can map, each as the number file << 40 | range.

    Such a range is inside one extent with content whose place and offset agree modulo 2 MiB (study.page_size.rules).
    """
    fit = data[~data["unwritten"] & ((data["physical"] - data["logical"]) % HUGE == 0)]
    first, end = -(-fit["logical"] // HUGE), (fit["logical"] + fit["length"]) // HUGE
    count = np.maximum(end - first, 0)
    begin = np.repeat(np.cumsum(count) - count, count)
    found: np.ndarray = np.repeat(fit["file"] << 40 | first, count) + np.arange(count.sum()) - begin
    return found


def agrees(cells: list[dict[str, Any]]) -> bool:
    """Return whether every model can map the same 2 MiB ranges as its kernel."""
    return all(cell["verdict"] != OFF for cell in cells)


def _counts(data: np.ndarray, free: np.ndarray, pages: np.ndarray) -> dict[str, int]:
    blocks = contiguity.of_runs(free["physical"] // contiguity.BLOCK, free["length"] // contiguity.BLOCK)
    return {
        "files": len(np.unique(data["file"])),
        "extents": len(data),
        "bytes": int(data["length"].sum()),
        "mappable_2m": len(pages),
        "free_extents": len(free),
        **blocks,
    }


def _verdict(found: dict[str, Any], equal: dict[str, int]) -> str:
    real, model = found["real"], found["model"]
    if real["extents"] == model["extents"] == equal["extents"]:
        return EQUAL
    return SAME_PAGES if real["mappable_2m"] == model["mappable_2m"] == equal["mappable_2m"] else OFF


def _common(sides: Mapping[str, np.ndarray], fields: tuple[str, ...]) -> int:
    """Return how many rows, compared by `fields`, are on both sides; no two rows of a side are equal in `fields`."""
    real, model = ({tuple(row) for row in of[list(fields)].tolist()} for of in sides.values())
    return len(real & model)


def _bytes_in_common(real: np.ndarray, model: np.ndarray) -> int:
    """Return how many bytes of files are at the same place on both sides, regardless of how extents are split."""
    (one, of_one), (other, of_other) = _blocks(real), _blocks(model)
    _, here, there = np.intersect1d(one, other, assume_unique=True, return_indices=True)
    return int((of_one[here] == of_other[there]).sum()) * contiguity.BLOCK


def _blocks(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (blocks of the device that files occupy, content of each block as file << 40 | page of the file)."""
    count = data["length"] // contiguity.BLOCK
    step = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    block = np.repeat(data["physical"] // contiguity.BLOCK, count) + step
    page = np.repeat(data["file"] << 40 | data["logical"] // contiguity.BLOCK, count) + step
    first = np.unique(block, return_index=True)[1]  # a model may report blocks that two files share
    return block[first], page[first]


def _by_file(data: Mapping[str, np.ndarray], pages: Mapping[str, np.ndarray], files: Files) -> Iterator[dict[str, Any]]:
    """Yield a row for each file that has an extent on either side."""
    counts = {name: np.bincount(of["file"], minlength=len(files)) for name, of in data.items()}
    large = {name: np.bincount(of >> 40, minlength=len(files)) for name, of in pages.items()}
    ends = {name: np.searchsorted(of["file"], np.arange(len(files) + 1)) for name, of in data.items()}
    for file in np.flatnonzero(sum(counts.values())).tolist():
        real, model = (of[ends[name][file] : ends[name][file + 1]] for name, of in data.items())
        yield {
            "file": file,
            "path": files.path[file],
            "bytes": int(real["length"].sum()),
            "equal": bool(len(real) == len(model) and (real == model).all()),
            "equal_extents": _common({"real": real, "model": model}, PLACED),
            **{name: {"extents": int(counts[name][file]), "mappable_2m": int(large[name][file])} for name in data},
        }
