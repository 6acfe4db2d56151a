"""Recover SplitFS: ext4-DAX, an append log for writes that fsync has not relinked, an operation log (sync and strict).

Units: bytes, pages of 4096 bytes.
Source: SplitFS splitfs/{log.c,fileops_nvp.c}, kernel fs/ext4/move_extent.c; SplitFS paper (SOSP 2019) for the promise of each mode.

The recovery first does that of ext4-DAX, then replays both logs in order up to the first incomplete entry, as the paper
describes; the published code replays less (docs/guide/crash.md). The model does not track which block of an exchanged
pair a file has after a relink, so pages with bytes in the scratch area are not compared from the relink on.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from scmsim.core import records as r
from scmsim.core.records import FALLOCATE, FENCE, FSYNC, NTSTORE, TRUNCATE, WRITE
from scmsim.fs.ext4.crash_dax import Inode
from scmsim.fs.ext4.crash_dax import RecoveryModel as Ext4
from scmsim.fs.recovery.expected import Found
from scmsim.fs.recovery.image import PAGE, Image, in_words
from scmsim.fs.recovery.model import Guarantee, Known, Stores, copied, placed
from scmsim.fs.recovery.observe import Event
from scmsim.fs.splitfs.templates import ENTRY

SUMMARY = "SplitFS: ext4-DAX, and logs of appends and operations that are replayed on top of its journal"
MODELS = ("splitfs",)

GUARANTEES = {
    "posix": Guarantee(
        "names and sizes are whole; data in place may be torn; durable when fsync returns", False, False
    ),
    "sync": Guarantee("every call is durable at return, except for data in place, which may be torn", False, True),
    "strict": Guarantee("every call is atomic and durable at return", True, True),
}


class Entry(NamedTuple):
    """Effect of a replayed log entry on a file; `names` is None if an append wrote the entry."""

    number: int
    names: frozenset[int] | None
    size: int
    pages: dict[int, int]


class RecoveryModel(Ext4):
    """Recovery of the kernel's inodes and commits as in ext4-dax, and of the library's view of each file."""

    flaws = (
        Known(FSYNC, "", "an fsync relinks and commits nothing (fileops_nvp.c)"),
        Known(TRUNCATE, "", "truncate has no log entry (fileops_nvp.c)"),
        Known(FALLOCATE, "", "fallocate has no log entry (fileops_nvp.c)"),
        Known(WRITE, "", "a write to bytes that are already staged changes them in place (fileops_nvp.c)"),
    )
    unknown_why = f"{Ext4.unknown_why}; or they had bytes in the scratch area, whose exchange of blocks is not tracked"

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.guarantee = GUARANTEES[self.params["mode"]]
        record = self.state.record[0]
        self.scratch = range(int(record.scratch_at), int(record.scratch_at + record.scratch_bytes))
        self.files: dict[int, Inode] = {}  # the files as the program sees them
        self.entries: dict[int, list[Entry]] = {}
        self.numbers = 0  # number of entries in the logs
        self.relinked: dict[int, int] = {}  # file -> last entry that its kernel inode includes
        self.commit_relinked: list[dict[int, int]] = [{}]
        self.aside: dict[int, set[int]] = {}  # file -> pages whose content is not tracked

    def physical(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the events, with added fences for the locked instructions, which order non-temporal stores.

        Locked instructions reserve a log entry (persist_append_entry, persist_op_entry) and take the locks of an fsync.
        """
        lock, out = Event(FENCE, "lock", 0, 1, 0), []
        for event in events:
            out += [lock, event] if is_entry(event) else [event]
        return [*out, lock] if self.op.op in (r.FSYNC, r.MSYNC) else out

    def interpret(self, op: Any, version: int, events: Sequence[Event]) -> Stores:
        """Return, for each event, the writes that the event represents."""
        copies = copied(op, events, "user copy") if op.op == r.WRITE else []
        spans = {i: (offset, length) for i, offset, length in copies}
        before = self.numbers
        meant = [self._one(i, event, events, spans, version) for i, event in enumerate(events)]
        touched = self._written(op, copies, events) if copies else self._called(op, version)
        if self.numbers > before:
            for file in touched:
                new = self.files[file]
                names = None if op.op == r.WRITE else new.names
                self.entries.setdefault(file, []).append(Entry(self.numbers, names, new.size, new.pages))
                if op.op != r.WRITE:
                    self.relinked[file] = self.numbers
        return meant

    def _one(
        self, i: int, event: Event, events: Sequence[Event], spans: dict[int, tuple[int, int]], version: int
    ) -> list:
        if is_entry(event):
            self.numbers += 1
            return in_words(event.addr, event.length, ("entry", self.numbers))
        return super()._one(i, event, events, spans, version)

    def _begin(self, event: Event) -> None:
        super()._begin(event)
        self.commit_relinked.append(dict(self.relinked))

    def _written(self, op: Any, copies: Sequence[tuple[int, int, int]], events: Sequence[Event]) -> list[int]:
        file, pages = int(op.file), {}
        for copy in copies:
            i, offset, length = copy
            if events[i].addr in self.scratch:
                self.aside.setdefault(file, set()).update(range(offset // PAGE, (offset + length - 1) // PAGE + 1))
            else:
                pages.update(placed([copy], events))
        old = self.files.get(file, Inode())
        if op.offset > old.size:  # in the staging file, nothing clears the bytes from old.size to op.offset
            self.aside.setdefault(file, set()).update({old.size // PAGE, int(op.offset) // PAGE})
        self.reused |= {
            device: len(self.commits) - 1 for page, device in pages.items() if self._handed_on(old, page, device)
        }
        size = max(old.size, int(op.offset + op.length))
        self.files[file] = old._replace(size=size, pages={**old.pages, **pages})
        if op.flag & r.SYNCHRONOUS:
            self._relink(file)
        return [file]

    def _handed_on(self, old: Inode, page: int, device: int) -> bool:
        return old.pages.get(page) != device and device in self.holder

    def _relink(self, file: int) -> None:
        """Give the kernel's inode the file's staged pages, names and size."""
        new = self.files.get(file)
        if new and new != self.inodes.get(file):
            self._set(file, new)
        entries = self.entries.get(file, [])
        if entries:
            self.relinked[file] = entries[-1].number

    def _called(self, op: Any, version: int) -> list[int]:
        """Apply a call that the kernel runs, or the relink before it; return the files that it changed."""
        file = int(op.file)
        if op.op in (r.FSYNC, r.MSYNC, r.CLOSE, r.TRUNCATE, r.FALLOCATE):
            self._relink(file)
        before = dict(self.inodes)
        self._apply(op, version, {})
        changed = [one for one, inode in self.inodes.items() if before.get(one) is not inode]
        for one in changed:
            inode = self.inodes[one]
            staged = (
                self.files.get(one, Inode()) if op.op not in (r.CREATE, r.MKDIR, r.TRUNCATE, r.FALLOCATE) else inode
            )
            self.files[one] = staged._replace(names=inode.names)
        return changed

    def recover(self, image: Image, file: int) -> Found:
        """Return the file as the recovery finds it; raise Unrecoverable if the recovery cannot continue."""
        found = super().recover(image, file)
        newest = self.numbers
        while newest and image.marked(("entry", newest)) < ENTRY:
            newest -= 1
        done = self.commit_relinked[self.last(image)].get(file, 0)
        names, size, pages = found.names, found.size, found.base
        for entry in self.entries.get(file, []):
            if done < entry.number <= newest and (entry.names is not None or names):
                names = names if entry.names is None else entry.names
                size, pages = entry.size, entry.pages
        return Found(names, size, {}, pages, found.unknown | self.aside.get(file, set()))


def is_entry(event: Event) -> bool:
    """Return whether an event stores an entry of one of the logs."""
    return event.code == NTSTORE and event.site == "operation log"
