"""Recover SIMFS, which never writes back or fences and so promises nothing after a crash; the check counts what survives.

Units: bytes, device pages of 4096 bytes; a piece is 2 MiB of a file.
Source: SIMFS fs/simfs (noop_fsync in file.c; no clflush, no barrier after a store): docs/models/scmfs.md.

The recovery is SCMFS's, because SIMFS has no recovery. The links of the free list, the number of pages in an inode, and
the temporary file of an atomic update are not modelled.
"""

from collections.abc import Sequence
from typing import Any

from scmsim.core import records
from scmsim.core.records import STORE
from scmsim.fs.contiguous import templates as tpl
from scmsim.fs.recovery.image import PAGE, Bulk, Word, cleared, label_of
from scmsim.fs.recovery.model import Guarantee, Stores, copied
from scmsim.fs.recovery.observe import Event
from scmsim.fs.scmfs.crash import PIECE, PTE
from scmsim.fs.scmfs.crash import RecoveryModel as Scmfs

SUMMARY = "SIMFS: no write-back and no fence anywhere, fsync does nothing; what a crash leaves is counted"
MODELS = ("simfs",)

GUARANTEE = Guarantee(
    "names, sizes and data are hoped to be durable when fsync returns, though nothing is ever written back",
    False,
    False,
    promised=False,
)


class RecoveryModel(Scmfs):
    """Recovery model of SIMFS: the model of SCMFS, which also tracks file data here."""

    guarantee = GUARANTEE

    def physical(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the events without the tables of an atomic update's temporary file."""
        opened = [i for i, e in enumerate(events) if e.site == "inode" and e.length == tpl.INODE_BYTES]
        if self.op.op != records.WRITE or not opened:
            return events
        return [e for i, e in enumerate(events) if i < opened[0] or e.site != "page table" or e.addr != tpl.BLOCK]

    def interpret(self, op: Any, version: int, events: Sequence[Event]) -> Stores:
        """Return, for each event, the writes that the event represents."""
        meant = super().interpret(op, version, events)
        for i, offset, length in copied(op, events, "data copy") if op.op == records.WRITE else []:
            meant[i] = [Bulk(events[i].addr, length, label_of(version, offset))]
        for i, event in enumerate(events):
            if event.code == STORE and event.site == "block zeroing" and event.addr >= tpl.INODE_TABLE:
                meant[i] = [*self._tables_gone(event), *cleared(event.addr, event.length)]
        return meant

    def _inode(self, i: int, event: Event) -> list:
        if self.op.op == records.WRITE and event.length == tpl.INODE_BYTES:
            return []  # the inode of an atomic update's temporary file
        return super()._inode(i, event)

    def _cleared(self, i: int, event: Event) -> list:
        return self._tables_gone(event)

    def _tables_gone(self, event: Event) -> list[Word]:
        """Return the writes that remove the page-table entries in the pages that `event` clears."""
        pages = range(event.addr // PAGE, (event.addr + event.length - 1) // PAGE + 1)
        words = [("pte", page, k) for page in pages if page in self.tables for k in range(PIECE)]
        used = [word for word in words if self.now.get(word) is not None]
        return [w for word in used for w in self.put(word[1] * PAGE + word[2] * PTE, word, None)]
