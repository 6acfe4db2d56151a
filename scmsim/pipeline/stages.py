"""Stages that a model's events pass through, and the loop over them; the caller's list decides which stages run.

A stage takes the events of a buffer and may fill in fields for later stages; the first stage of a full replay chooses the
row of the counters for each event.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scmsim.core import registry
from scmsim.core.counters import COUNTERS
from scmsim.core.errors import UsageError
from scmsim.core.records import EVENT, OPS, SLICE, Files
from scmsim.footprint import NO_FOOTPRINTS, FootprintTable
from scmsim.footprint.expand import expanded
from scmsim.footprint.interleave import OPEN_FILE
from scmsim.fs.engine.model import ROOM, Model
from scmsim.medium import model as medium
from scmsim.mmu import presets, touches
from scmsim.mmu.data_addresses import addresses
from scmsim.mmu.replay import NO_SLICES, replay_touched
from scmsim.mmu.state import LOGGED
from scmsim.paging._linear import measured_orders
from scmsim.pipeline.arguments import GROUPS
from scmsim.pipeline.bins import BY_FILE, SUMS, assign_bins, first_rows, follow_sizes
from scmsim.pipeline.failing_calls import LARGEST_FILE, FailingCalls
from scmsim.pipeline.faults import count_faults
from scmsim.pipeline.periods import Watched
from scmsim.system import rep_strings, surround

_WALKED = 1 << 23  # page-table entries that walks of one buffer of events may read; unused pages cost no memory
MAX_BINS = 1 << 19  # rows of counters (0.4 KiB each) that a breakdown may take
# Capacity of the event buffer, per operation of a batch.  A stage begins each buffer with cold caches, because the other stages
# have used them.
# 2 instead of 1 saves up to 6 % of a replay, 4 saves no more where operations have few events.
EVENTS_PER_OPERATION = 2


class Stage:
    """A consumer of events.

    If `trails` is set, no other stage needs its results, so it may work on another thread, later than the others.
    """

    trails = False

    def begin(self, batch: np.recarray) -> None:
        """Prepare for the events of a batch of operations."""

    def take(self, events: np.ndarray, bins: np.ndarray) -> None:
        """Process the events of one buffer, in order; `bins` has the row of the counters for each event."""
        raise NotImplementedError

    def done(self, batch: np.recarray) -> None:
        """Receive the batch as the model executed it: refused operations have length 0, short writes their real length."""

    def end(self) -> None:
        """Finish a batch, after its last event."""

    def settle(self) -> None:
        """Wait until the stage has processed everything that it received."""

    def watched(self) -> list[Watched]:
        """Return the stage's state, which must recur for passes to be skipped."""
        return []

    def totals(self) -> list[np.ndarray]:
        """Return the stage's arrays of counts, which do not influence later events."""
        return []


class Loop:
    """A model, the calls that fail before they reach the model, and the stages after it."""

    def __init__(self, model: Model, stages: Sequence[Stage], files: Files) -> None:
        self.model, self.stages = model, stages
        self.failing = FailingCalls(files, getattr(model.module, "LARGEST_FILE", LARGEST_FILE))
        self.bins = np.zeros(len(model.out), np.int64)

    def take(self, batch: np.recarray) -> None:
        """Replay all operations of a batch."""
        batch = self.failing.replace(batch)
        for stage in self.stages:
            stage.begin(batch)
        for events in self.model.events(batch):
            if len(events) > len(self.bins):
                self.bins = np.zeros(len(self.model.out), np.int64)
            bins = self.bins[: len(events)]
            for stage in self.stages:
                stage.take(events, bins)
        done = self.model.done(batch)
        for stage in self.stages:
            stage.done(done)
            stage.end()

    def settle(self) -> None:
        """Wait until all stages have done their work."""
        for stage in self.stages:
            stage.settle()


class CounterIndex(Stage):
    """Stage that chooses the row of counters for each event: (operation or file of its cause) x (site).

    The last row is for events that do not count.  `by` is a breakdown of GROUPS.
    """

    def __init__(self, files: Files, sites: Sequence[str], by: str) -> None:
        self.by, self.sites = GROUPS.index(by), len(sites)
        self.groups = (1, len(OPS), len(files) + 1)[self.by]  # the last file group: operations without a file
        if self.groups * self.sites > MAX_BINS:
            raise UsageError(f"{self.groups} files are too many for --by file; use --by op, or cut the trace")
        self.counters = np.zeros(self.groups * self.sites + 1, COUNTERS)
        self.operations = np.zeros(self.groups, np.int64)
        self.sums = np.zeros(1, SUMS)  # calls and bytes requested by the operations so far
        self.sizes = np.array(files.first_size, np.int64)  # file sizes after the operations so far, bytes
        self.threads = 0  # lower bound of the counted operations' threads: highest number + 1
        self.ended = np.zeros(1, np.int64)  # trace time of the last operation, ns
        self.rows = np.zeros(0, np.int64)  # first row of each operation of this batch

    def begin(self, batch: np.recarray) -> None:
        """Find the first row of each operation's group, -1 if it does not count; sum up what the operations request."""
        self.rows = rows = np.empty(len(batch), np.int64)
        first_rows(batch.view(np.ndarray), self.by, self.sites, self.sums, rows)
        if self.by == BY_FILE:
            rows[(rows >= 0) & (batch.file < 0)] = (self.groups - 1) * self.sites
        if self.by:
            self.operations += np.bincount(rows[rows >= 0] // self.sites, minlength=self.groups)
        self.threads = max(self.threads, 1 + int(batch.thread[rows >= 0].max(initial=-1)))
        self.ended[0] = batch[-1]["time_ns"]

    def take(self, events: np.ndarray, bins: np.ndarray) -> None:
        assign_bins(events, len(events), self.rows, len(self.counters) - 1, bins)

    def done(self, batch: np.recarray) -> None:
        follow_sizes(batch.view(np.ndarray), self.sizes, self.sums)

    def check(self) -> None:
        """Raise UsageError if a sum has overflowed int64: instructions, in thousandths, are the largest."""
        if min(self.counters["instructions"].min(), self.sums["written"][0], self.sums["read"][0]) < 0:
            raise UsageError("the sums of this trace pass 2^63 (instructions in thousandths, or bytes); cut the trace")

    def watched(self) -> list[Watched]:
        return [Watched(self.sizes)]

    def totals(self) -> list[np.ndarray]:
        return [self.counters, self.sums, self.operations, self.ended]


class Placement(Stage):
    """Stage that gives events virtual addresses and page sizes, by a mapping policy."""

    def __init__(self, policy: str, params: Mapping[str, Any]) -> None:
        self.policy = registry.load("paging", policy)
        self.pages = self.policy.start(params).view(np.ndarray)

    def take(self, events: np.ndarray, bins: np.ndarray) -> None:
        self.policy.place(self.pages, events, len(events))

    def measured_orders(self, vaddr: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Return log2 of the page sizes that this policy gives to kernel memory measured on another machine."""
        return measured_orders(self.pages, vaddr, order) if "giant" in self.pages.dtype.fields else order

    def watched(self) -> list[Watched]:
        return [Watched(self.pages)]


class Mmu(Stage):
    """TLBs and page walks of a machine."""

    trails = True

    def __init__(self, machine: dict[str, Any], counting: CounterIndex) -> None:
        self.state, self.counting = presets.machine(machine).view(np.ndarray), counting
        self.known, self.walked = touches.NOTHING, np.zeros(0, LOGGED)

    def learn(self, book: FootprintTable) -> None:
        """Prepare the touches of `book`, to which slices refer; called before any event."""
        places = np.zeros(len(book.pages), touches.PLACE)
        places["vaddr"], places["order"] = book.pages["vaddr"], book.pages["order"]
        places["kind"], places["which"] = np.divmod(book.pages["cache"], OPEN_FILE)[::-1]
        self.known = touches.table(self.state, places, book.touches, book.bounds, book.inodes)

    def take(self, events: np.ndarray, bins: np.ndarray) -> None:
        self.count(events, bins, NO_SLICES)

    def count(self, events: np.ndarray, bins: np.ndarray, slices: np.ndarray) -> None:
        """Replay the touches that precede each event, then the event; count both in the event's row."""
        replay_touched(self.state, self.counting.counters, self.known, slices, events, bins)

    def log_walks(self) -> None:
        """Record from now on which page-table entries page walks read; `walks` returns them."""
        self.walked = np.zeros(_WALKED, LOGGED)
        self.state[0]["log"], self.state[0]["log_room"] = self.walked.ctypes.data, len(self.walked)

    def walks(self) -> np.ndarray:
        """Return the page-table entries that walks read since the last call, in order, as LOGGED with the number of the event."""
        state = self.state[0]
        if (read := int(state["logged"])) > len(self.walked) and state["log"]:
            raise UsageError(f"{read:,} page-table entries at once are too many for the caches; give a smaller chunk")
        state["logged"] = state["event"] = 0
        return self.walked[:read]

    def watched(self) -> list[Watched]:
        clocks = ("now", "free_at", "active_until")
        return [Watched(self.state, clocks=clocks, hints=("known",), moved=self._moved_along)]

    def _moved_along(self, then: Mapping[str, np.ndarray]) -> bool:
        """Return whether all walkers' times moved as far as the clock since `then`, or none of them moved."""
        now = self.state[0]
        moved = np.append(
            (now["free_at"] - then["free_at"][0])[: now["walkers"]], now["active_until"] - then["active_until"]
        )
        return not moved.any() or bool((moved == now["now"] - then["now"][0]).all())


class Faults(Stage):
    """Stage that counts page faults of files that the program, or a library on its behalf, maps."""

    def __init__(self, status: np.ndarray, counting: CounterIndex) -> None:
        self.status, self.counting = status, counting

    def take(self, events: np.ndarray, bins: np.ndarray) -> None:
        if self.status[0]["maps"]:
            count_faults(self.counting.counters, events, bins, len(events))


class BackgroundStage(Mmu):
    """An MMU that also replays background activity between the model's events; no other stage sees this activity."""

    def __init__(self, mmu: Mmu, system: Mapping[str, Any], machine: Mapping[str, Any]) -> None:
        self.mmu, self.counting, self.state = mmu, mmu.counting, mmu.state
        self.walked = mmu.walked  # stays empty: other events than the model's have walks, too
        pcid = bool(mmu.state[0]["pcid"])
        self.around = surround.start(system, machine.get("time", {}), pcid, len(mmu.counting.counters) - 1)
        self.own_stacks, self.threads, self.book = system["thread_stacks"], np.zeros(0, np.int64), NO_FOOTPRINTS
        self._expect(surround.TICK)

    def begin(self, batch: np.recarray) -> None:
        self.around.op[0], self.threads = -1, batch.thread

    def _expect(self, interrupt: np.ndarray) -> None:
        """Set the touches of an interrupt (surround.TOUCH); allocate buffers for the events and the additions."""
        self.interrupt, room = interrupt, ROOM + int(self.around.most[0]) + len(interrupt)
        self.events, self.rows, self.slices = np.zeros(room, EVENT), np.zeros(room, np.int64), np.zeros(room, SLICE)

    def learn(self, book: FootprintTable) -> None:
        if len(book.interrupt):
            pages, interrupt = book.pages[book.interrupt >> 1], np.zeros(len(book.interrupt), surround.TOUCH)
            interrupt["vaddr"], interrupt["order"] = pages["vaddr"], pages["order"]
            interrupt["stores"] = book.interrupt & 1
            self._expect(interrupt)
        if self.own_stacks:
            self.book = book
        else:
            self.mmu.learn(book)

    def count(self, events: np.ndarray, bins: np.ndarray, slices: np.ndarray) -> None:
        if not self.own_stacks:
            self._surround(events, bins, slices)
            return
        for some, their_bins in expanded(self.book, slices, events, bins):
            surround.own_stacks(some, self.threads)
            self._surround(some, their_bins, NO_SLICES)

    def _surround(self, events: np.ndarray, bins: np.ndarray, slices: np.ndarray) -> None:
        self.around.at[0], self.around.sliced[0], whole = 0, 0, False
        out = (self.events, self.rows, self.slices)
        while not whole:
            whole = surround.surround(self.around, self.interrupt, out, (events, bins, slices))
            count = int(self.around.emitted[0])
            self.mmu.count(self.events[:count], self.rows, self.slices[: self.around.slices[0]])

    def watched(self) -> list[Watched]:
        return [*self.mmu.watched(), Watched(self.around.view(np.ndarray))]


class RepStrings(Stage):
    """Stage that corrects the counts of rep-strings for perf and the TLB; the MMU counts one access per page."""

    trails = True

    def __init__(self, system: Mapping[str, Any], sites: Mapping[str, str], mmu: Mmu) -> None:
        self.system, self.counting = system, mmu.counting
        self.kinds, self.shift = rep_strings.kinds_of(sites), mmu.state[0]["page"]["order"]

    def take(self, events: np.ndarray, bins: np.ndarray) -> None:
        rep_strings.count(self.counting.counters, self.system, self.kinds, self.shift, events, bins)


class Medium(Stage):
    """The memory technology below the caches."""

    def __init__(self, table: Mapping[str, Any], kinds: Sequence[str], counting: CounterIndex) -> None:
        self.state = medium.start(list(kinds), table["buffer"]).view(np.ndarray)
        self.counting = counting

    def take(self, events: np.ndarray, bins: np.ndarray) -> None:
        medium.simulate(self.state, self.counting.counters, events, bins, len(events))

    def watched(self) -> list[Watched]:
        return [Watched(self.state, counts=("stored",))]


class Touches(Stage):
    """A collector of the data addresses of counted events, one per page, in the order of their look-ups."""

    def __init__(self, counting: CounterIndex) -> None:
        self.counting = counting
        self.addresses: list[np.ndarray] = []  # the caller empties this list

    def take(self, events: np.ndarray, bins: np.ndarray) -> None:
        trash = len(self.counting.counters) - 1
        self.addresses.append(addresses(events, bins, len(events), trash))
