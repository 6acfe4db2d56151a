"""Recovery model of XFS with the page cache: the log records a file's new size and blocks only after their data is stored.

Units: bytes, pages of 4096 bytes.
Source: Linux 6.1 fs/xfs/{xfs_aops.c: xfs_end_ioend; xfs_iops.c: xfs_setattr_size}, fs/xfs/xfs_log_recover.c.

A crash loses the content of the page cache.  Blocks are unwritten until write-back has stored their data.  The transaction that
marks them as written and increases the file size starts afterwards, so a checkpoint refers only to stored data.  There is one
exception: a truncation stores the page with the new end before it stores earlier dirty pages, which raises the size on the device.
A crash at that point leaves zeroes in the pages before it.
"""

from collections.abc import Sequence
from typing import Any

from scmsim.core import records as r
from scmsim.core.records import NTSTORE
from scmsim.fs.ext4.crash import RecoveryModel as Cached
from scmsim.fs.linux.disk import written_back
from scmsim.fs.recovery.model import Guarantee, Stores
from scmsim.fs.recovery.observe import Event
from scmsim.fs.xfs.crash import RecoveryModel as Logged

SUMMARY = "xfs: size and blocks change after the data is stored; what the page cache holds is lost"
MODELS = ("xfs",)

GUARANTEE = Guarantee(
    "metadata is that of a checkpoint, with the data that was written back; other data may be torn, or zeroes where the file grew; "
    "durable when fsync returns",
    atomic=False,
    at_return=False,
    delayed=True,
)


class RecoveryModel(Cached, Logged):
    """Recovery model of xfs: the checkpoints of xfs-dax combined with ext4's model of the page cache."""

    guarantee = GUARANTEE

    def interpret(self, op: Any, version: int, events: Sequence[Event]) -> Stores:
        """Return the writes of each event."""
        if op.op == r.FALLOCATE and op.offset + op.length <= self.cache.of(int(op.file)).size:
            op = op.copy()
            # XFS compares the range's end with the size in memory, ext4 with that on the device (xfs_file_fallocate)
            op.flag |= r.KEEP_SIZE
        if op.op != r.TRUNCATE or op.new_size > self.cache.of(int(op.file)).size:
            return super().interpret(op, version, events)
        # a truncate stores the page of the new end, then clears its truncated part, and may store it again
        self.disk.look()
        stores = [i for i, event in enumerate(events) if event.site == "writeback" and event.code == NTSTORE]
        meant: Stores = []
        for i, event in enumerate(events):
            if len(stores) > 1 and i == stores[1]:
                self.cache.apply(op, version)
            meant.append(self._one(i, event, events, {}, version))
        if len(stores) < 2:
            self.cache.apply(op, version)
        self._apply(op, version, {})
        return meant

    def _one(
        self, i: int, event: Event, events: Sequence[Event], spans: dict[int, tuple[int, int]], version: int
    ) -> list:
        if event.site == "writeback" and event.code == NTSTORE:
            _, places = written_back(event, self.disk, self.cache)
            # ignore a page that the truncation stores and then frees: no file has its block afterwards
            if any(self.disk.pages[file].get(page) != block for file, page, block in places):
                return []
        return super()._one(i, event, events, spans, version)
