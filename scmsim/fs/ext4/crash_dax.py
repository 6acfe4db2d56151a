"""Recovery model of ext4 with DAX: jbd2 commits all metadata since the last commit at once; data is written in place.

Units: bytes, pages of 4096 bytes.
Source: Linux fs/jbd2/{commit,recovery,checkpoint}.c, fs/ext4 (data in place, unwritten extents zeroed before they are
written).

A commit holds the sizes, names and block maps of its time; the recovery replays the log up to the last commit block,
after the blocks that the checkpoints wrote in place.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from scmsim.core import records as r
from scmsim.core.records import NTSTORE, STORE
from scmsim.fs.recovery.expected import Found, without_newest
from scmsim.fs.recovery.image import PAGE, Bulk, Image, Mark, cleared, label_of
from scmsim.fs.recovery.model import Guarantee, Stores, Unrecoverable, copied, placed
from scmsim.fs.recovery.model import RecoveryModel as Base
from scmsim.fs.recovery.observe import Event

SUMMARY = "ext4-dax: metadata by jbd2, in transactions of many calls; data in place"
MODELS = ("ext4-dax",)

GUARANTEE = Guarantee(
    "metadata is that of a commit; data is written in place and may be torn; durable when fsync returns", False, False
)


class Inode(NamedTuple):
    """Metadata of a file in the running system."""

    names: frozenset[int] = frozenset()
    size: int = 0
    pages: dict[int, int] = {}


class RecoveryModel(Base):
    """Recovery model with snapshots of the changed inodes, one for each commit."""

    guarantee = GUARANTEE
    unknown_why = (
        "their block was freed, and the model gave it to another file at once, but the system waits for the commit that frees it: "
        "the crash state of these bytes says nothing about the system"
    )

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.inodes: dict[int, Inode] = {}
        self.changed: set[int] = set()  # files changed since the last commit
        self.commits: list[dict[int, Inode]] = [{}]
        self.logged: list[int] = [0]  # bytes of each commit's log blocks
        self.held: list[int] = []  # commits that no checkpoint has written in place
        self.places: dict[int, int] = {}  # commit -> checkpoint that wrote it in place
        self.placed_bytes: list[int] = [0]
        self.history: dict[int, list[int]] = {}  # file -> commits that hold it
        self.holder: dict[int, tuple[int, int]] = {}  # device page -> file and page in the last commit
        self.reused: dict[int, int] = {}  # device page -> last commit when another file got it
        self.log_at = 0  # address of the commit that is being written
        self.open = False  # whether a commit is being written
        self.arrived = 0  # number of commits that certainly arrived

    def interpret(self, op: Any, version: int, events: Sequence[Event]) -> Stores:
        """Return the writes of each event."""
        copies = copied(op, events, "copy") if op.op == r.WRITE else []
        spans = {i: (offset, length) for i, offset, length in copies}
        last_copy = copies[-1][0] if copies else -1
        meant: Stores = []
        for i, event in enumerate(
            events
        ):  # a commit before the copies is by a kernel thread and does not include this call
            meant.append(self._one(i, event, events, spans, version))
            if i == last_copy:
                self._apply(op, version, placed(copies, events))
        if not copies:
            self._apply(op, version, {})
        return meant

    def _one(
        self, i: int, event: Event, events: Sequence[Event], spans: dict[int, tuple[int, int]], version: int
    ) -> list:
        if event.code not in (STORE, NTSTORE):
            return []
        if i in spans:
            offset, length = spans[i]
            return [Bulk(event.addr, length, label_of(version, offset))]
        if event.site == "zeroing":
            return cleared(event.addr, event.length)
        if event.site == "journal":
            return self._log(i, event, events)
        if event.site == "checkpoint":
            return self._place(i, event, events)
        return []

    def _log(self, i: int, event: Event, events: Sequence[Event]) -> list:
        """Return the mark of the log's blocks, in two runs where the log wraps around, or of the commit block after them."""
        if not self.open:
            self._begin(event)
            return [Mark(event.addr, event.length, ("log", len(self.commits) - 1))]
        number = len(self.commits) - 1
        following = next((e for e in events[i + 1 :] if e.site == "journal" and e.code == NTSTORE), None)
        if event.addr < self.log_at and following and following.addr == event.addr + event.length:
            self.logged[-1] += event.length
            return [Mark(event.addr, event.length, ("log", number))]
        self.open = False
        return [Mark(event.addr, event.length, ("commit", number))]

    def _begin(self, event: Event) -> None:
        number = len(self.commits)
        self.commits.append({file: self.inodes[file] for file in self.changed})
        for file in self.changed:
            before = self.history.setdefault(file, [])
            for page, device in (self.commits[before[-1]][file].pages if before else {}).items():
                if self.holder.get(device) == (file, page):
                    del self.holder[device]
            before.append(number)
        for file in self.changed:
            self.holder |= {device: (file, page) for page, device in self.inodes[file].pages.items()}
        self.changed, self.open, self.log_at = set(), True, event.addr
        self.logged.append(event.length)
        self.held.append(number)

    def _place(self, i: int, event: Event, events: Sequence[Event]) -> list:
        if self.held:
            self.placed_bytes.append(0)
            self.places.update(dict.fromkeys(self.held, len(self.placed_bytes) - 1))
            self.held = []
        self.placed_bytes[-1] += event.length
        return [Mark(event.addr, event.length, ("placed", len(self.placed_bytes) - 1))]

    def _apply(self, op: Any, version: int, pages: dict[int, int]) -> None:
        """Apply a call's changes to inodes in memory."""
        file = int(op.file)
        if file < 0:
            return
        old = self.inodes.get(file, Inode())
        new = old
        if op.op in (r.CREATE, r.MKDIR) and not old.names:
            new = Inode(frozenset({version}))
        elif op.op == r.WRITE and op.length > 0 and pages:
            merged = old.pages if pages.items() <= old.pages.items() else {**old.pages, **pages}
            new = old._replace(size=max(old.size, int(op.offset + op.length)), pages=merged)
            for page, device in pages.items():
                if old.pages.get(page) != device and device in self.holder:
                    self.reused[device] = len(self.commits) - 1
        elif op.op == r.TRUNCATE:
            keep = {page: at for page, at in old.pages.items() if page * PAGE < op.new_size}
            new = old._replace(size=int(op.new_size), pages=keep)
        elif op.op == r.FALLOCATE and op.length > 0 and not op.flag & (r.PUNCH_HOLE | r.KEEP_SIZE):
            new = old._replace(size=max(old.size, int(op.offset + op.length)))
        elif op.op in (r.UNLINK, r.RMDIR):
            new = old._replace(names=without_newest(old.names))
        elif op.op == r.LINK:
            new = old._replace(names=old.names | {version})
        elif op.op == r.RENAME:
            new = old._replace(names=without_newest(old.names) | {version})
            other = int(op.replaced)
            if other >= 0 and other != file:
                self._set(other, self.inodes.get(other, Inode()))
                self._set(other, self.inodes[other]._replace(names=without_newest(self.inodes[other].names)))
        if new is not old:
            self._set(file, new)

    def _set(self, file: int, inode: Inode) -> None:
        self.inodes[file] = inode
        self.changed.add(file)

    def committed(self, image: Image, number: int) -> bool:
        """Return whether the recovery finds a commit's block."""
        return image.marked(("commit", number)) >= PAGE

    def last(self, image: Image) -> int:
        """Return the number of the last commit that the recovery replays."""
        number = self.arrived
        while number + 1 < len(self.commits) and self.committed(image, number + 1):
            number += 1
        return number

    def recover(self, image: Image, file: int) -> Found:
        """Return the file as the recovery finds it; raise Unrecoverable if the recovery cannot continue."""
        number = self.last(image)
        for commit in range(max(self.arrived, 1), number + 1):
            if image.marked(("log", commit)) < self.logged[commit]:
                raise Unrecoverable("a commit block has arrived, but not all blocks of its transaction")
        held = [commit for commit in self.history.get(file, []) if commit <= number]
        inode = self.commits[held[-1]][file] if held else Inode()
        gone = (
            {page for page, device in inode.pages.items() if number <= self.reused.get(device, -1)}
            if self.reused
            else set()
        )
        return Found(inode.names, inode.size, {}, inode.pages, frozenset(gone))

    def settle(self, image: Image, file: int) -> Found:
        """Take the commits that have certainly arrived as a file's new base; return the file as the recovery finds it."""
        while self.arrived + 1 < len(self.commits) and self.committed(image, self.arrived + 1):
            self.arrived += 1
        return self.recover(image, file)
