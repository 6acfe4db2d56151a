"""Evaluate every combination of page sizes, thresholds, boundary and copy-on-write grain; find the Pareto front.

A file whose greatest length is up to `small` bytes is on 4 KiB pages, up to `large` bytes on 2 MiB pages, else on 1 GiB pages.
With a boundary, a share of the device is reserved for large pages; files that do not fit into the share stay on 4 KiB pages.  An
overwrite is either copied in units of a grain, or logged (undo).  If a file is ever overwritten and the grain is smaller than its
page, the file is mapped by pages of the grain's size; `mcow` maps it by 4 KiB and frees the unused tail.
"""

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.units import format_bytes, page_order, parse_bytes
from scmsim.mmu import presets
from scmsim.mmu.state import ANY, CACHE_LEVELS
from scmsim.study.advise import kernels as k
from scmsim.study.advise.profile import FAR, GRAINS, THRESHOLDS, Profile

SHARES = (0, 10, 25, 50, 75, 90)  # percent of the device for large pages; 0: no boundary
WORDS = ("undo", "page", "mcow")  # grains: in place with an undo log; the file's page; virtual superpages
PAGES = tuple(1 << order for order in k.ORDERS)
FLAT = 0.05  # relative error of walk cycles that modelling replacement as LRU can cause (docs/guide/advise.md)
OBJECTIVES = ("walk_cycles", "wasted_bytes", "write_amplification")


class Choice(NamedTuple):
    """One combination: page-size thresholds, share of the device for large pages, and copy-on-write grain."""

    small: int  # largest file on 4 KiB pages, bytes
    large: int  # largest file on 2 MiB pages, bytes
    share: int  # percent of the device for large pages; 0: no boundary
    grain: str  # grain of copy-on-write: bytes as text, or one of WORDS


@dataclass
class Advice:
    """All combinations with their costs; `front` has the indices of the Pareto front (see `pareto`)."""

    choices: list[Choice]
    costs: np.ndarray  # float64 (choices, objectives)
    front: np.ndarray
    best: int
    infeasible: int
    capacity: int
    placements: int  # distinct placements, each with its own pass over the touches
    profile: Profile
    orders: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def flat(self) -> bool:
        """Return whether page sizes do not matter for the trace: walk cycles of the front differ by at most `FLAT`."""
        cycles = self.costs[self.front, 0]
        return bool(cycles.max() - cycles.min() <= FLAT * cycles.max())


def advise(
    found: Profile,
    machine: str = "i7-8700k",
    capacity: int = 0,
    jobs: int = 2,
    progress: Callable[[str, int, int], None] | None = None,
) -> Advice:
    """Evaluate every combination on a profile and return the costs and the recommendation.

    The machine's TLBs must have at most 16 ways, and a number of sets that is a power of two.  `capacity` is the size of the
    device in bytes; 0 means the next power of two above four times the maximum of live bytes.  `jobs` is the number of threads.
    Raises UsageError for an unknown machine, TLBs that are not supported, or a device on which no combination fits.
    """
    model = _Model(found, machine, capacity)
    placed: dict[bytes, np.ndarray] = {}
    rows: list[tuple[Choice, np.ndarray, bytes]] = []
    limits = THRESHOLDS[::-1]  # among combinations of equal cost, the one with fewer sizes comes first
    pairs = [(small, large) for large, small in itertools.product(limits, limits) if small <= large]
    grains = [*WORDS, *(format_bytes(1 << order) for order in GRAINS)]
    infeasible = 0
    for (small, large), share in itertools.product(pairs, SHARES):
        classes = model.classes(small, large, share) if model.holds_pages(small, large) else None
        if classes is None:
            infeasible += len(grains)
            continue
        for grain in grains:
            mapped = model.mapped(classes, grain)
            key = mapped.tobytes()
            placed.setdefault(key, mapped)
            rows.append((Choice(small, large, share, grain), classes, key))
    if not rows:
        raise UsageError(f"nothing fits a device of {format_bytes(model.capacity)}; give a larger --capacity")
    cycles = model.cycles(placed, jobs, progress)
    costs = np.array([[cycles[key], *model.other_costs(choice, classes)] for choice, classes, key in rows])
    front = pareto(costs)
    best = front[_knee(costs[front], int(found.snapshot.sum()))]
    orders = {int(i): rows[i][1] for i in front}
    return Advice(
        [choice for choice, _, _ in rows], costs, front, int(best), infeasible, model.capacity, len(placed), found, orders,
    )  # fmt: skip


def pareto(costs: np.ndarray) -> np.ndarray:
    """Return the indices of the Pareto front: rows to which no other row is as good in all columns and better in one.

    Of equal rows only the first is returned.
    """
    order = np.lexsort(costs.T[::-1])
    front: list[int] = []
    for i in order:
        if not front or not (costs[front] <= costs[i]).all(axis=1).any():
            front.append(int(i))
    return np.array(front, np.int64)


def _knee(costs: np.ndarray, live: int) -> int:
    """Return the row with the least product of walk cycles, bytes allocated and bytes written.

    So 1 % more of one cost is accepted only if it saves more than 1 % of another cost.
    """
    return int(np.argmin((costs[:, 0] + 1) * (live + costs[:, 1]) * costs[:, 2]))


class _Model:
    """Model of the costs of combinations, for one profile, machine and device."""

    def __init__(self, found: Profile, machine: str, capacity: int) -> None:
        self.found, self.machine = found, machine
        self.peak = found.rows[:, k.PEAK]
        self.capacity = capacity or 1 << max(24, int(4 * found.sums[k.MOST]).bit_length())
        self.shape, self.tags = shape_of(machine)
        self.overwritten = found.rows[:, k.OVERWRITTEN] > 0

    def holds_pages(self, small: int, large: int) -> bool:
        """Return whether one page of the largest size that the thresholds offer fits on the device."""
        largest = 1 << 30 if large < FAR else 2 << 20 if small < FAR else 4096
        return largest <= self.capacity

    def classes(self, small: int, large: int, share: int) -> np.ndarray | None:
        """Return the page class of each file (0: 4 KiB, 1: 2 MiB, 2: 1 GiB); None if the files do not fit."""
        wanted = (self.peak > small).astype(np.int64) + (self.peak > large)
        allocated = _whole(self.found.snapshot, wanted)
        room = self.capacity
        if share:
            room = self.capacity * share // 100
            fits = np.cumsum(np.where(wanted > 0, allocated, 0)) <= room
            wanted = np.where(fits, wanted, 0)
            if _whole(self.found.snapshot, np.zeros_like(wanted))[wanted == 0].sum() > self.capacity - room:
                return None
            return wanted
        return wanted if allocated.sum() <= room else None

    def mapped(self, classes: np.ndarray, grain: str) -> np.ndarray:
        """Return the class of the pages that map each file: a grain smaller than the page splits it in overwritten files."""
        if grain in ("undo", "page"):
            most = 2
        else:
            most = 0 if grain == "mcow" else sum(1 << order <= parse_bytes(grain) for order in k.ORDERS[1:])
        return np.where(self.overwritten, np.minimum(classes, most), classes).astype(np.int64)

    def cycles(self, placed: dict[bytes, np.ndarray], jobs: int, progress: Any) -> dict[bytes, float]:
        """Return the walk cycles of each placement."""
        found, done = {}, 0
        if progress:
            progress("weighing", 0, len(placed))
        with ThreadPoolExecutor(jobs) as pool:
            for key, counts in zip(placed, pool.map(self.walks, placed.values()), strict=True):
                found[key] = float(counts[k.WALK_CYCLES]) / self.found.share
                done += 1
                if progress:
                    progress("weighing", done, len(placed))
        return found

    def walks(self, mapped: np.ndarray) -> np.ndarray:
        """Return an array with the number of page walks by class of page, then the cycles of all walks."""
        out, tags = np.zeros(4, np.int64), np.full(self.tags, -1, np.int64)
        k.walks(self.found.runs, mapped, layout(self.peak, mapped), self.shape, tags, out)
        return out

    def other_costs(self, choice: Choice, classes: np.ndarray) -> tuple[float, float]:
        """Return (wasted bytes, write amplification)."""
        sizes, rows = self.found.snapshot, self.found.rows
        held = np.where(self.overwritten, 0, classes) if choice.grain == "mcow" else classes
        waste = int((_whole(sizes, held) - sizes).sum())
        if not self.found.written:
            return waste, 1.0
        extra = int(self.found.sums[k.OVER])
        if choice.grain == "page":
            extra = int(np.take_along_axis(rows[:, k.COPIED : k.COPIED + 3], classes[:, None], 1).sum())
        elif choice.grain == "mcow":
            extra = int(self.found.sums[k.GRAINS] + self.found.sums[k.SWAPPED])
        elif choice.grain != "undo":
            extra = int(self.found.sums[k.GRAINS + GRAINS.index(parse_bytes(choice.grain).bit_length() - 1)])
        for limit, at_least in ((choice.small, 1), (choice.large, 2)):
            if limit < FAR and (at_least == 1 or choice.large > choice.small):
                extra += int(rows[classes >= at_least, k.MOVED + THRESHOLDS.index(limit)].sum())
        return waste, (self.found.written + extra) / self.found.written


def layout(peak: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the first page of each file, in units of its page size; files of the same page size are adjacent in a window."""
    start = np.zeros(len(peak), np.int64)
    for c, page in enumerate(PAGES):
        own = classes == c
        pages = -(-peak[own] // page)
        start[own] = np.cumsum(pages) - pages + (1 << (47 - 12 - 9 * c - c))
    return start


def shape_of(machine: str) -> tuple[np.ndarray, int]:
    """Return (shape for `kernels.walks`, number of tags) of a machine's data TLBs; raises UsageError for unsupported ones."""
    table = presets.read(machine)
    shape = np.full((k.SHAPE_ROWS, 5), -1, np.int64)
    walk, at = table["walk"], 0
    if walk["levels"] != 4 or walk.get("nested_levels") or any(bits != 9 for bits in walk.get("level_bits", [])):
        raise UsageError(
            f"{machine}: advise needs 4 levels of page tables, each with 512 entries, and no nested paging; the machine has "
            f"{walk['levels']} levels and {walk.get('nested_levels', 0)} nested levels; choose another machine"
        )
    for array in (*table["tlb"], *table["walk_cache"], *table.get("walk_memory", [])):
        sets = array["entries"] // array["ways"]
        found = list(_rows(array, table))
        if found and (array["ways"] > 16 or sets & (sets - 1)):
            raise UsageError(
                f"{machine}: {array.get('name', array.get('entry'))} has {array['ways']} ways and {sets} sets; advise takes at "
                "most 16 ways and a power of two of sets"
            )
        bits = sets.bit_length() - 1 if array.get("index") == "xor" else 0
        for row in found:
            shape[row] = at, sets - 1, array["ways"] - 1, bits, array.get("cycles", 0)
        at += sets * 16
    shape[k.MEMORY, k.CYCLES] = walk.get("memory_cycles", walk.get("ref_cycles", 0))
    for c in (1, 2):
        if shape[k.NEAR + c, k.LAST] < 0:
            raise UsageError(
                f"the first-level TLB of {machine} holds no pages of {format_bytes(PAGES[c])}; choose another machine"
            )
    return shape, at


def _rows(array: dict[str, Any], table: dict[str, Any]) -> Iterator[int]:
    """Yield the rows of the shape that a TLB or cache of the machine's table fills."""
    if "entry" in array:
        yield k.CUT + CACHE_LEVELS[array["entry"]] - 2
    elif "pages" not in array:
        yield k.SERVE + table["walk_memory"].index(array)
    for key, level in (("first_level_for", k.NEAR), ("second_level_for", k.WIDE)):
        for text in array["pages"] if "load" in array.get(key, []) else ():
            for c, page in enumerate(PAGES):
                if text == ANY or page_order(text) == page.bit_length() - 1:
                    yield level + c


def _whole(sizes: np.ndarray, classes: np.ndarray) -> np.ndarray:
    page = np.array(PAGES)[classes]
    return -(-sizes // page) * page
