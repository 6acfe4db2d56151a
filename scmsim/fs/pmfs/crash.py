"""Recover PMFS: an undo journal for inodes, pointers and names; data in place, or copy-on-write in the transaction.

Units: bytes, device pages of 4096 bytes, data blocks of the model.
Source: PMFS fs/pmfs/{journal,inode,xip,namei}.c (recovery of the journal, of the truncate list); data_path = cow: VSM paper.

The recovery restores the values that an open transaction has saved, finishes the truncate list, and frees the blocks
that no tree references. A truncate does not clear the pointers that it frees (the model has no stores for that): a
pointer is valid if it is not older than any truncate that cut its block off.
"""

from collections.abc import Sequence
from typing import Any

from scmsim.core.records import WRITE
from scmsim.fs.pmfs.stores import ENTRY, JOURNAL_AT, SHIFT, Call
from scmsim.fs.recovery.expected import Found
from scmsim.fs.recovery.image import PAGE, Image
from scmsim.fs.recovery.model import Guarantee, Known, Stores, Unrecoverable, with_cached_ends
from scmsim.fs.recovery.model import RecoveryModel as Base
from scmsim.fs.recovery.observe import Event

SUMMARY = "PMFS: an undo journal for metadata; data in place, or copy-on-write within the transaction"
MODELS = ("pmfs-4k", "pmfs-2m", "pmfs-1g")

# Data blocks of up to this many pages are compared in full; in larger ones only the pages that the file ever reached.
FOLLOWED = 512

ATOMIC = Guarantee("names, size and pointers are atomic; an overwrite too; durable when fsync returns", True, False)
TORN = Guarantee(
    "names, size and pointers are atomic; data is overwritten in place and may be torn; durable when fsync returns",
    False,
    False,
)


def _keeps_last_line(op: Any) -> bool:
    """Return whether a write may leave its last, partial line in the CPU cache (`copy.set_copy`)."""
    end = op.offset + op.length
    return end % 4 != 0 and end % 64 == op.offset % 64


UNALIGNED = Known(
    WRITE, "copy",
    "if a write begins and ends at the same offset of a cache line, its copy leaves the last line in the cache (xip.c: "
    "pmfs_flush_edge_cachelines; Chipmunk's PMFS_BUG4 and WINEFS_BUG3)",
    _keeps_last_line,
)  # fmt: skip


class RecoveryModel(Base):
    """Recovery model of PMFS: named 8-byte fields; the journal's entries hold their old values."""

    flaws: tuple[Known, ...] = (UNALIGNED,)
    shift = {"pmfs-4k": 12, "pmfs-2m": 21, "pmfs-1g": 30}

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.block_shift = self.shift[self.fs]
        self.guarantee = ATOMIC if self.params.get("data_path") == "cow" else TORN
        self.inode_table = -(-(JOURNAL_AT + self.params["journal"]) // (2 << 20)) * (2 << 20)
        self.saved: dict[int, list[list[tuple[Any, Any]]]] = {}  # transaction -> entries: (field, old value)
        self.names: dict[int, list[Any]] = {}  # file -> directory fields that may hold its name
        self.slots: dict[int, set[int]] = {}  # file -> data blocks that ever had a pointer
        self.known: dict[int, dict[int, int]] = {}  # file -> data block -> device page in the running system
        self.size: dict[int, int] = {}
        self.reach: dict[int, int] = {}  # file -> largest size that it ever had
        self.call: Any = Call
        self.touched: dict[int, set[int]] = {}  # file -> blocks whose pointers may differ from `base`
        self.cuts: dict[int, bool] = {}

    def physical(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the events, with cached stores at the ragged ends of each non-temporal copy of the caller's bytes."""
        return with_cached_ends(events, ("data copy", "second copy"))

    def interpret(self, op: Any, version: int, events: Sequence[Event]) -> Stores:
        """Return, for each event, the writes that the event represents."""
        return self.call(self, op, version, events).stores()

    def recover(self, image: Image, file: int) -> Found:
        """Return the file as the recovery finds it; raise Unrecoverable if the recovery cannot continue."""
        image = self._rolled_back(image)
        names = frozenset(
            version
            for word in self.names.get(file, [])
            for owner, version in [image.word(word, (-1, 0))]
            if owner == file
        )
        base = self.base.get(file, {})
        if not names:
            return Found(names, 0, {}, base)
        if not image.word(("inode", file), False):
            raise Unrecoverable("has a name but no inode")
        size, cuts = image.word(("size", file), 0), image.word(("cuts", file), ())
        if image.word("truncate list") == file and image.word(("truncate", file)) is not None:
            size, cuts = image.word(("truncate", file))
        unit = 1 << self.block_shift - 12
        blocks = self.slots.get(file, set()) if self.cuts.get(file) else self.touched.get(file, set())
        pages: dict[int, int | None] = {}
        root = image.word(("root", file))
        for block in blocks:
            first = self._block(image, file, block, root, cuts)
            for i in range(self.followed(file, block)):
                at = None if first is None else self.frame(image, first + i)
                if base.get(block * unit + i) != at:
                    pages[block * unit + i] = at
        return Found(names, size, pages, base)

    def followed(self, file: int, block: int) -> int:
        """Return how many pages of a data block to compare."""
        unit = 1 << self.block_shift - 12
        if unit <= FOLLOWED:
            return unit
        return max(min(-(-self.reach.get(file, 0) // PAGE) - block * unit, unit), 1)

    def frame(self, image: Image, page: int) -> int:
        """Return the device page that stores page `page`."""
        return page

    def _block(self, image: Image, file: int, block: int, root: Any, cuts: tuple) -> int | None:
        """Return the first device page of a data block, found by the walk from the root."""
        if root is None:
            return None
        height, pointer = root
        if block >> SHIFT * height:
            return None
        for level in range(height - 1, 0, -1):
            if not image.word(("node", file, level, block >> SHIFT * level), False):
                return None
        if height:
            pointer = image.word(("slot", file, block))
        if pointer is None:
            return None
        device, version = pointer
        return None if any(version < cut and block >= first for cut, first in cuts) else device

    def _rolled_back(self, image: Image) -> Image:
        """Return the device after the recovery of the journal; a call has at most two transactions."""
        newest = len(self.saved)
        rolled = Image(image)
        for number in range(newest, max(newest - 2, 0), -1):
            if image.marked(("committed", number)) >= ENTRY:
                continue
            for k, entry in reversed(list(enumerate(self.saved[number]))):
                if image.marked(("saved", number, k)) >= ENTRY:  # an incomplete entry has no valid generation id
                    for word, old in entry:
                        rolled.words[word] = old
        return rolled

    def settle(self, image: Image, file: int) -> Found:
        """Set the base of a file to the state that recovery finds in the stores that are certainly durable."""
        found = super().settle(image, file)
        image = self._rolled_back(image)
        if not found.names:
            self.base[file] = {}
            found = found._replace(base=self.base[file])
        self.touched[file] = {block for block in self.touched.get(file, set()) if not self.at_rest(file, block)}
        self.cuts[file] = (
            image.word(("cuts", file), ()) != self.now.get(("cuts", file), ()) if self.cuts.get(file) else False
        )
        return found

    def at_rest(self, file: int, block: int) -> bool:
        """Return whether a data block's pages in `base` are at the device pages that the running system uses."""
        first, base, at = self.known.get(file, {}).get(block), self.base[file], block << self.block_shift - 12
        return all(
            base.get(at + i) == (None if first is None else first + i) for i in range(self.followed(file, block))
        )
