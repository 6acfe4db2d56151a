"""Recovery model of ext2: no journal and no order.

A block of metadata is stored in place when it is synced, or when it has been dirty longer than the flusher's limit.

Units: bytes, pages and blocks of 4096 bytes.
Source: Linux fs/ext2/{file.c,inode.c,dir.c}, fs/libfs.c (__generic_file_fsync: the file's data, pointer blocks and
inode, not its name), fs/ext4/fsync.c for the driver of ext4 (the new name's directory, too); e2fsck for the repairs
that a mount after a crash needs.

The recovery reads the device as found: directory entries, their inodes, pointers.  What e2fsck would clear, clone or
connect to lost+found is counted, not repaired.  Pages beyond the double-indirect pointers (4 GiB) are not compared.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from scmsim.core import records as r
from scmsim.core.records import NTSTORE, STORE
from scmsim.fs.ext2.map import DIRECT, FAN_SHIFT, GROUP
from scmsim.fs.linux import state as e
from scmsim.fs.linux.disk import Disk, written_back
from scmsim.fs.linux.groups import inode_block
from scmsim.fs.recovery.expected import Files, Found
from scmsim.fs.recovery.image import PAGE, Bulk, Image, cleared, label_of
from scmsim.fs.recovery.model import Guarantee, Stores, Unrecoverable, copied
from scmsim.fs.recovery.model import RecoveryModel as Base
from scmsim.fs.recovery.observe import Event

SUMMARY = "ext2: metadata in place, in no order; what a crash leaves for fsck is counted"
MODELS = ("ext2", "ext2-dax")

INODE_BYTES, SIZE_AT, POINTERS_AT, POINTER = 256, 4, 40, 4
FAN = 1 << FAN_SHIFT
SINGLE, DOUBLE = 12, 13  # indices of the inode's pointers to pointer blocks
SYNCS = (r.FSYNC, r.MSYNC, r.SYNC)
GUARANTEE = Guarantee(
    "nothing is promised before fsck; names and files are expected to be durable when fsync returns",
    False,
    False,
    promised=False,
)


class Name(NamedTuple):
    """A directory entry in memory."""

    file: int
    folder: int
    alive: bool


class RecoveryModel(Base):
    """Recovery model of ext2: fields of inodes, entries and pointer blocks reach the device with their block."""

    guarantee = GUARANTEE

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.disk, self.cache = Disk(self.state, self.count + 1), Files()
        self.names: dict[int, Name] = {}  # version of a name (number of the operation that stored it) -> entry
        self.memory: dict[
            int, dict[int, tuple[Any, Any]]
        ] = {}  # block -> offset -> word and value, after the last call

    def interpret(self, op: Any, version: int, events: Sequence[Event]) -> Stores:
        """Return the writes of each event."""
        at_once = op.op in SYNCS or (op.op == r.WRITE and op.flag & r.SYNCHRONOUS)
        self.disk.look()
        if at_once:  # a sync stores the call's own blocks; all other write-back is of older blocks
            self._apply(op, version)
            self.memory = self._blocks()
        spans = {i: at for i, *at in copied(op, events, "copy")} if op.op == r.WRITE else {}
        meant = [
            self._one(i, event, spans, version) if event.code in (STORE, NTSTORE) else []
            for i, event in enumerate(events)
        ]
        if not at_once:
            self._apply(op, version)
            self.memory = self._blocks()
        return meant

    def _one(self, i: int, event: Event, spans: dict[int, list[int]], version: int) -> list:
        if i in spans:
            offset, length = spans[i]
            return [Bulk(event.addr, length, label_of(version, offset))]
        if event.site == "zeroing":
            return cleared(event.addr, event.length)
        if event.site == "writeback":
            return list(written_back(event, self.disk, self.cache)[0])
        if event.site != "metadata":
            return []
        writes = []
        for block in range(event.addr // PAGE, (event.addr + event.length) // PAGE):
            for at, (word, value) in sorted(self.memory.get(block, {}).items()):
                writes += self.put_changed(block * PAGE + at, word, value)
        return writes

    def _apply(self, op: Any, version: int) -> None:
        """Apply a call's changes to names and sizes in memory."""
        if not self.succeeded:
            return
        self.cache.apply(op, version)
        for file in self.cache.changed:
            alive = self.cache.of(file).names
            for one, name in self.names.items():
                if name.file == file and name.alive and one not in alive:
                    self.names[one] = name._replace(alive=False)
            if version in alive and version not in self.names:
                self.names[version] = Name(file, self.disk.folder.get(file, self.count), True)

    # Contents of blocks in memory.

    def _blocks(self) -> dict[int, dict[int, tuple[Any, Any]]]:
        blocks: dict[int, dict[int, tuple[Any, Any]]] = {}
        for file, inode in self.disk.inode.items():
            if file < self.count and self.cache.of(file).names:
                self._inode(blocks, file, inode - 1)
        for version, name in self.names.items():
            self._entry(blocks, version, name)
        return blocks

    def _inode(self, blocks: dict, file: int, inode: int) -> None:
        block, at = int(inode_block(self.state.record[0], inode + 1)), inode % e.INODES_PER_BLOCK * INODE_BYTES
        fields = blocks.setdefault(block, {})
        fields[at + SIZE_AT] = (("inode", inode), (file, self.cache.of(file).size))
        pages, leaves = self.disk.pages[file], self.disk.leaves[file]
        for k in range(DIRECT):
            fields[at + POINTERS_AT + k * POINTER] = (("pointer", inode, k), pages.get(k))
        for k, slot in ((SINGLE, 0), (DOUBLE, 1)):
            fields[at + POINTERS_AT + k * POINTER] = (("pointer", inode, k), leaves.get(slot))
        for page, to in pages.items():
            leaf = (page - DIRECT) // FAN
            slot = leaf + 1 if leaf else 0
            if page >= DIRECT and slot in leaves:
                k = (page - DIRECT) % FAN
                blocks.setdefault(leaves[slot], {})[k * POINTER] = (("leaf", leaves[slot], k), to)
        for slot in range(2, GROUP + 1) if 1 in leaves else ():
            if slot in leaves:
                blocks.setdefault(leaves[1], {})[(slot - 2) * POINTER] = (("leaf", leaves[1], slot - 2), leaves[slot])

    def _entry(self, blocks: dict, version: int, name: Name) -> None:
        """Add an entry to its directory's block; in a large directory the name's number selects the block, as a hash would."""
        folder = self.disk.pages.get(name.folder) or self.disk.pages[self.count]
        if folder:
            block = folder[sorted(folder)[version % len(folder)]]
            inode = self.disk.inode.get(name.file, 0) - 1 if name.alive else -1
            blocks.setdefault(block, {})[version * 64 % PAGE] = (("entry", version), (name.file, inode))

    # Recovery.

    def recover(self, image: Image, file: int) -> Found:
        """Return the file as the recovery finds it; raise Unrecoverable if the recovery cannot continue."""
        entries = {version: image.word(("entry", version)) for version, name in self.names.items() if name.file == file}
        there = {version: entry[1] for version, entry in entries.items() if entry and entry[1] >= 0}
        base = self.base.get(file, {})
        if not there:
            return Found(frozenset(), 0, {}, base)
        inode = max(there.values())
        owner, size = image.word(("inode", inode), (-1, 0))
        if owner != file:
            raise Unrecoverable(
                "has a name but no inode" if owner < 0 else "its name leads to the inode of another file"
            )
        pages = {}
        for page in range(-(-size // PAGE)):
            at = self._walk(image, inode, page)
            if base.get(page) != at:
                pages[page] = at
        return Found(frozenset(there), size, pages, base)

    def _walk(self, image: Image, inode: int, page: int) -> int | None:
        if page < DIRECT:
            return image.word(("pointer", inode, page))
        leaf, k = divmod(page - DIRECT, FAN)
        block = image.word(("pointer", inode, DOUBLE if leaf else SINGLE))
        if leaf:
            block = image.word(("leaf", block, leaf - 1))
        return None if block is None else image.word(("leaf", block, k))
