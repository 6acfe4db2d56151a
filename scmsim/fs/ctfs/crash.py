"""Recovery model of ctFS, which writes lines back without fences.

Only the locked instruction at the end of a call (bitlock_release) orders the write-backs.
Units: bytes, device pages of 4096 bytes; a piece is 2 MiB of a file.
Source: ctFS ctfs_func.c, ctfs_inode.c, ctfs_cpy.c, ctfs_bitmap.c, kernel/device.c (where the recovery of a swap is
commented out); LOCK orders CLWB and non-temporal stores: Intel 64 and IA-32 Architectures Software Developer's Manual,
CLWB.

The recovery is a reconstruction: it accepts directory records that have an inode number, reads block and size from their
inodes, and uses the page table unchanged.  A directory's own size is durable before a record is stored (inode_alloc takes a
lock in between), so the model does not track it.  The addresses of an atomic write's staging pages are not modelled, so
the model does not check the data of atomic writes.
"""

from collections.abc import Sequence
from typing import Any

from scmsim.core import records
from scmsim.core.records import FENCE, NTSTORE, STORE
from scmsim.fs.contiguous import state as contiguous_state
from scmsim.fs.contiguous import templates as tpl
from scmsim.fs.ctfs.templates import MASTER, STAGING
from scmsim.fs.engine import file_row
from scmsim.fs.recovery.expected import Found
from scmsim.fs.recovery.image import PAGE, Bulk, Image, label_of
from scmsim.fs.recovery.model import Guarantee, Stores, copied
from scmsim.fs.recovery.observe import Event
from scmsim.fs.scmfs.crash import PIECE, PTE, upper_at
from scmsim.fs.scmfs.crash import RecoveryModel as Scmfs

SUMMARY = (
    "ctFS: written back but not fenced before the call ends; names before inodes, sizes before data, unlink not at all"
)
MODELS = ("ctfs",)

RECORD, NAME_AT = 256, 18
IN_PLACE = Guarantee(
    "names, sizes and data are hoped to be durable at return (the paper); data may be torn", False, True, promised=False
)
ATOMIC = Guarantee(
    "names and sizes are hoped to be durable at return (the paper); the data of atomic writes is not followed",
    True,
    True,
    content=False,
    promised=False,
)


class RecoveryModel(Scmfs):
    """SCMFS's recovery model with ctFS's rules: an inode number makes a record valid, the inode gives the range."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.guarantee = ATOMIC if self.params["update"] == "atomic" else IN_PLACE
        self.named = False  # whether the call has stored the name of a record

    def physical(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the events that the recovery reads, with the locked instruction at the end of a call that stores."""
        kept = [event for event in events if not _beside(event)]
        return [*kept, Event(FENCE, "lock", 0, 1, 0)] if any(e.code in (STORE, NTSTORE) for e in events) else kept

    def interpret(self, op: Any, version: int, events: Sequence[Event]) -> Stores:
        """Return, for each event, the writes that the event represents."""
        self.named = False
        meant = super().interpret(op, version, events)
        for i, offset, length in copied(op, events, "data copy") if op.op == records.WRITE else []:
            meant[i] = [Bulk(events[i].addr, length, label_of(version, offset))]
        return meant

    def _look(self) -> None:
        super()._look()
        self.first.clear()

    def _directory(self, i: int, event: Event) -> list:
        if event.addr % RECORD == NAME_AT:
            self.named = True
            return self._named(event)
        return self.put(event.addr, ("counted", self.version), True) if self.named else self._unnamed(event)

    def _inode(self, i: int, event: Event) -> list:
        file, at = divmod(event.addr - tpl.INODE_TABLE, tpl.INODE_BYTES)
        if at == 0 and event.length == tpl.INODE_BYTES:
            return super()._inode(i, event)
        if at != 8 or not 0 <= file < self.count or self._row(file)[file_row.STATUS] & file_row.IS_DIR:
            return []
        if event.length == 16:
            row = self._row(file)
            place = self.put(event.addr + 8, ("range", file), int(row[contiguous_state.RANGE]))
            return place + self.put(event.addr, ("size", file), 1 << int(row[contiguous_state.RANGE_ORDER]))
        if file != self.op.file:
            return []
        end = int(self.op.offset + self.op.length)
        self.size[file] = int(self.op.new_size) if self.op.op == records.TRUNCATE else max(self.size.get(file, 0), end)
        return self.put(event.addr, ("size", file), self.size[file])

    def _cleared(self, i: int, event: Event) -> list:
        """Return the stores of the 512 entries of 4 KiB that replace a superpage's entry."""
        table = event.addr // PAGE
        file, piece = self.tables[table]
        pages = self.mapped.get(file, {})
        return [
            word
            for k in range(PIECE)
            for word in self.put(event.addr + k * PTE, ("pte", table, k), pages.get(piece * PIECE + k))
        ]

    def _upper(self, i: int, event: Event) -> list:
        after = next(self._stores(i, 1), None)
        moves = after is not None and after.site == "inode" and after.addr % tpl.INODE_BYTES == 8 and after.length == 16
        if after is not None and moves:
            return self._moved(event, (after.addr - tpl.INODE_TABLE) // tpl.INODE_BYTES)
        addrs = range(event.addr, event.addr + event.length, PTE)
        return [word for addr in addrs for word in self.put(addr, ("upper", addr), self._entry(addr))]

    def _entry(self, addr: int) -> Any:
        """Return the meaning of a piece's entry: the piece's page of entries, its superpage, or None."""
        for file in range(self.count):
            row = self._row(file)
            if row[file_row.STATUS] & file_row.IS_DIR or not row[contiguous_state.RANGE_ORDER]:
                continue
            tables = self._entries(row, contiguous_state.PTES)
            for piece in range(
                max(int(row[contiguous_state.HELD]), -(-int(row[contiguous_state.PAGE_COUNT]) // PIECE))
            ):
                if upper_at(int(row[contiguous_state.RANGE]), piece) == addr:
                    if piece < len(tables) and tables[piece]:
                        return "table", int(tables[piece])
                    return "super", self.mapped[file][piece * PIECE]
        return None

    def recover(self, image: Image, file: int) -> Found:
        """Return the file as the recovery finds it; raise Unrecoverable if the recovery cannot continue."""
        self.grown = {}  # a missing page-table entry is a hole, not an error
        return super().recover(image, file)


def _beside(event: Event) -> bool:
    """Return whether the recovery ignores an event: bitmaps, headers, swap states, entries of a staging partition."""
    if event.site == "free list" or event.code == FENCE:
        return True
    if event.site == "inode":
        return event.addr < tpl.INODE_TABLE
    return event.site in ("page table", "shadow copy") and event.addr // PAGE in (MASTER // PAGE, STAGING // PAGE)
