"""How a file-system kernel writes events.

`emit_run` and `emit_work` append one event.  A mechanism that always emits the same sequence is a *recipe*: event templates
in the order of the source, whose addresses and lengths come from registers that the kernel fills in; `emit_recipe` appends it.
Recipes are data, so a model of many mechanisms stays a small kernel (compile time of numba follows the amount of kernel code).

Every model's state record starts with HEADER; `state.op` is the row of the operation at work.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.memory import expect_room
from scmsim.core.records import CONTINUES, FENCE, MUNMAP, PM, SETUP, TEXT, WORK, WRITE, pack
from scmsim.jit import kernel

MAX_COSTS = 160  # rows of the cost table that a state record has room for
FREE_COST = -1  # site of an unused cost row
MAX_RECIPES = 96
MOST_REFUSED = 64  # operations that one call of a kernel may refuse, so that the state has a place for each
MAX_STEPS = 384  # steps of all recipes together
MOST_WORDS = 1 << 31  # of an arena: 16 GiB
ARENA_ORDERS = 48  # size classes (powers of two) of the arena's free lists

# A step of a recipe: constant part of the event (records.pack), register and offset of its address, constant length plus a
# length register, and a register added to its width.  WORK: `length` times the cost row `offset`, and the length register
# times the cost row `base`.
WHAT, BASE, OFFSET, LENGTH, LENGTH_REG, WIDTH_REG = range(6)

HEADER = [
    ("emitted", "i8"),  # events written into the buffer by this call
    ("op", "i8"),  # row of the current operation in the OP batch
    ("need_events", "i8"),  # set when the buffer is too small for one operation: the room it needs
    ("need_words", "i8"),  # set when the arena is too small: the words it needs beyond arena_top
    ("need_collect", "i8"),  # set when the model's `collect` has deferred work to do for the last operation
    ("maps", "i8"),  # arena offset of the table of mappings, 0: no trace touched one yet
    # row of what mmap costs besides any call, munmap's behind it; 0: a trace touched a mapping, whose kernels charge them
    ("map_cost", "i8"),
    ("arena_top", "i8"),  # first free word of the arena
    ("arena_free", "i8", (ARENA_ORDERS,)),  # heads of the free lists, -1 = empty
    ("failed", "i8"),  # operations that ended with ENOSPC
    ("short", "i8"),  # writes that were done in part, as the device had no room for the rest
    ("failed_bytes", "i8"),  # what writes asked for and did not write, setup left out
    ("failed_calls", "i8"),  # calls among them, setup left out
    ("first_failed", "i8"),  # running number of the first of them, -1 = none
    ("refused", "i8"),  # operations that ended with ENOSPC since Python last looked
    ("refused_rows", "i8", (MOST_REFUSED,)),  # their rows in the OP batch
    ("seen", "i8"),  # operations taken so far
    ("cut_to", "i8"),  # set when the device has room for so many bytes of a write: it is to be done with that length
    # (instructions, loads, stores in thousandths, site) per unit of each cost
    ("cost", "i8", (MAX_COSTS, 4)),
    ("reg", "i8", (32,)),  # registers of the recipes; register 0 stays 0
    ("recipe_at", "i8", (MAX_RECIPES + 1,)),
    ("recipe", "i8", (MAX_STEPS, 6)),
]


def new_state(dtype: np.dtype, words: int, costs: np.ndarray) -> "State":
    """Zeroed state record of `dtype` (which starts with HEADER) and an arena of `words` int64 words."""
    record = np.zeros(1, dtype).view(np.recarray)
    record.arena_free[:] = -1
    record.first_failed = -1
    record.arena_top = 8  # offset 0 means "none" in every table
    record.cost[0, :, 3] = FREE_COST
    record.cost[0, : len(costs)] = costs
    return State(record, np.zeros(words, np.int64))


class RecipeBuilder:
    """Makes the steps of a model's recipes from the names of its sites and costs.

    `space` is where runs lie unless a step says otherwise; `first_cost` is the cost row of the first of `costs`.
    """

    def __init__(self, sites: Iterable[str], costs: Sequence[str] = (), space: int = PM, first_cost: int = 0) -> None:
        self._site = {name: code for code, name in enumerate(sites)}
        self._cost = {name: first_cost + row for row, name in enumerate(costs)}
        self._space = space

    def run(
        self, code: int, site: str, base: int, at: int = 0, length: int = 0, by: int = 0,
        *, space: int | None = None, width: int = 0, width_by: int = 0,
    ) -> tuple[int, ...]:  # fmt: skip
        """One event: run of `length` + register `by` bytes at register `base` + `at`, wide `width` + register `width_by`."""
        what = pack(code, self._site[site], self._space if space is None else space, width)
        return what, base, at, length, by, width_by

    def work(self, cost: str, times: int = 0, by: int = 0) -> tuple[int, ...]:
        """A cost, `times` + register `by` times."""
        return WORK, 0, self._cost[cost], times, by, 0

    def fence(self, site: str, times: int = 1, by: int = 0) -> tuple[int, ...]:
        """`times` + register `by` fences."""
        return self.run(FENCE, site, 0, 0, times, by, space=PM)


class State:
    """A model's state: one record and the arena that its growing tables live in."""

    def __init__(self, record: np.recarray, arena: np.ndarray) -> None:
        self.record = record
        self.arena = arena

    def grow(self, words: int) -> None:
        """Make room for at least `words` more words beyond the arena's top (doubling)."""
        need = int(self.record.arena_top[0]) + words
        length = len(self.arena)
        while length < need:
            length *= 2
        if length > MOST_WORDS:
            raise UsageError(
                f"the model's tables would take {8 * length >> 30} GiB: a file's page table follows its largest offset; "
                "look for huge offsets with 'scmsim trace info'"
            )
        expect_room(8 * need, "the model's tables")  # the old arena is copied: both are there for a moment
        arena = np.zeros(length, np.int64)
        arena[: len(self.arena)] = self.arena
        self.arena = arena


def load_recipes(state: "State", recipes: Mapping[int, Sequence[Sequence[int]]], merge: bool = True) -> None:
    """Put the recipes (number -> steps) into the state record; numbers must be 0, 1, 2, ... in order.

    A WORK step charges its cost `length` + register times.  The WORK of one site becomes one event (`merge`); constant parts are
    added up here, so costs must be final.
    """
    record, at = state.record.view(np.ndarray)[0], 0  # attribute access of a recarray takes microseconds
    for number, steps in enumerate(recipes.values()):
        merged = _merge_work(record, steps, merge)
        record["recipe_at"][number] = at
        record["recipe"][at : at + len(merged)] = np.array(merged, np.int64).reshape(-1, 6)
        at += len(merged)
    record["recipe_at"][len(recipes) :] = at


def _merge_work(record: Any, steps: Sequence[Sequence[int]], merge: bool) -> list[Sequence[int]]:
    """The steps as `emit_recipe` reads them; a site's constant WORK, and its first WORK by register, in one step."""
    costs = record["cost"]
    constant = {int(costs[s[OFFSET], 3]) for s in steps if s[WHAT] & 255 == WORK and s[LENGTH]} if merge else set()
    merged: list[Sequence[int]] = []
    place: dict[int, int] = {}  # site -> index of its merged step
    for step in steps:
        cost, by = step[OFFSET], step[LENGTH_REG]
        if step[WHAT] & 255 != WORK:
            merged.append(step)
            continue
        site = int(costs[cost, 3])
        if site not in constant:
            merged.append((WORK, cost, cost, step[LENGTH], by, 0))
            continue
        if site not in place:
            place[site] = len(merged)
            merged.append((WORK, 0, _spare_cost(costs, site), 1, 0, 0))
        k = place[site]
        costs[merged[k][OFFSET], :3] += costs[cost, :3] * step[LENGTH]
        if by and merged[k][LENGTH_REG]:
            merged.append((WORK, cost, cost, 0, by, 0))
        elif by:
            merged[k] = (WORK, cost, merged[k][OFFSET], 1, by, 0)
    return merged


def _spare_cost(costs: np.ndarray, site: int) -> int:
    """A cost row for a merged step, from the table's end down."""
    row = int(np.flatnonzero(costs[:, 3] == FREE_COST)[-1])
    costs[row] = (0, 0, 0, site)
    return row


@kernel
def has_events(s, out, events):
    """Whether `events` more events fit; if not, asks for a buffer that holds them."""
    if s.emitted + events <= out.size:
        return True
    s.need_events = events
    return False


@kernel
def count_enospc(s, op):
    """Note that an operation failed with ENOSPC."""
    s.failed += 1
    if s.first_failed < 0:
        s.first_failed = s.seen
    if s.refused < MOST_REFUSED:
        s.refused_rows[s.refused] = s.op
        s.refused += 1
    if op.flag & SETUP:
        return
    if op.op == WRITE:
        s.failed_bytes += op.length
    if not op.flag & CONTINUES:
        s.failed_calls += 1


@kernel
def count_short(s, op):
    """Note that a write is to be done in part: its first `s.cut_to` bytes."""
    s.short += 1
    if not op.flag & SETUP:
        s.failed_bytes += op.length - s.cut_to


@kernel
def emit_run(s, out, what, addr, length):
    """Append one event; `what` is records.pack(code, site, space, width)."""
    e = out[s.emitted]
    e.code = what & 255
    e.site = (what >> 8) & 255
    e.space = (what >> 16) & 255
    e.order = 0
    e.op = s.op
    e.width = what >> 24
    e.addr = addr
    e.length = length
    e.vaddr = 0
    s.emitted += 1


@kernel
def emit_work(s, out, cost, times):
    """Append the instructions, loads and stores of cost row `cost`, `times` times (text page = its site)."""
    e = out[s.emitted]
    e.code = WORK
    e.site = s.cost[cost, 3]
    e.space = TEXT
    e.order = 0
    e.op = s.op
    e.addr = s.cost[cost, 0] * times
    e.length = s.cost[cost, 1] * times
    e.width = s.cost[cost, 2] * times
    e.vaddr = 0
    s.emitted += 1


@kernel
def charge_map(s, out, code):
    """What an mmap or munmap costs besides any call, as long as no mapping was touched; takes an event."""
    if s.map_cost:
        emit_work(s, out, s.map_cost + (code == MUNMAP), 1)


@kernel
def emit_recipe(s, out, recipe):
    """Append the events of a recipe; steps whose length comes out as 0 are skipped.

    The masks tell LLVM that no index is negative, and what does not change is read once: 2 to 3 ns less an event.
    """
    n, op = s.emitted, s.op
    for step in range(s.recipe_at[recipe], s.recipe_at[recipe + 1]):
        k = step & 0x7FFFFFFF
        length, variable = s.recipe[k, LENGTH], s.reg[s.recipe[k, LENGTH_REG] & 31]
        if length + variable <= 0:
            continue
        what, base, offset = s.recipe[k, WHAT], s.recipe[k, BASE] & 0x7FFFFFFF, s.recipe[k, OFFSET]
        e = out[n & 0x7FFFFFFF]
        e.code = what & 255
        e.op = op
        e.order = 0
        e.vaddr = 0
        if what & 255 == WORK:
            offset &= 0x7FFFFFFF
            e.site = s.cost[offset, 3]
            e.space = TEXT
            e.addr = s.cost[offset, 0] * length + s.cost[base, 0] * variable
            e.length = s.cost[offset, 1] * length + s.cost[base, 1] * variable
            e.width = s.cost[offset, 2] * length + s.cost[base, 2] * variable
        else:
            e.site = (what >> 8) & 255
            e.space = (what >> 16) & 255
            e.addr = s.reg[base & 31] + offset
            e.length = length + variable
            e.width = (what >> 24) + s.reg[s.recipe[k, WIDTH_REG] & 31]
        n += 1
    s.emitted = n
