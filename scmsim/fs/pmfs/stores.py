"""Interpret the stores of one PMFS call in their order: data, tree, journal, inode, names.

Units: bytes, device pages of 4096 bytes, data blocks of the model.
Source: PMFS fs/pmfs/{xip,inode,journal,namei,dir}.c.
"""

from collections.abc import Sequence
from typing import Any

from scmsim.core import records
from scmsim.core.records import LOAD, NTSTORE, STORE
from scmsim.fs.recovery.image import PAGE, Bulk, Copy, cleared, in_words, label_of
from scmsim.fs.recovery.model import Stores, copied, placed, source_of
from scmsim.fs.recovery.observe import Event

JOURNAL_AT, ENTRY, SAVED = 4096, 64, 48
INODE_BYTES, FAN_OUT, SHIFT = 128, 512, 9
GROWING = (records.WRITE, records.FALLOCATE, records.TRUNCATE)  # calls that change the tree of their own file


class Call:
    """Interpreter of one call: maps its events, in order, to the writes that they represent."""

    NEW_INODE = 58  # bytes that a new inode's fields store

    def __init__(self, recovery: Any, op: Any, version: int, events: Sequence[Event]) -> None:
        self.a, self.op, self.version, self.events = recovery, op, version, events
        self.file = int(op.file)
        self.replaced = (
            int(op.replaced) if op.op == records.RENAME and op.replaced >= 0 and op.replaced != op.file else -1
        )
        copies = copied(op, events, self.data_site()) if op.op == records.WRITE else []
        self.copies = {i: (offset, length) for i, offset, length in copies}
        self.blocks = self.blocks_of(placed(copies, events))
        if op.op == records.FALLOCATE:
            self._place_holes()
        self.known = recovery.known.setdefault(self.file, {})
        # Blocks to which no pointer was stored so far.
        self.fresh = sorted(block for block, at in self.blocks.items() if self.known.get(block) != at)
        self.entering = self.file  # file whose tree or inode changes
        self.transaction = len(recovery.saved)
        self.names_left = self._names_to_change()

    def data_site(self) -> str:
        """Return the mechanism that copies the caller's bytes."""
        return "data copy"

    def blocks_of(self, pages: dict[int, int]) -> dict[int, int]:
        """Return a mapping from each data block that the call writes to its first device page."""
        unit = 1 << self.a.block_shift - 12
        return {page // unit: device - page % unit for page, device in pages.items()}

    def _place_holes(self) -> None:
        shift, known = self.a.block_shift, self.a.known.get(self.file, {})
        at = self.op.offset >> shift
        for event in self.events:
            if event.site == "block zeroing" and event.code == NTSTORE:
                while at in known:
                    at += 1
                for i in range(event.length >> shift):
                    if at + i not in known or self.refills():
                        self.blocks[at + i] = (event.addr + (i << shift)) // PAGE
                at += event.length >> shift

    def refills(self) -> bool:
        """Return whether a fallocate replaces the existing blocks that follow a hole."""
        return False

    def stores(self) -> Stores:
        """Return, for each event, the writes that the event represents."""
        handlers = self.handlers()
        meant = []
        for i, event in enumerate(self.events):
            handler = handlers.get(event.site) if event.code in (STORE, NTSTORE) else None
            meant.append(handler(i, event) if handler else [])
        self.known.update(self.blocks)
        return meant

    def handlers(self) -> dict[str, Any]:
        """Return a mapping from each mechanism to the handler of its stores."""
        return {
            "data copy": self._data, "cow copy": self._copy, "block zeroing": self._zeroing, "index": self._index,
            "journal": self._journal, "inode": self._inode, "directory": self._directory, "truncate list": self._list,
        }  # fmt: skip

    def _inode_of(self, addr: int) -> int:
        file = (addr - self.a.inode_table) // INODE_BYTES
        return file if 0 <= file <= self.a.count else -1

    # data

    def _data(self, i: int, event: Event) -> list:
        if i not in self.copies:
            return []
        offset, length = self.copies[i]
        return [Bulk(event.addr, length, label_of(self.version, offset))]

    def _copy(self, i: int, event: Event) -> list:
        source = source_of(self.events, i)
        return [] if source is None else [Copy(event.addr, event.length, source)]

    def _zeroing(self, i: int, event: Event) -> list:
        return cleared(event.addr, event.length)

    # the tree

    def _index(self, i: int, event: Event) -> list:
        if event.code == NTSTORE or self.op.op not in GROWING:
            return []  # a cleared new node, whose pointers count once it is linked; or a directory's tree
        before = self.events[i - 1]
        if before.code == NTSTORE and before.site == "index" and before.addr == event.addr:
            return self._grown(event)
        if event.length == 8 and self._hangs(i):
            return self._hung(event)
        return self._filled(event)

    def _hangs(self, i: int) -> bool:
        """Return whether a pointer leads to a new node: the load of its slot directly follows the node's clearing."""
        return (
            self.events[i - 1].code == LOAD
            and self.events[i - 2].code == NTSTORE
            and self.events[i - 2].site == "index"
        )

    def _grown(self, event: Event) -> list:
        """Return the writes of a new root above the old one."""
        height = self.height() + 1
        self.pending_height = height
        if height == 1:
            old = self.a.now.get(("root", self.file))
            return self.a.put(event.addr, ("slot", self.file, 0), old[1] if old else None)
        return self.a.put(event.addr, ("node", self.file, height - 1, 0), True)

    pending_height = -1

    def height(self) -> int:
        """Return the height of the tree, including the levels that the call has added so far."""
        if self.pending_height >= 0:
            return self.pending_height
        root = self.a.now.get(("root", self.file))
        return root[0] if root else 0

    def _hung(self, event: Event) -> list:
        block = self.fresh[0] if self.fresh else 0
        for level in range(self.height() - 1, 0, -1):
            word = ("node", self.file, level, block >> SHIFT * level)
            if not self.a.now.get(word):
                return self.a.put(event.addr, word, True)
        return []

    def _filled(self, event: Event) -> list:
        """Return the pointers of one leaf, for the call's blocks that have none yet."""
        count, leaf = event.length // 8, self.fresh[0] >> SHIFT if self.fresh else 0
        chosen = [block for block in self.fresh if block >> SHIFT == leaf][:count]
        self.fresh = [block for block in self.fresh if block not in chosen]
        writes = []
        for block in chosen:
            self._note(block)
            # The run begins at its first new pointer; it may include existing pointers.
            at = event.addr // PAGE * PAGE + block % FAN_OUT * 8
            writes += self.a.put(at, ("slot", self.file, block), (self.blocks[block], self.version))
        return writes

    def _note(self, block: int) -> None:
        self.a.slots.setdefault(self.file, set()).add(block)
        self.a.touched.setdefault(self.file, set()).add(block)

    # the journal

    def _journal(self, i: int, event: Event) -> list:
        if event.addr < JOURNAL_AT:
            if event.addr % 4096 == 128 + 16 and event.length == 4:
                self.transaction += 1
                self.a.saved[self.transaction] = []
            return []
        if event.length == 17:
            return in_words(event.addr, ENTRY, ("committed", self.transaction))
        logged = next(e for e in reversed(self.events[:i]) if e.code == LOAD and e.site == "journal")
        marks = []
        for k, at in enumerate(range(logged.addr, logged.addr + logged.length, SAVED)):
            entries = self.a.saved[self.transaction]
            entries.append(self._old(at, min(at + SAVED, logged.addr + logged.length), i))
            marks += in_words(event.addr + k * ENTRY, ENTRY, ("saved", self.transaction, len(entries) - 1))
        return marks

    def _old(self, low: int, high: int, i: int) -> list[tuple[Any, Any]]:
        """Return the words in the logged bytes [low, high), with their values."""
        file = self._inode_of(low)
        if file >= 0:
            words: list[Any] = [(kind, file) for kind in ("root", "size", "cuts", "inode")]
        else:
            words = self._logged_pointers(low, high, i)
        return [(word, self.a.now.get(word)) for word in words]

    def _logged_pointers(self, low: int, high: int, i: int) -> list[Any]:
        change = next((e for e in self.events[i + 1 :] if e.code in (STORE, NTSTORE) and e.site != "journal"), None)
        # Undoing a directory's pointers also removes the name that the directory's new block holds.
        if self.op.op not in GROWING or (change is not None and change.site == "directory"):
            return self.names_left[:1]
        slot, blocks = low % PAGE // 8, range(low % PAGE // 8, (high - 1) % PAGE // 8 + 1)
        words: list[Any] = [("slot", self.file, block) for block in self.blocks if block % FAN_OUT in blocks]
        for level in (1, 2):
            words += [
                ("node", self.file, level, b >> SHIFT * level)
                for b in self.fresh[:1]
                if (b >> SHIFT * level) % FAN_OUT >= slot
            ]
        return words

    # inodes and names

    def _inode(self, i: int, event: Event) -> list:
        file, at = self._inode_of(event.addr), event.addr % INODE_BYTES
        if at == 0 and event.length == self.NEW_INODE:
            self.a.known.pop(file, None)
            self.a.size[file] = 0
            self.a.now[("cuts", file)] = ((self.version, 0),)
            return [
                *self.a.put(event.addr, ("inode", file), True), *self.a.put(event.addr, ("root", file), None),
                *self.a.put(event.addr, ("size", file), 0), *self.a.put(event.addr, ("cuts", file), ((self.version, 0),)),
            ]  # fmt: skip
        if file != self.file:
            return []
        if at == 0 and event.length == 9:
            height = self.height()
            first = self.blocks.get(0)
            if height == 0 and first is not None:
                self.fresh = [block for block in self.fresh if block]
                self._note(0)
            return self.a.put(event.addr, ("root", file), (height, (first, self.version) if height == 0 else None))
        if at == 24 and event.length == 8 or at == 32 and event.length == 16:
            return self.a.put(event.addr, ("size", file), self._size())
        if at == 0 and event.length == 24 and self.op.op == records.TRUNCATE:
            return self._cut(event)
        return []

    def _size(self) -> int:
        if self.op.op == records.TRUNCATE:
            new = int(self.op.new_size)
        else:
            new = max(self.a.size.get(self.file, 0), int(self.op.offset + self.op.length))
        self.a.size[self.file] = new
        self._reach(new)
        return new

    def _reach(self, size: int) -> None:
        """Record that the file has reached `size` bytes; compare large data blocks up to there from now on."""
        if size > self.a.reach.get(self.file, 0):
            self.a.reach[self.file] = size
            if self.a.block_shift > 21:
                for block in (self.known | self.blocks).keys():
                    self._note(block)

    def _after_cut(self) -> tuple:
        unit = 1 << self.a.block_shift
        first = -(-int(self.op.new_size) // unit)
        return (*[cut for cut in self.a.now.get(("cuts", self.file), ()) if cut[1] < first], (self.version, first))

    def _cut(self, event: Event) -> list:
        cuts = self._after_cut()
        self.a.cuts[self.file] = True
        for block in [block for block in self.known if block >= cuts[-1][1]]:
            del self.known[block]
        return self.a.put(event.addr, ("cuts", self.file), cuts)

    def _list(self, i: int, event: Event) -> list:
        if self.op.op != records.TRUNCATE:
            return []  # the recovery ignores a file that lost its last name
        if event.length == 16:
            self.a.cuts[self.file] = True
            return self.a.put(event.addr, ("truncate", self.file), (int(self.op.new_size), self._after_cut()))
        head = self.a.now.get("truncate list")
        return self.a.put(event.addr, "truncate list", None if head == self.file else self.file)

    def _names_to_change(self) -> list[Any]:
        """Return the words that hold names, in the order in which the call changes them."""
        new = ("name", self.version)
        if self.op.op in (records.CREATE, records.MKDIR, records.LINK):
            return [new]
        if self.op.op in (records.UNLINK, records.RMDIR):
            return [self._newest(self.file)]
        if self.op.op == records.RENAME and self.replaced >= 0 and self._newest(self.replaced):
            added = sum(e.site == "directory" and e.code == STORE and e.length not in (2, 8) for e in self.events)
            other = self._newest(self.replaced)
            return [other, new, self._newest(self.file)] if added else [other, self._newest(self.file)]
        return [new, self._newest(self.file)] if self.op.op == records.RENAME else []

    def _newest(self, file: int) -> Any:
        alive = [
            (self.a.now[word][1], word) for word in self.a.names.get(file, []) if self.a.now.get(word, (-1,))[0] == file
        ]
        return max(alive)[1] if alive else None

    def _directory(self, i: int, event: Event) -> list:
        dots = self.op.op == records.MKDIR and event.length == 27 and self.events[i + 1].length == 24
        if dots or not self.names_left:
            return []  # "." and ".." of a new directory
        word = self.names_left.pop(0)
        if word is None:
            return []
        taken = word == ("name", self.version) or (
            self.op.op == records.RENAME
            and self.replaced >= 0
            and len(self.names_left) == 1
            and self.names_left[0] != ("name", self.version)
        )
        if taken:
            self.a.names.setdefault(self.file, []).append(word)
            return self.a.put(event.addr, word, (self.file, self.version))
        return self.a.put(event.addr, word, (-1, 0))
