"""Writing of events by file-system kernels.

`emit_run` and `emit_work` append one event.  A mechanism that always emits the same sequence has an *event template*: its
events in the order of the source.  Their addresses and lengths come from registers that the kernel sets, and `emit_template`
appends the events.
Templates are data, so a model of many mechanisms stays a small kernel (numba's compile time follows the amount of kernel code).

Every model's state record starts with HEADER; `state.op` is the row of the current operation.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.memory import expect_room
from scmsim.core.records import CONTINUES, FENCE, MUNMAP, PM, SETUP, TEXT, WORK, WRITE, pack
from scmsim.jit import kernel

MAX_COSTS = 160  # rows of a state record's cost table
FREE_COST = -1  # site of an unused cost row
MAX_TEMPLATES = 96
MOST_REFUSED = 64  # operations that one call of a kernel may refuse: the state has a place for each
MAX_STEPS = 384  # total over all templates
MOST_WORDS = 1 << 31  # of an arena: 16 GiB
ARENA_ORDERS = 48  # size classes (powers of two) of the arena's free lists

# A step of a template: constant part of the event (records.pack), register and offset of its address, constant length, length
# register, and a register that is added to the width.  A WORK step charges `length` times the cost row `offset`, plus the length
# register times the cost row `base`.
WHAT, BASE, OFFSET, LENGTH, LENGTH_REG, WIDTH_REG = range(6)

HEADER = [
    ("emitted", "i8"),  # events written into the buffer by this call
    ("op", "i8"),  # row of the current operation in the OP batch
    ("need_events", "i8"),  # events that one operation needs, set when the buffer is too small for them
    ("need_words", "i8"),  # words needed beyond arena_top, set when the arena is too small
    ("need_collect", "i8"),  # set when the model's `collect` has deferred work to do for the last operation
    ("maps", "i8"),  # arena offset of the table of mappings, 0: no trace has touched a mapping yet
    # first of two cost rows: mmap, munmap (without the system call); 0: a trace touched a mapping, whose kernels charge both
    ("map_cost", "i8"),
    (
        "paths",
        "i8",
    ),  # arena offset of the files' directories beyond those in the costs of calls; 0: no path walk is charged
    ("walked", "i8"),  # set once the path walk of the current operation is charged
    ("walk_cost", "i8"),  # cost row of one directory in a path walk
    ("arena_top", "i8"),  # first free word of the arena
    ("arena_free", "i8", (ARENA_ORDERS,)),  # heads of the free lists, -1 = empty
    ("failed", "i8"),  # operations that ended with ENOSPC
    ("short", "i8"),  # writes that were done in part, because the device was too full for the rest
    ("failed_bytes", "i8"),  # bytes that were requested and not written, without setup operations
    ("failed_calls", "i8"),  # failed calls, without setup operations
    ("first_failed", "i8"),  # index of the first failed operation, -1 = none
    ("refused", "i8"),  # operations that ended with ENOSPC since Python last looked
    ("refused_rows", "i8", (MOST_REFUSED,)),  # rows of the refused operations in the OP batch
    ("seen", "i8"),  # operations taken so far
    ("cut_to", "i8"),  # bytes of the current write that fit on the device, set when not all of them do
    # (instructions, loads, stores in thousandths, site) per unit of each cost
    ("cost", "i8", (MAX_COSTS, 4)),
    ("reg", "i8", (32,)),  # registers of the templates; register 0 is always 0
    ("template_at", "i8", (MAX_TEMPLATES + 1,)),
    ("template", "i8", (MAX_STEPS, 6)),
]


def new_state(dtype: np.dtype, words: int, costs: np.ndarray) -> "State":
    """Return a zeroed state record of `dtype` (which starts with HEADER) and an arena of `words` int64 words."""
    record = np.zeros(1, dtype).view(np.recarray)
    record.arena_free[:] = -1
    record.first_failed = -1
    record.arena_top = 8  # offset 0 means "none" in every table
    record.cost[0, :, 3] = FREE_COST
    record.cost[0, : len(costs)] = costs
    return State(record, np.zeros(words, np.int64))


class TemplateBuilder:
    """Builder of template steps from the names of a model's sites and costs.

    `space` is the default address space of a run; `first_cost` is the cost row of the first of `costs`.
    """

    def __init__(self, sites: Iterable[str], costs: Sequence[str] = (), space: int = PM, first_cost: int = 0) -> None:
        self._site = {name: code for code, name in enumerate(sites)}
        self._cost = {name: first_cost + row for row, name in enumerate(costs)}
        self._space = space

    def run(
        self, code: int, site: str, base: int, at: int = 0, length: int = 0, by: int = 0,
        *, space: int | None = None, width: int = 0, width_by: int = 0,
    ) -> tuple[int, ...]:  # fmt: skip
        """Return a step that emits one event.

        The run starts at address (value of register `base`) + `at`; it is `length` + (value of register `by`) bytes long and
        `width` + (value of register `width_by`) wide.
        What the width means depends on `code`, see records.EVENT_ALIASES.
        """
        what = pack(code, self._site[site], self._space if space is None else space, width)
        return what, base, at, length, by, width_by

    def work(self, cost: str, times: int = 0, by: int = 0) -> tuple[int, ...]:
        """Return a step that charges a cost `times` + register `by` times."""
        return WORK, 0, self._cost[cost], times, by, 0

    def fence(self, site: str, times: int = 1, by: int = 0) -> tuple[int, ...]:
        """Return a step that emits `times` + register `by` fences."""
        return self.run(FENCE, site, 0, 0, times, by, space=PM)


class State:
    """A model's state: one record and the arena that its growing tables live in."""

    def __init__(self, record: np.recarray, arena: np.ndarray) -> None:
        self.record = record
        self.arena = arena

    def grow(self, words: int) -> None:
        """Enlarge the arena by doubling until at least `words` words follow the arena's top."""
        need = int(self.record.arena_top[0]) + words
        length = len(self.arena)
        while length < need:
            length *= 2
        if length > MOST_WORDS:
            raise UsageError(
                f"the model's tables would take {8 * length >> 30} GiB: a file's page table grows with its "
                "largest offset; look for huge offsets with 'scmsim trace info'"
            )
        expect_room(8 * need, "the model's tables")  # the old arena is copied, so both exist for a moment
        arena = np.zeros(length, np.int64)
        arena[: len(self.arena)] = self.arena
        self.arena = arena


def load_templates(state: "State", templates: Mapping[int, Sequence[Sequence[int]]], merge: bool = True) -> None:
    """Store the templates (number -> steps) in the state record; the numbers must be 0, 1, 2, ... in order.

    A WORK step charges its cost `length` + register times.  `merge` turns the WORK of one site into one event.  Constant parts are
    added up here, so costs must be final.
    """
    record, at = state.record.view(np.ndarray)[0], 0  # attribute access of a recarray takes microseconds
    for number, steps in enumerate(templates.values()):
        merged = _merge_work(record, steps, merge)
        record["template_at"][number] = at
        record["template"][at : at + len(merged)] = np.array(merged, np.int64).reshape(-1, 6)
        at += len(merged)
    record["template_at"][len(templates) :] = at


def _merge_work(record: Any, steps: Sequence[Sequence[int]], merge: bool) -> list[Sequence[int]]:
    """Return the steps in `emit_template`'s format; one step holds a site's constant WORK and its first WORK by register."""
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
    """Take a free cost row for a merged step, from the table's end downwards."""
    row = int(np.flatnonzero(costs[:, 3] == FREE_COST)[-1])
    costs[row] = (0, 0, 0, site)
    return row


@kernel
def reserve_events(s, out, events):
    """Return whether `events` more events fit; if not, request a buffer that holds them."""
    if s.emitted + events <= out.size:
        return True
    s.need_events = events
    return False


@kernel
def note_refused(s):
    """Record the current operation as refused: it moves no bytes and changes no length (`Model.refused`)."""
    if s.refused < MOST_REFUSED:
        s.refused_rows[s.refused] = s.op
        s.refused += 1


@kernel
def count_enospc(s, op):
    """Count an operation that failed with ENOSPC."""
    s.failed += 1
    if s.first_failed < 0:
        s.first_failed = s.seen
    note_refused(s)
    if op.flag & SETUP:
        return
    if op.op == WRITE:
        s.failed_bytes += op.length
    if not op.flag & CONTINUES:
        s.failed_calls += 1


@kernel
def count_short(s, op):
    """Count a write of which only the first `s.cut_to` bytes will be done."""
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
    """Append the instructions, loads and stores of `times` times cost row `cost` (text page = its site)."""
    e = out[s.emitted]
    e.code = WORK
    e.site = s.cost[cost, 3]
    e.space = TEXT
    e.order = 0
    e.op = s.op
    e.instructions = s.cost[cost, 0] * times
    e.loads = s.cost[cost, 1] * times
    e.stores = s.cost[cost, 2] * times
    e.vaddr = 0
    s.emitted += 1


@kernel
def charge_map(s, out, code):
    """Charge an mmap or munmap without its system call, unless mapping kernels charge it; emits at most 1 event."""
    if s.map_cost:
        emit_work(s, out, s.map_cost + (code == MUNMAP), 1)


@kernel
def emit_template(s, out, template):
    """Append the events of a template; skip steps whose length is 0.

    The masks let LLVM infer that no index is negative, and invariant values are read once: this saves 2 to 3 ns per event.
    """
    n, op = s.emitted, s.op
    for step in range(s.template_at[template], s.template_at[template + 1]):
        k = step & 0x7FFFFFFF
        length, variable = s.template[k, LENGTH], s.reg[s.template[k, LENGTH_REG] & 31]
        if length + variable <= 0:
            continue
        what, base, offset = s.template[k, WHAT], s.template[k, BASE] & 0x7FFFFFFF, s.template[k, OFFSET]
        e = out[n & 0x7FFFFFFF]
        e.code = what & 255
        e.op = op
        e.order = 0
        e.vaddr = 0
        if what & 255 == WORK:
            offset &= 0x7FFFFFFF
            e.site = s.cost[offset, 3]
            e.space = TEXT
            e.instructions = s.cost[offset, 0] * length + s.cost[base, 0] * variable
            e.loads = s.cost[offset, 1] * length + s.cost[base, 1] * variable
            e.stores = s.cost[offset, 2] * length + s.cost[base, 2] * variable
        else:
            e.site = (what >> 8) & 255
            e.space = (what >> 16) & 255
            e.addr = s.reg[base & 31] + offset
            e.length = length + variable
            e.width = (what >> 24) + s.reg[s.template[k, WIDTH_REG] & 31]
        n += 1
    s.emitted = n
