"""How a file-system kernel writes events.

`run` and `work` append one event.  A mechanism that always emits the same sequence is a *recipe*: a table of event templates
in the order of the source, whose addresses and lengths come from registers that the kernel fills in; `play` appends it.
Recipes are data, so a model of many mechanisms stays a small kernel (compile time of numba follows the amount of kernel code).

Every model's state record starts with HEADER; `state.op` is the row of the operation at work.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from scmsim._jit import kernel
from scmsim.records import TEXT, WORK

MAX_COSTS = 96  # rows of the cost table that a state record has room for
MAX_RECIPES = 64
MAX_STEPS = 320  # steps of all recipes together
ARENA_ORDERS = 48  # size classes (powers of two) of the arena's free lists

# A step of a recipe: constant part of the event (records.pack), register and offset of its address, constant length plus a
# length register, and a register added to its width.  WORK: offset = cost row, length = how many times.
WHAT, BASE, OFFSET, LENGTH, LENGTH_REG, WIDTH_REG = range(6)

HEADER = [
    ("emitted", "i8"),  # events written into the buffer by this call
    ("op", "i8"),  # row of the current operation in the OP batch
    ("need_events", "i8"),  # set when the buffer is too small for one operation: the room it needs
    ("need_words", "i8"),  # set when the arena is too small: the words it needs beyond arena_top
    ("need_collect", "i8"),  # set when the model's `collect` has deferred work to do for the last operation
    ("arena_top", "i8"),  # first free word of the arena
    ("arena_free", "i8", (ARENA_ORDERS,)),  # heads of the free lists, -1 = empty
    ("failed", "i8"),  # operations that ended with ENOSPC
    ("first_failed", "i8"),  # running number of the first of them, -1 = none
    ("seen", "i8"),  # operations taken so far
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
    record.cost[0, : len(costs)] = costs
    return State(record, np.zeros(words, np.int64))


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
        arena = np.zeros(length, np.int64)
        arena[: len(self.arena)] = self.arena
        self.arena = arena


def load_recipes(state: "State", recipes: Mapping[int, Sequence[Sequence[int]]]) -> None:
    """Put the recipes (number -> steps) into the state record; numbers must be 0, 1, 2, ... in order."""
    record, at = state.record[0], 0
    for number, steps in enumerate(recipes.values()):
        record.recipe_at[number] = at
        record.recipe[at : at + len(steps)] = np.array(steps, np.int64).reshape(-1, 6)
        at += len(steps)
    record.recipe_at[len(recipes) :] = at


@kernel
def run(s, out, what, addr, length):
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
def work(s, out, cost, times):
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
def play(s, out, recipe):
    """Append the events of a recipe; steps whose length comes out as 0 are skipped."""
    for k in range(s.recipe_at[recipe], s.recipe_at[recipe + 1]):
        times = s.recipe[k, LENGTH] + s.reg[s.recipe[k, LENGTH_REG]]
        if times <= 0:
            continue
        what = s.recipe[k, WHAT]
        e = out[s.emitted]
        e.code = what & 255
        e.op = s.op
        e.order = 0
        e.vaddr = 0
        offset = s.recipe[k, OFFSET]
        if what & 255 == WORK:
            e.site = s.cost[offset, 3]
            e.space = TEXT
            e.addr = s.cost[offset, 0] * times
            e.length = s.cost[offset, 1] * times
            e.width = s.cost[offset, 2] * times
        else:
            e.site = (what >> 8) & 255
            e.space = (what >> 16) & 255
            e.addr = s.reg[s.recipe[k, BASE]] + offset
            e.length = times
            e.width = (what >> 24) + s.reg[s.recipe[k, WIDTH_REG]]
        s.emitted += 1
