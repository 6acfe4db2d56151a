"""Recover FAT and ext2 on the SCM driver, and FAT on NAND: the page cache writes back block by block in program order.

Units: bytes; a unit is a FAT cluster of 512 bytes or an ext2 block of 1 KiB.
Source: Linux 2.6.24 fs/fat/{dir,fatent,cache}.c, fs/ext2/{inode,dir}.c, mm/page-writeback.c; the board has no cache before
SCM (SCM manager paper, 5.1); fsck for the repairs that a mount after a crash needs.

The recovery reads directory entries, the size and first unit in the entry (FAT) or in the inode (ext2), then the chain
or the pointers. It counts what fsck would cut, free or clone, and repairs nothing. Of data it checks only the owner.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from scmsim.core import records
from scmsim.core.records import NTSTORE
from scmsim.fs.engine import file_row
from scmsim.fs.recovery.expected import DATA, UNWRITTEN, Files, Found
from scmsim.fs.recovery.image import Image, Word
from scmsim.fs.recovery.model import Guarantee, Stores, Unrecoverable, without_cache
from scmsim.fs.recovery.model import RecoveryModel as Base
from scmsim.fs.recovery.observe import Event
from scmsim.fs.scm_manager import state

GUARANTEE = Guarantee(
    "nothing is promised before fsck; names, sizes and each unit's owner are expected to be durable when fsync returns",
    False,
    False,
    content=False,
    promised=False,
)


class RecoveryModel(Base):
    """Recovery model of FAT and ext2: each word is named by the place of its entry, inode or unit."""

    guarantee = GUARANTEE

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        record = self.state.record[0]
        self.unit = 1 << int(record.shift)
        self.cache = Files()
        self.owner: dict[int, tuple[int, int]] = {}  # unit -> last file that owned it, number of the unit in that file
        self.memory: dict[int, tuple[Any, Any]] = {}  # place -> word and value after the last call
        self.slots: set[int] = set()  # places of entries

    def physical(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the events with a fence after each store."""
        return without_cache(events)

    def interpret(self, op: Any, version: int, events: Sequence[Event]) -> Stores:
        """Return, for each event, the writes that the event represents."""
        at_once = (
            op.op in (records.FSYNC, records.MSYNC, records.SYNC)
            or op.flag & records.SYNCHRONOUS
            or self.params["mount"] == "sync"
        )
        # a sync also writes back the call's own blocks, so record them first; other write-back stores only older blocks
        if at_once:
            self._look(op, version)
        meant = [self._one(event) if event.code == NTSTORE else [] for event in events]
        if not at_once:
            self._look(op, version)
        return meant

    def _one(self, event: Event) -> list:
        end = event.addr + event.length
        if event.site == "write-back":
            units = [at for at in range(event.addr, end, self.unit) if at in self.owner]
            return [Word(at + self.unit - 8, ("unit", at), self.owner[at]) for at in units]
        if event.site != "metadata write-back":
            return []
        places = sorted(place for place in self.memory if event.addr <= place < end)
        return [word for at in places for word in self.put_changed(at, *self.memory[at])]

    # What the running system has in memory, read from the model's state.

    def _row(self, file: int) -> Any:
        return file_row.of(self.state, state.FILE_WORDS)[file]

    def units(self, row: Any, word: int) -> dict[int, int]:
        """Return the device offset of each unit in the table `word` of a row, by the number of the unit in the file."""
        at = int(row[word])
        entries = self.state.arena[at : at + (1 << int(row[word + 1]))].tolist() if at else []
        return {i: (entry >> 2) << state.PLACE_SHIFT for i, entry in enumerate(entries) if entry >> 2}

    def _look(self, op: Any, version: int) -> None:
        """Apply the call, and record the contents of directories, chains and inodes in memory after it."""
        if self.succeeded:
            self.cache.apply(op, version)
        old, self.memory = self.memory, {}
        for file in range(self.count):
            row = self._row(file)
            names = self.cache.of(file).names
            if row[file_row.STATUS] & file_row.EXISTS and names:
                units = self.units(row, state.BLOCKS)
                self.owner |= {at: (file, i) for i, at in units.items()}
                size = self.cache.of(file).size
                self._entry(file, row, max(names), self.inode_in_entry(size, units))
                self.memory.update(self.metadata(file, row, size, units))
        for at, (word, _) in old.items():
            self.memory.setdefault(at, (word, None))

    def _entry(self, file: int, row: Any, name: int, content: Any) -> None:
        record = self.state.record[0]
        parent, slot = int(row[state.PARENT]), int(row[state.SLOT])
        if not parent or slot < 0:
            return
        at = slot * int(record.entry)
        folder = self.units(self.state.arena[parent : parent + state.FILE_WORDS], state.BLOCKS)
        place = folder[at // self.unit] + at % self.unit
        self.slots.add(place)
        self.memory[place] = (("slot", place), (file, name, content))

    # Recovery.

    def recover(self, image: Image, file: int) -> Found:
        """Return the file as the recovery finds it; raise Unrecoverable if the recovery cannot continue."""
        found = [value for value in (image.word(("slot", place)) for place in self.slots) if value and value[0] == file]
        names = frozenset(name for _, name, _ in found)
        if not names:
            return Found(names, 0, {}, {})
        size, first = self.inode(image, file, found[-1][2])
        if size is None:
            raise Unrecoverable("has a name but no inode")
        needed = -(-size // self.unit)
        for i, at in enumerate(self.walk(image, file, first, needed)):
            if at is None:
                continue  # a hole of ext2
            owner = image.word(("unit", at))
            if owner is None:
                raise Unrecoverable(f"its unit {i} was never written", UNWRITTEN)
            if owner != (file, i):
                raise Unrecoverable(f"its unit {i} holds bytes of another unit or file", DATA)
        return Found(names, size, {}, {})

    # Differences of FAT and ext2.

    def inode_in_entry(self, size: int, units: dict[int, int]) -> Any:
        """Return the part of the inode that the directory entry holds."""
        return None

    def metadata(self, file: int, row: Any, size: int, units: dict[int, int]) -> Iterator[tuple[int, Any]]:
        """Yield (place, (word, value)) of the metadata that leads to a file's units, and of a separate inode."""
        raise NotImplementedError

    def inode(self, image: Image, file: int, in_entry: Any) -> tuple[int | None, Any]:
        """Return a file's size as the recovery finds it, and the start for `walk`."""
        raise NotImplementedError

    def walk(self, image: Image, file: int, first: Any, needed: int) -> Iterator[int | None]:
        """Yield the places of the first `needed` units as the recovery finds them."""
        raise NotImplementedError
