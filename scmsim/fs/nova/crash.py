"""Recover NOVA: per-inode logs with an atomic tail, a lite undo journal for changes of two logs, data in place or by copy.

Units: bytes, pages of 4096 bytes.
Source: NOVA fs/nova/{log,journal,rebuild}.c (nova_update_tail, nova_recover_lite_journal, nova_rebuild_file_inode_tree).

The recovery rolls an open journal back, walks each log from its head to its tail, and frees the blocks that no log
references. Entries in a log are numbered; a thorough garbage collection turns the log's old part into one record.
"""

from collections.abc import Sequence
from typing import Any

from scmsim.core import records
from scmsim.core.records import NTSTORE, STORE
from scmsim.fs.engine import file_row
from scmsim.fs.nova.flaws import KNOWN
from scmsim.fs.nova.log_state import Running, Sized
from scmsim.fs.nova.state import FILE_WORDS, LOG_BLOCK
from scmsim.fs.recovery.expected import Found
from scmsim.fs.recovery.image import PAGE, Bulk, Copy, Image, Mark, cleared, in_words, label_of
from scmsim.fs.recovery.model import Guarantee, Stores, Unrecoverable, copied, placed, source_of
from scmsim.fs.recovery.model import RecoveryModel as Base
from scmsim.fs.recovery.observe import Event

SUMMARY = "NOVA: the tail of each log commits; a lite journal for names; data by copy-on-write or in place"
MODELS = ("nova-cow", "nova-inplace", "nova-fast16")

INODE_BYTES = 128
HEAD = 64  # offset in an inode of the address of its log's first page; the tail follows
LOG_BYTES = 4064  # bytes for entries in a log page; counters and the next page's address follow
SIZE_WORD = 3  # index of the 8-byte field of a write entry that an in-place update changes
RECORD_BYTES, POINTER_BYTES = 32, 64  # bytes of a journal record and of a CPU's pair of journal pointers

ATOMIC = Guarantee("every call, its data included, is atomic and durable when it returns", True, True)
TORN = Guarantee(
    "every call is durable when it returns, changes of names are atomic; a write in place may be seen in part or torn",
    False,
    True,
)


class RecoveryModel(Base):
    """Recovery model of NOVA: a log is a list of entries; a tail is (how often the inode was freed, entries covered)."""

    flaws = KNOWN

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        record = self.state.record[0]
        self.guarantee = TORN if record.inplace else ATOMIC
        self.entry_bytes = int(record.entry_bytes)
        self.pointers = int(record.pointers_at)
        self.tables = record.table_of[: record.cpus].tolist()
        self.life: dict[int, int] = {}  # file -> how often its inode was freed
        self.log: dict[tuple[int, int], list[tuple]] = {}  # file, life -> entries: (key, bytes, what)
        # File, life -> (entries before a log page, key of its link).
        self.links: dict[tuple[int, int], list[tuple[int, Any]]] = {}
        self.names: dict[int, dict[int, tuple[int, int]]] = {}  # file -> name -> directory, number of the entry
        self.undo: dict[int, list[tuple[Any, Any]]] = {}  # journal transaction -> (8-byte field, old value)
        self.collected: dict[int, int] = {}  # thorough garbage collection -> bytes that it wrote
        self.done: dict[int, tuple[int, int, Sized]] = {}  # file -> life, entries in `base`, what gives the size
        blocks = file_row.of(self.state, FILE_WORDS)[:, LOG_BLOCK].tolist()
        self.begun = {file for file, block in enumerate(blocks) if block}  # directories that have a log from the start
        self.running = {file: Running([blocks[file] * PAGE]) for file in self.begun}

    def interpret(self, op: Any, version: int, events: Sequence[Event]) -> Stores:
        """Return, for each event, the writes that the event represents."""
        return Call(self, op, version, events).stores()

    def recover(self, image: Image, file: int) -> Found:
        """Return the file as the recovery finds it; raise Unrecoverable if the recovery cannot continue."""
        return self._walk(self._rolled_back(image), file)[0]

    def settle(self, image: Image, file: int) -> Found:
        """Set the base of a file to the state that recovery finds in the stores that are certainly durable."""
        image = self._rolled_back(image)
        found, done = self._walk(image, file)
        if done[0] != self.done.get(file, done)[0]:
            self.base[file] = {}
        found = super().settle(image, file)
        self.done[file] = done
        return found

    def _walk(self, image: Image, file: int) -> tuple[Found, tuple[int, int, Sized]]:
        names = self._names(image, file)
        if names and not image.word(("valid", file), False):
            raise Unrecoverable("has a name but no valid inode")
        gc = image.word(("collected", file), 0)
        if gc and image.marked(("gc", gc)) < self.collected[gc]:
            raise Unrecoverable("its log begins with a page whose entries have not arrived")
        life, tail = image.word(("tail", file), (0, 0))
        known, count, sized = self.done.get(file, (life, 0, Sized()))
        base = self.base.get(file, {})
        if known != life:
            count, sized, base = 0, Sized(), {}
        if tail and not image.word(("head", file, life), life == 0 and file in self.begun):
            raise Unrecoverable("its log has a tail, but nothing leads to its first page")
        for at, key in self.links.get((file, life), []):
            if count <= at < tail and not image.word(key, False):
                raise Unrecoverable("the tail of its log is on a page to which no link leads")
        pages: dict[int, int | None] = {}
        for number in range(count, tail):
            key, what = self._whole(image, file, life, number)
            if what[0] == "map":
                pages.update({what[1] + i: what[3] + i for i in range(what[2])})
                sized = Sized(key)
            elif what[0] == "cut":
                sized = sized._replace(cut=(what[2], what[1]))
                pages.update({page: None for page in {*pages, *base} if page * PAGE >= what[1]})
        return Found(names, sized.size(image), pages, base), (life, tail, sized)

    def _names(self, image: Image, file: int) -> frozenset[int]:
        names = []
        for name, (directory, number) in self.names.get(file, {}).items():
            life, tail = image.word(("tail", directory), (0, 0))
            if number < tail and not image.word(("dead", name), False):
                self._whole(image, directory, life, number)
                names.append(name)
        return frozenset(names)

    def _whole(self, image: Image, file: int, life: int, number: int) -> tuple[Any, tuple]:
        key, length, what = self.log[file, life][number]
        if image.marked(key) < length:
            raise Unrecoverable("the log tail of the file or directory covers an entry that is not completely durable")
        return key, what

    def _rolled_back(self, image: Image) -> Image:
        """Return the device after the recovery of the journal, which restores the old values of an open transaction."""
        transaction = image.word("journal tail", 0)
        if image.word("journal head", 0) == transaction:
            return image
        rolled = Image(image)
        for number, (key, old) in enumerate(self.undo[transaction]):
            if image.marked(("undo", transaction, number)) < RECORD_BYTES:
                raise Unrecoverable("the journal is open, but a record of the journal is not completely durable")
            rolled.words[key] = old
        return rolled


class Call:
    """Interpreter of one call: maps its events, in order, to the writes that they represent."""

    def __init__(self, recovery: RecoveryModel, op: Any, version: int, events: Sequence[Event]) -> None:
        self.a, self.op, self.version, self.events = recovery, op, version, events
        self.file = int(op.file)
        self.replaced = (
            int(op.replaced) if op.op == records.RENAME and op.replaced >= 0 and op.replaced != op.file else -1
        )
        self.parent = self._parent()
        # Directory of the old name.
        self.source = self._directory(self.file) if op.op == records.RENAME else self.parent
        self.me = self._running(self.file)
        copies = copied(op, events, "data copy") if op.op == records.WRITE else []
        self.copies = {i: span for i, *span in copies}
        self.pages = placed(copies, events)
        self.fresh: list[int] = []  # log pages that are initialised but not linked yet
        self.pending: list[int] = []  # pages of the file that the next write entry maps
        self.page = self.copied_to = 0  # of the last copy: its first page, its end in the file
        self.resized: list[Any] = []  # write entries with a new size
        self.found: dict[int, int] = {}  # address of a write entry that fallocate found -> one of its pages
        self.victims = [file for file in (self.replaced, self.file) if file >= 0]  # files that lose a name, in order

    def stores(self) -> Stores:
        """Return, for each event, the writes that the event represents."""
        handlers = {
            "data copy": self._data, "partial block": self._partial, "block zeroing": self._zeroing,
            "log append": self._append, "log extension": self._extend, "log gc": self._collect, "log commit": self._commit,
            "journal": self._journal, "entry update": self._update, "inode": self._inode, "namespace": self._name,
        }  # fmt: skip
        meant = []
        for i, event in enumerate(self.events):
            handler = handlers.get(event.site) if event.code in (STORE, NTSTORE) else None
            meant.append(handler(i, event) if handler else [])
        return meant

    def _parent(self) -> int:
        """Return the directory of the name that the call adds or removes; for a rename, of the replaced file if there is one."""
        if self.op.op == records.RENAME:
            over = self.replaced if self.replaced >= 0 and self._newest(self.replaced) > 0 else self.file
            return self._directory(over)
        return int(self.op.parent) if 0 <= self.op.parent < self.a.count else self.a.count

    def _directory(self, file: int) -> int:
        names = self.a.names.get(file, {})
        return names[max(names)][0] if names else self.a.count

    def _running(self, file: int) -> Running:
        return self.a.running.setdefault(file, Running())

    def _key(self, file: int) -> tuple[int, int]:
        return file, self.a.life.get(file, 0)

    def _log(self, file: int) -> list[tuple]:
        return self.a.log.setdefault(self._key(file), [])

    def _owner(self, addr: int) -> int:
        """Return the file whose log contains the page of this address."""
        page = addr // PAGE * PAGE
        return next(f for f in (self.file, self.parent, self.replaced) if page in self._running(f).chain)

    def _inode_of(self, addr: int) -> int:
        """Return the file whose inode contains this address; -1 if no inode does."""
        for cpu, table in enumerate(self.a.tables):
            file = (addr - table) // INODE_BYTES * len(self.a.tables) + cpu
            if addr >= table and file <= self.a.count:
                return file
        return -1

    # data

    def _data(self, i: int, event: Event) -> list:
        if i not in self.copies:
            return []
        offset, length = self.copies[i]
        if length:
            self.page, self.copied_to = offset // PAGE, offset + length
        last = (offset + length - 1) // PAGE
        self.pending += [page for page in range(self.page, last + 1) if page not in self.pending]
        return [Bulk(event.addr, length, label_of(self.version, offset))]

    def _partial(self, i: int, event: Event) -> list:
        source = source_of(self.events, i)
        return [] if source is None else [Copy(event.addr, event.length, source)]

    def _zeroing(self, i: int, event: Event) -> list:
        if self.op.op == records.FALLOCATE:
            page, left = int(self.op.offset) // PAGE, event.length // PAGE
            while left:
                if page not in self.me.mapped:
                    self.pages[page] = (event.addr + event.length) // PAGE - left
                    self.pending.append(page)
                    left -= 1
                page += 1
        return cleared(event.addr, event.length)

    # logs

    def _append(self, i: int, event: Event) -> list:
        if event.addr % PAGE >= LOG_BYTES:
            return []  # the recovery rebuilds the counters of a log page
        if event.code == NTSTORE:
            return self._write_entry(event) if self.pending else self._copied_name(event)
        before = self.events[i - 1]
        if before.addr != event.addr or before.code != STORE or before.length < event.length:
            return []  # the clearing of an entry before its fields, or the mark at a page's end
        owner = self._owner(event.addr)
        what: tuple = ("plain",)
        if owner == self.file and self.op.op == records.TRUNCATE:
            what = ("cut", int(self.op.new_size), self.version)
            self.me.size = int(self.op.new_size)
            self.me.mapped = {page: at for page, at in self.me.mapped.items() if page * PAGE < self.op.new_size}
        elif owner == self.parent:
            self.a.names.setdefault(self.file, {})[self.version] = (owner, len(self._log(owner)))
        key = ("entry", *self._key(owner), len(self._log(owner)))
        self._log(owner).append((key, event.length, what))
        return in_words(event.addr, event.length, key)

    def _copied_name(self, event: Event) -> list:
        """Return the part of a name that bypasses the cache, after the fields of its entry."""
        log = self._log(self._owner(event.addr))
        key, length, what = log[-1]
        log[-1] = key, length + event.length, what
        return in_words(event.addr, event.length, key)

    def _write_entry(self, event: Event) -> list:
        pages, self.pending = sorted(self.pending), []
        key = ("entry", *self._key(self.file), len(self._log(self.file)))
        first = self.pages[pages[0]]
        self._log(self.file).append((key, event.length - 8, ("map", pages[0], len(pages), first)))
        self.me.mapped.update({page: self.pages[page] for page in pages})
        self.me.entry_of.update(dict.fromkeys(pages, key))
        size_at = event.addr + 8 * SIZE_WORD
        marks = [mark for mark in in_words(event.addr, event.length, key) if mark.addr != size_at]
        return [*marks, *self.a.put(size_at, ("size", key), self._size())]

    def _size(self) -> tuple[int, int]:
        """Return (version of the call, file size in bytes) as stored in a write entry."""
        if self.op.op == records.WRITE:
            self.me.size = max(self.me.size, self.copied_to)
        elif not self.op.flag & records.KEEP_SIZE:
            self.me.size = max(self.me.size, int(self.op.offset + self.op.length))
        return self.version, self.me.size

    def _update(self, i: int, event: Event) -> list:
        self.pending = []
        if self.op.op == records.FALLOCATE:  # the entries of the pages that had blocks, in order
            self.page = self._found(event.addr)
        key = ("size", self.me.entry_of[self.page])
        version, size = self._size()
        if self.op.op == records.FALLOCATE:  # nova_fallocate keeps the transaction, and a larger size
            version, old = self.a.now.get(key, (version, 0))
            size = max(size, old)
        return self.a.put(event.addr + 8 * SIZE_WORD, key, (version, size))

    def _found(self, addr: int) -> int:
        """Return a page of the write entry at this address, which fallocate found; it may find one several times."""
        old = [page for page in self.me.mapped if (page + 1) * PAGE > self.op.offset and page not in self.pages]
        left = [page for page in old if self.me.entry_of[page] not in self.resized]
        if addr not in self.found:
            self.found[addr] = min(left)
            self.resized.append(self.me.entry_of[min(left)])
        return self.found[addr]

    def _extend(self, i: int, event: Event) -> list:
        if event.negated_page_bytes < 0:
            self.fresh += [low // PAGE * PAGE for low, _ in event.runs()]
            return []
        fresh, owner = self.fresh, -1
        if event.addr % PAGE < LOG_BYTES:  # head and tail in the inode
            if fresh:
                self.fresh = []
                file = self._inode_of(event.addr)
                self._running(file).chain = fresh
                return self.a.put(event.addr, ("head", *self._key(file)), True)
            return []
        owner, self.fresh = self._owner(event.addr), []
        self._running(owner).chain += fresh
        key = ("link", *self._key(owner), len(self._log(owner)))
        self.a.links.setdefault(self._key(owner), []).append((len(self._log(owner)), key))
        return self.a.put(event.addr, key, True)

    def _collect(self, i: int, event: Event) -> list:
        """Return a garbage collection's writes: fast GC only drops dead pages; thorough GC makes the old part one record."""
        first = next((k for k, e in enumerate(self.events) if e.site == "log gc" and e.code == NTSTORE), -1)
        if first < 0:
            return []
        number = len(self.a.collected) + (i == first)
        if i == first:
            self.a.collected[number] = 0
        if event.addr % INODE_BYTES == HEAD and event.length == 16 and self._inode_of(event.addr) >= 0:
            running = self._running(self._inode_of(event.addr))
            running.chain, self.fresh = self.fresh + running.chain, []
            return self.a.put(event.addr, ("collected", self._inode_of(event.addr)), number)
        self.a.collected[number] += event.length
        return [Mark(event.addr, event.length, ("gc", number))]

    # commits and names

    def _commit(self, i: int, event: Event) -> list:
        file = self._inode_of(event.addr)
        return self.a.put(event.addr, ("tail", file), (self._key(file)[1], len(self._log(file))))

    def _journal(self, i: int, event: Event) -> list:
        transaction = len(self.a.undo)
        if self.a.pointers <= event.addr < self.a.pointers + PAGE:  # one call at a time: at most one journal is open
            return self.a.put(event.addr, "journal tail" if event.addr % POINTER_BYTES else "journal head", transaction)
        before, first = self.events[i - 1], 0
        if (before.code, before.site) == (STORE, "journal"):  # the records continue at the start of the ring
            first = before.length // RECORD_BYTES
        else:
            transaction += 1
            self.a.undo[transaction] = []
        words = self._saved(i)[first : first + event.length // RECORD_BYTES]
        self.a.undo[transaction] += [(word, self.a.now.get(word)) for word in words]
        return [
            mark
            for k in range(len(words))
            for mark in in_words(event.addr + k * RECORD_BYTES, RECORD_BYTES, ("undo", transaction, first + k))
        ]

    def _saved(self, i: int) -> list[Any]:
        """Return the words whose old values a journal transaction saves, inferred from the next change."""
        change = next(e for e in self.events[i + 1 :] if e.code == STORE and e.site != "journal")
        if change.site == "entry update":
            return [("size", self.me.entry_of[self.page])]
        if change.site == "namespace":
            return [] if self._inode_of(change.addr) >= 0 else [("dead", self._newest(self.victims[0]))]
        if self.op.op in (records.CREATE, records.MKDIR):
            return [("valid", self.file), ("tail", self.parent)]
        words = [("tail", file) for file in dict.fromkeys((self.file, self.source, self.parent))]
        if self.replaced >= 0:
            return [*words, ("tail", self.replaced), ("valid", self.replaced)]
        return [*words, ("valid", self.file)]

    def _newest(self, file: int) -> int:
        """Return the version of a file's newest live name, apart from a name that this call adds; 0 if it has none."""
        names = self.a.names.get(file, {})
        alive = [name for name in names if name != self.version and not self.a.now.get(("dead", name))]
        return max(alive, default=0)

    def _name(self, i: int, event: Event) -> list:
        if self._inode_of(event.addr) >= 0 or event.addr % PAGE >= LOG_BYTES:
            return []  # the names imply a link count; the recovery rebuilds the counters of a log page
        return self.a.put(event.addr, ("dead", self._newest(self.victims.pop(0))), True)

    def _inode(self, i: int, event: Event) -> list:
        at = event.addr % INODE_BYTES
        file = self._inode_of(event.addr)
        if at == 0:
            return self.a.put(event.addr, ("valid", file), False)
        if at == 1:
            return self.a.put(event.addr, ("valid", file), True)
        if at == 96:
            return self.a.put(event.addr, ("valid", file), self._newest(file) > 0)
        if at == HEAD:
            self.a.life[file] = self.a.life.get(file, 0) + 1
            self.a.running[file] = Running()
            return self.a.put(event.addr + 8, ("tail", file), (self.a.life[file], 0))
        return []
