"""Recovery model of ext4 in ordered mode with the page cache: data is written before the commit of its metadata.

Units: bytes, pages of 4096 bytes.
Source: Linux fs/jbd2/{commit,recovery}.c, fs/ext4/inode.c (ordered mode, delayed allocation, i_disksize).

The content of the page cache is lost.  A commit holds the size and the pages of a file that have been written back
(i_disksize).  Truncate and fallocate (ext4_setattr, ext4_update_inode_size) set i_disksize at once, so a commit may hold a
size whose data is still in the page cache: a kernel that dies then leaves zeroes.
"""

from collections.abc import Sequence
from typing import Any

from scmsim.core import records as r
from scmsim.core.records import NTSTORE
from scmsim.fs.ext4.crash_dax import Inode
from scmsim.fs.ext4.crash_dax import RecoveryModel as Dax
from scmsim.fs.linux.disk import Disk, written_back
from scmsim.fs.recovery.expected import Files
from scmsim.fs.recovery.model import Guarantee, Stores
from scmsim.fs.recovery.observe import Event

SUMMARY = "ext4, ordered: data written back before the commit that points to it; what the page cache holds is lost"
MODELS = ("ext4", "ext4-linux4")

GUARANTEE = Guarantee(
    "metadata is that of a commit, with the data that was written back; other data may be torn, or zeroes where the file grew; "
    "durable when fsync returns",
    atomic=False,
    at_return=False,
    delayed=True,
)


class RecoveryModel(Dax):
    """Recovery model of ext4-dax's commits, with the page cache."""

    guarantee = GUARANTEE

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.cache, self.disk = Files(), Disk(self.state, self.count)

    def interpret(self, op: Any, version: int, events: Sequence[Event]) -> Stores:
        """Return the writes of each event."""
        self.disk.look()
        at_once = op.op == r.WRITE and op.flag & r.SYNCHRONOUS
        if at_once:  # O_SYNC writes back the call's own data; all other write-back is of older data
            self.cache.apply(op, version)
        meant = [self._one(i, event, events, {}, version) for i, event in enumerate(events)]
        if not at_once:
            self.cache.apply(op, version)
        self._apply(op, version, {})
        return meant

    def _one(self, i: int, event: Event, events: Sequence[Event], spans: dict, version: int) -> list:
        if event.site != "writeback" or event.code != NTSTORE:
            return super()._one(i, event, events, spans, version)
        writes, places = written_back(event, self.disk, self.cache)
        for file, page, block in places:
            old = self.inodes.get(file, Inode())
            if self.holder.get(block, (file, page)) != (file, page):
                self.reused[block] = len(self.commits) - 1
            size = max(old.size, min(self.cache.of(file).size, (page + 1) << 12))
            if size != old.size or old.pages.get(page) != block:
                self._set(file, old._replace(size=size, pages={**old.pages, page: block}))
        return list(writes)
