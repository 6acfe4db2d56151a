"""Recover VSM: PMFS with its data in virtual superpages; overwrites (MCoW) and migrations (ZFDM) have a transactional log.

Units: bytes, pages of 4096 bytes; the file system's pages are virtual pages, which the page table maps to device pages.
Source: VSM paper (2020), III.B.2 (crash recovery); meaning of an address: docs/models/vsm.md.

The recovery looks for a log in the state "data" (the new data is durable) that is not "complete", and repeats all its
replacements: page-table entries for superpages written in part, slots of the file's index for whole superpages, then the
size. The log has the values, so repeating a replacement is harmless. A log that has not reached the state "data" is
dropped: nothing was replaced yet.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from scmsim.core.records import FLUSH, LOAD, NTSTORE, STORE
from scmsim.fs.pmfs.crash import RecoveryModel as Pmfs
from scmsim.fs.pmfs.stores import FAN_OUT, INODE_BYTES, Call
from scmsim.fs.recovery.image import PAGE, Image, Mark, Word
from scmsim.fs.recovery.model import RECONSTRUCTED, Guarantee, Unrecoverable
from scmsim.fs.recovery.observe import Event

SUMMARY = "VSM: PMFS, and for overwrites the transactional log of multi-grained copy-on-write"
MODELS = ("vsm", "vsm-1g")

PTE = 8
GROUP = 512  # pages that an entry of the upper level covers
STATE = 8  # bytes of a log's state, which is its first field
GUARANTEE = Guarantee(
    "every call is atomic, an overwrite by its transactional log; durable when fsync returns", True, False
)


class RecoveryModel(Pmfs):
    """Recovery of PMFS's fields, and of a field for each entry of the page table: virtual page -> device page."""

    flaws = ()  # `physical` leaves copies whole, so no end of a copy stays in the cache
    shift = {"vsm": 21, "vsm-1g": 30}
    blame = RECONSTRUCTED

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.guarantee, self.call = GUARANTEE, VsmCall
        record = self.state.record[0]
        self.table_at, self.data_end = int(record.page_table), int(record.log_start)
        self.groups_at = self.table_at + int(record.blocks) * PTE
        self.table: dict[int, int] = {}  # entries that differ from the initial ones, in the running system
        self.running: dict[int, int] = {}  # entries after the calls interpreted so far
        self.stamp = 0  # number of the last exchange of entries
        # Per log: its length in bytes without its state; the fields that it replaces, with their new values.
        self.logs: list[tuple[int, list[tuple[Any, Any]]]] = []

    def frame(self, image: Image, page: int) -> int:
        """Return the device page that the page table in `image` gives for a virtual page."""
        stamp, at = image.word(("pte", page), (0, page))
        newest, group = image.word(("ptes", page // GROUP), (0, ()))
        return int(group[page % GROUP] if newest > stamp else at)

    def at_rest(self, file: int, block: int) -> bool:
        """Return whether the recovered base has each page of a superpage at the device page that the running system uses."""
        unit = 1 << self.block_shift - 12
        first = self.known.get(file, {}).get(block)
        base = self.base[file]
        return all(
            base.get(block * unit + i) == (None if first is None else self.table.get(first + i, first + i))
            for i in range(self.followed(file, block))
        )

    def _rolled_back(self, image: Image) -> Image:
        rolled = super()._rolled_back(image)
        for number in range(max(len(self.logs) - 1, 1), len(self.logs) + 1):
            if not self.logs or image.word(("log state", number)) != "data":
                continue
            length, replacements = self.logs[number - 1]
            if image.marked(("log", number)) < length:
                raise Unrecoverable("its transactional log lists the data, which is not completely durable")
            rolled.words.update(replacements)
        return rolled

    def physical(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the events with addresses translated by the page table, which swaps among the events change."""
        out: list[Event] = []
        other: Event | None = None
        for event in events:
            if event.code == STORE and event.site.endswith(" swap") and event.addr >= self.table_at:
                if other:
                    self._swap(other, event)
                other = None if other else event
            if event.addr < self.data_end and event.code in (LOAD, STORE, NTSTORE, FLUSH):
                out += self._translated(event)
            else:
                out.append(event)
        return out

    def entries(self, event: Event) -> range:
        """Return the virtual pages whose entries a store covers."""
        if event.addr >= self.groups_at:
            first, count = (event.addr - self.groups_at) // PTE * GROUP, event.length // PTE * GROUP
        else:
            first, count = (event.addr - self.table_at) // PTE, event.length // PTE
        return range(first, first + count)

    def _swap(self, one: Event, other: Event) -> None:
        for a, b in zip(self.entries(one), self.entries(other), strict=True):
            self.table[a], self.table[b] = self.table.get(b, b), self.table.get(a, a)

    def _translated(self, event: Event) -> list[Event]:
        pieces: list[Event] = []
        at, end = event.addr, event.addr + event.length
        while at < end:
            stop = min((at // PAGE + 1) * PAGE, end)
            to = self.table.get(at // PAGE, at // PAGE) * PAGE + at % PAGE
            last = pieces[-1] if pieces else None
            if last and last.addr + last.length == to:
                pieces[-1] = last._replace(length=last.length + stop - at)
            else:
                pieces.append(event._replace(addr=to, length=stop - at, virtual=at))
            at = stop
        return pieces


class VsmCall(Call):
    """Interpreter of one VSM call: maps its events to the writes that they represent."""

    a: RecoveryModel
    replacing = False

    def data_site(self) -> str:
        """Return the mechanism that copies the caller's bytes."""
        self.replacing = any(event.site == "mcow data" for event in self.events)
        return "mcow data" if self.replacing else "data copy"

    def blocks_of(self, pages: dict[int, int]) -> dict[int, int]:
        """Return the first virtual page of each fresh superpage; with MCoW only where the call replaces the slot."""
        blocks = super().blocks_of(pages)
        if not self.replacing:
            return blocks
        inodes = range(self.a.inode_table, self.a.inode_table + (self.a.count + 1) * INODE_BYTES)
        slots = {
            0 if event.addr in inodes else event.addr % PAGE // PTE + k
            for event in self.events
            if event.site == "mcow index" and event.code == STORE
            for k in range(event.length // PTE)
        }
        return {block: first for block, first in blocks.items() if block % FAN_OUT in slots}

    def _place_holes(self) -> None:
        """Record the superpages that a fallocate allocates, inferred from the bytes that it clears."""
        unit = 1 << self.a.block_shift - 12
        known = self.a.known.get(self.file, {})
        low, high = int(self.op.offset), int(self.op.offset + self.op.length)
        holes = [b for b in range(low >> self.a.block_shift, (high - 1 >> self.a.block_shift) + 1) if b not in known]
        for event in self.events:
            first = event.virtual // PAGE // unit * unit
            taken = first in known.values() or first in self.blocks.values()
            if event.site == "block zeroing" and event.code == NTSTORE and holes and not taken:
                self.blocks[holes.pop(0)] = first

    def handlers(self) -> dict[str, Any]:
        """Return the handler of the stores of each mechanism."""
        begun = {f"{kind} log": self._log for kind in ("mcow", "zfdm")}
        states = {f"{kind} {state}": self._state for kind in ("mcow", "zfdm") for state in ("commit", "complete")}
        swaps = {f"{kind} swap": self._swapped for kind in ("mcow", "zfdm")}
        slots = {"mcow index": self._replaced, "zfdm index": self._moved}
        return super().handlers() | begun | states | swaps | slots | {"mcow data": self._data, "mcow copy": self._copy}

    def _log(self, i: int, event: Event) -> list:
        self.a.logs.append((event.length - STATE, []))
        number = len(self.a.logs)
        return [
            *self.a.put(event.addr, ("log state", number), "begun"),
            Mark(event.addr + STATE, event.length - STATE, ("log", number)),
        ]

    def _state(self, i: int, event: Event) -> list:
        return self.a.put(
            event.addr, ("log state", len(self.a.logs)), "data" if event.site.endswith("commit") else "complete"
        )

    def _both(self, addr: int, word: Any, value: Any) -> list[Word]:
        """Return the write that replaces a field, and add the replacement to the newest log."""
        self.a.logs[-1][1].append((word, value))
        return self.a.put(addr, word, value)

    other: Event | None = None  # first half of an exchange of entries

    def _swapped(self, i: int, event: Event) -> list:
        if event.addr < self.a.table_at:
            return self._both(event.addr, ("size", self.file), self._size()) if event.addr % INODE_BYTES == 24 else []
        now, pages = self.a.running, self.a.entries(event)
        if self.other is None:
            self.other = event
            following = next(e for e in self.events[i + 1 :] if e.code == STORE and e.site == event.site)
            self.before = [now.get(page, page) for page in pages]
            values = [now.get(page, page) for page in self.a.entries(following)]
        else:
            self.other, values = None, self.before
        now.update(zip(pages, values, strict=True))
        for block, first in self.known.items():
            if pages.start < first + (1 << self.a.block_shift - 12) and first < pages.stop:
                self._note(block)
        return [
            word for addr, key, value in self._entries(event, pages, values) for word in self._both(addr, key, value)
        ]

    def _entries(self, event: Event, pages: range, values: list[int]) -> Iterator[tuple[int, Any, Any]]:
        """Yield address, name and value of each entry; the newer entry of the two levels is valid for its pages."""
        self.a.stamp += 1
        if event.addr < self.a.groups_at:
            for k, (page, value) in enumerate(zip(pages, values, strict=True)):
                yield event.addr + k * PTE, ("pte", page), (self.a.stamp, value)
            return
        for k in range(len(pages) // GROUP):
            group = tuple(values[k * GROUP : (k + 1) * GROUP])
            yield event.addr + k * PTE, ("ptes", pages[k * GROUP] // GROUP), (self.a.stamp, group)

    def _replaced(self, i: int, event: Event) -> list:
        """Return the writes to slots of superpages that the write covers, or that are allocated for a hole."""
        writes = []
        height = self.height()
        for k in range(event.length // PTE):
            slot = event.addr % PAGE // PTE + k
            block = next(b for b in sorted(self.blocks) if height == 0 or b % FAN_OUT == slot)
            writes += self._slot(event.addr + k * PTE, height, block, self.blocks[block])
        return writes

    def _slot(self, addr: int, height: int, block: int, first: int) -> list:
        self._note(block)
        if height == 0:
            return self._both(addr, ("root", self.file), (0, (first, self.version)))
        return self._both(addr, ("slot", self.file, block), (first, self.version))

    def _moved(self, i: int, event: Event) -> list:
        """Return the write to the slot of the last superpage, whose pages moved to a fresh one."""
        swaps = [e for e in self.events[:i] if e.code == STORE and e.site == "zfdm swap"][-2:]
        old, fresh = (self.a.entries(e)[0] for e in swaps)
        block = next(b for b, first in self.known.items() if first <= old < first + (1 << self.a.block_shift - 12))
        first = fresh - (old - self.known[block])
        self.known[block] = first
        if block in self.blocks and not self.replacing:
            self.blocks[block] = first
        return self._slot(event.addr, self.height(), block, first)
