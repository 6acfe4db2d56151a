"""Recover SCMFS, which writes back each name, size and page-table entry between two barriers and does not order file data.

Units: bytes, device pages of 4096 bytes; a piece is 2 MiB of a file, mapped by one page of page-table entries or by a superpage.
Source: SCMFS superpage paper (2013), III and IV; the stores and their order: docs/models/scmfs.md (a reconstruction).

The recovery is a reconstruction too: it reads the records that a directory counts, their inodes, and the page table. The
check does not compare the content of data pages, because nothing writes them back.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from scmsim.core import records
from scmsim.core.records import LOAD, STORE
from scmsim.fs.contiguous import state as contiguous_state
from scmsim.fs.contiguous.templates import INODE_BYTES, INODE_TABLE, TOP_BYTES, TOP_TABLES
from scmsim.fs.engine import file_row
from scmsim.fs.recovery.expected import Found
from scmsim.fs.recovery.image import PAGE, Image, Mark, Word, in_words
from scmsim.fs.recovery.model import RECONSTRUCTED, Guarantee, Names, Stores, Unrecoverable
from scmsim.fs.recovery.model import RecoveryModel as Base
from scmsim.fs.recovery.observe import Event

SUMMARY = (
    "scmfs: names, sizes and page tables in order, durable at return; file data is neither ordered nor written back"
)
MODELS = ("scmfs", "scmfs-lp")

PIECE, SUPER, PTE = 512, 21, 8
GUARANTEE = Guarantee(
    "names, sizes and mapped pages are durable at return, a size never ahead of its pages; of data nothing is promised",
    True,
    True,
    content=False,
)


class RecoveryModel(Base):
    """Recovery model of SCMFS: 8-byte fields, by name (directory records, inodes) or by address (page-table entries)."""

    guarantee = GUARANTEE
    blame = RECONSTRUCTED

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.names = Names()
        self.records: dict[int, int] = {}  # version of a name -> bytes of its directory record
        self.born: dict[int, int] = {}  # file -> version (number of the operation) that created its inode
        self.size: dict[int, int] = {}
        self.first: dict[int, int] = {}  # file -> start of its first address range, which no event stores
        self.mapped: dict[int, dict[int, int]] = {}  # file -> page -> device page in the running system
        self.touched: dict[int, set[int]] = {}  # file -> pages whose entries may differ from `base`
        self.grown: dict[int, set[int]] = {}  # file -> pages that the last call's growth needs
        self.tables: dict[int, tuple[int, int]] = {}  # device page of page-table entries -> file, piece

    def interpret(self, op: Any, version: int, events: Sequence[Event]) -> Stores:
        """Return, for each event, the writes that the event represents."""
        self.op, self.version, self.events = op, version, events
        self.names.begin(op)
        before = self.mapped.get(int(op.file), {})
        self._look()
        grows = op.op in (records.WRITE, records.FALLOCATE)
        fresh = set(self.mapped.get(int(op.file), {})) - set(before) if grows else set()
        self.grown = {int(op.file): {page for page in fresh if page * PAGE >= self.size.get(int(op.file), 0)}}
        handlers = {"directory": self._directory, "inode": self._inode, "page table": self._table}
        return [
            handlers[event.site](i, event) if event.code == STORE and event.site in handlers else []
            for i, event in enumerate(events)
        ]

    # Contents of the running system, from the model's state.

    def _row(self, file: int) -> Any:
        return file_row.of(self.state, contiguous_state.FILE_WORDS)[file]

    def _entries(self, row: Any, word: int) -> Any:
        at, order = int(row[word]), int(row[word + 1])
        return self.state.arena[at : at + (1 << order)] if at else self.state.arena[:0]

    def _look(self) -> None:
        for file in range(self.count):
            row = self._row(file)
            if row[file_row.STATUS] & file_row.IS_DIR:
                continue
            if row[contiguous_state.RANGE_ORDER]:
                self.first.setdefault(file, int(row[contiguous_state.RANGE]))
            for piece, table in enumerate(self._entries(row, contiguous_state.PTES).tolist()):
                if table:
                    self.tables[table] = (file, piece)
            pages = {page: at for page, at in enumerate(self._entries(row, contiguous_state.BLOCKS).tolist()) if at}
            old = self.mapped.get(file, {})
            self.touched.setdefault(file, set()).update(page for page, _ in pages.items() ^ old.items())
            self.mapped[file] = pages

    # Stores.

    def _directory(self, i: int, event: Event) -> list:
        return self._unnamed(event) if event.length == 8 else self._named(event)

    def _unnamed(self, event: Event) -> list[Word]:
        name = self.names.removed()
        return [] if name is None else self.put(event.addr, ("gone", name), True)

    def _named(self, event: Event) -> list[Mark]:
        self.names.add(int(self.op.file), self.version)
        self.records[self.version] = event.length
        return in_words(event.addr, event.length, ("record", self.version))

    def _inode(self, i: int, event: Event) -> list:
        file, at = divmod(event.addr - INODE_TABLE, INODE_BYTES)
        if at == 0 and event.length == INODE_BYTES:
            self.born[file], self.size[file] = self.version, 0
            self.first.pop(file, None)
            self._look()
            fields = self.put(event.addr, ("range", file), None) + self.put(event.addr, ("size", file), 0)
            return fields + in_words(event.addr, event.length, ("inode", file, self.version))
        resizes = file == self.op.file and self.op.op in (records.WRITE, records.FALLOCATE, records.TRUNCATE)
        if at == 16 and event.length == 16 and resizes:
            end = int(self.op.offset + self.op.length)
            self.size[file] = int(self.op.new_size) if self.op.op == records.TRUNCATE else max(self.size[file], end)
            return self.put(event.addr, ("size", file), self.size[file])
        if at == 16 and event.length == 16 and self.version in self.records:
            return self.put(event.addr, ("counted", self.version), True)
        if at == 8 and event.length == 8 and file < self.count:
            return self.put(event.addr, ("range", file), int(self._row(file)[contiguous_state.RANGE]))
        return []

    def _table(self, i: int, event: Event) -> list:
        if TOP_TABLES <= event.addr < TOP_TABLES + TOP_BYTES:
            return self._upper(i, event)
        if event.length == PAGE and event.addr % PAGE == 0 and self._next(i) is not None:
            return self._cleared(i, event)
        table, first = event.addr // PAGE, event.addr % PAGE // PTE
        owner = self.tables.get(table)
        before = self.events[i - 1]
        gone = (before.code, before.addr, before.site) == (LOAD, event.addr, "page table")
        writes = []
        for k in range(event.length // PTE):
            block = None
            if owner and not gone:
                block = self.mapped.get(owner[0], {}).get(owner[1] * PIECE + first + k)
            writes += self.put(event.addr + k * PTE, ("pte", table, first + k), block)
        return writes

    def _stores(self, i: int, step: int) -> Iterator[Event]:
        i += step
        while 0 <= i < len(self.events):
            if self.events[i].code == STORE:
                yield self.events[i]
            i += step

    def _next(self, i: int) -> int | None:
        """Return the address of the upper entry that will link the page of entries that store `i` clears; None if none."""
        before, after = self.events[i - 1], next(self._stores(i, 1), None)
        new = after is not None and after.site == "page table" and after.length == PTE
        upper = after is not None and TOP_TABLES <= after.addr < TOP_TABLES + TOP_BYTES
        unmaps = i and before.code == LOAD and before.site == "page table"
        return after.addr if after is not None and new and upper and not unmaps else None

    def _cleared(self, i: int, event: Event) -> list:
        table = event.addr // PAGE
        return [w for k in range(PIECE) for w in self.put(event.addr + k * PTE, ("pte", table, k), None)]

    def _upper(self, i: int, event: Event) -> list:
        before, after = next(self._stores(i, -1), None), next(self._stores(i, 1), None)
        if after is not None and after.site == "inode" and after.addr % INODE_BYTES == 8:
            return self._moved(event, (after.addr - INODE_TABLE) // INODE_BYTES)
        new = before is not None and before.site == "page table" and before.length == PAGE
        hung = new and self._next(self.events.index(before)) == event.addr
        writes = []
        for k in range(event.length // PTE):
            addr = event.addr + k * PTE
            value = ("table", before.addr // PAGE) if before is not None and hung else self._super(addr)
            writes += self.put(addr, ("upper", addr), value)
        return writes

    def _super(self, addr: int) -> Any:
        for file in range(self.count):
            for piece in range(int(self._row(file)[contiguous_state.HELD])):
                if upper_at(self._start(file), piece) == addr:
                    return "super", self.mapped[file][piece * PIECE]
        return None

    def _moved(self, event: Event, file: int) -> list:
        if file >= self.count:
            return []
        old, writes = self._start(file), []
        for k in range(event.length // PTE):
            addr = event.addr + k * PTE
            writes += self.put(addr, ("upper", addr), self.now.get(("upper", upper_at(old, k))))
        return writes

    def _start(self, file: int) -> int:
        """Return the start of the file's range of addresses at this point."""
        start = self.now.get(("range", file))
        return self.first.get(file, 0) if start is None else int(start)

    # Recovery.

    def recover(self, image: Image, file: int) -> Found:
        """Return the file as the recovery finds it; raise Unrecoverable if the recovery cannot continue."""
        names = set()
        for version in self.names.every.get(file, []):
            if image.word(("counted", version)) and not image.word(("gone", version)):
                if image.marked(("record", version)) < self.records[version]:
                    raise Unrecoverable("its directory counts a record that is not completely durable")
                names.add(version)
        base = self.base.get(file, {})
        if not names:
            return Found(frozenset(), 0, {}, base)
        if file in self.born and image.marked(("inode", file, self.born[file])) < INODE_BYTES:
            raise Unrecoverable("has a name but no inode")
        size = image.word(("size", file), 0)
        pages = {}
        for page in self.touched.get(file, ()):
            at = self._walk(image, file, page)
            if base.get(page) != at:
                pages[page] = at
            if at is None and page in self.grown.get(file, ()) and page * PAGE < size and size == self.size.get(file):
                raise Unrecoverable(f"its size covers page {page}, which is not mapped")
        return Found(frozenset(names), size, pages, base)

    def _walk(self, image: Image, file: int, page: int) -> int | None:
        start = image.word(("range", file))
        upper = image.word(("upper", upper_at(self.first.get(file, 0) if start is None else start, page // PIECE)))
        if upper is None:
            return None
        kind, at = upper
        return int(at) + page % PIECE if kind == "super" else image.word(("pte", at, page % PIECE))

    def settle(self, image: Image, file: int) -> Found:
        """Set the base of a file to the state that recovery finds in the stores that are certainly durable."""
        found = super().settle(image, file)
        if not found.names:
            self.base[file] = {}
            found = found._replace(base=self.base[file])
        running = self.mapped.get(file, {})
        self.touched[file] = {page for page in self.touched.get(file, ()) if found.base.get(page) != running.get(page)}
        return found


def upper_at(start: int, piece: int) -> int:
    """Return the device offset of the upper entry of piece `piece` of a range (`contiguous.map.directory_at`)."""
    return TOP_TABLES + ((((start >> SUPER) + piece) << 3) & (TOP_BYTES - 1))
