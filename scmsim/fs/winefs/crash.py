"""Recover WineFS: PMFS's undo entries in a journal per CPU; strict overwrites by copy, in aligned files also in place.

Units: bytes, device blocks of 4096 bytes.
Source: WineFS fs/winefs/{journal,xip,inode,namei}.c (journals of the CPUs); README: strict mode is atomic, synchronous.

A call has one CPU and so one journal, and ends with its commit: no two open transactions touch the same words. An
overwrite of an aligned file has a second transaction that restores the former blocks while the fresh ones hold the same
bytes.
"""

from typing import Any

from scmsim.core.records import FALLOCATE, LOAD, WRITE
from scmsim.fs.pmfs.crash import TORN, UNALIGNED
from scmsim.fs.pmfs.crash import RecoveryModel as Pmfs
from scmsim.fs.pmfs.stores import FAN_OUT, Call
from scmsim.fs.recovery.expected import UNWRITTEN
from scmsim.fs.recovery.image import Bulk, label_of
from scmsim.fs.recovery.model import ANY, Guarantee, Known, copied
from scmsim.fs.recovery.observe import Event
from scmsim.fs.winefs.templates import JOURNAL_AT, NEW_INODE_BYTES

SUMMARY = (
    "WineFS: undo journals, one per CPU; strict overwrites go to fresh blocks, in aligned files then also in place"
)
MODELS = ("winefs", "winefs-relaxed")

REGION = 2 << 20  # bytes: the journals' end is rounded up to a multiple of this
GUARANTEE = Guarantee("every call is atomic, overwrites too, and durable when it returns (strict mode)", True, True)
UNFENCED = Known(
    WRITE, "",
    "no fence ends a write inside a block (xip.c: pmfs_file_write_fast before WineFS's issue 1; Chipmunk's WINEFS_BUG2)",
)  # fmt: skip


class RecoveryModel(Pmfs):
    """Recovery model of WineFS: PMFS's, with a journal per CPU and WineFS's guarantee."""

    shift = {"winefs": 12, "winefs-relaxed": 12}
    flaws: tuple[Known, ...] = (
        UNALIGNED,
        Known(
            ANY, "", "a strict write that begins before the end and grows the file leaves the rest of its last, fresh block "
            "unwritten, and a file that grows again shows it (xip.c: over_eblk)", kind=UNWRITTEN,
        ),
        Known(FALLOCATE, "", "a strict fallocate replaces the blocks that follow a hole by zeroed ones (recursive_alloc_blocks)"),
        Known(WRITE, "copy", "inside a block of an aligned file, or in a file of one block, writes go in place (xip.c)"),
    )  # fmt: skip

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.guarantee, self.call = GUARANTEE if self.fs == "winefs" else TORN, WineCall
        if not self.params.get("barrier", 1):
            self.flaws = (*self.flaws, UNFENCED)
        journals = self.params["journal"] * self.params["cpus"]
        self.inode_table = -(-(JOURNAL_AT + journals) // REGION) * REGION


class WineCall(Call):
    """Interpreter of one WineFS call: maps its events to the writes that they represent."""

    NEW_INODE = NEW_INODE_BYTES

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.former = {block: at for block, at in self.known.items() if self.blocks.get(block, at) != at}
        self.again = {i: (offset, length) for i, offset, length in copied(self.op, self.events, "second copy")}

    def handlers(self) -> dict[str, Any]:
        """Return a mapping from each mechanism to the handler of its stores."""
        return super().handlers() | {"second copy": self._again}

    def refills(self) -> bool:
        """Return whether fallocate replaces the blocks after a hole: in strict mode (recursive_alloc_blocks)."""
        return bool(self.a.fs == "winefs")

    def _again(self, i: int, event: Event) -> list:
        if i not in self.again:
            return []
        offset, length = self.again[i]
        return [Bulk(event.addr, length, label_of(self.version, offset))]

    def _index(self, i: int, event: Event) -> list:
        before = self.events[i - 1]
        if self.again and (before.code, before.site) == (LOAD, "index") and not self.fresh:
            return self._restored(before)
        return super()._index(i, event)

    def _restored(self, leaf: Event) -> list:
        """Return the writes that put former blocks back into their slots of one leaf."""
        writes, last = [], max(self.former, default=0) >> 9
        slots = range(leaf.addr % 4096 // 8, (leaf.addr + leaf.length - 1) % 4096 // 8 + 1)
        for block in [block for block in sorted(self.former) if block % FAN_OUT in slots]:
            if block >> 9 > last:
                break
            last = block >> 9
            at = leaf.addr // 4096 * 4096 + block % FAN_OUT * 8
            self.blocks[block] = self.former.pop(block)
            writes += self.a.put(at, ("slot", self.file, block), (self.blocks[block], self.version))
        return writes
