"""Model NOVA's per-inode log in slow, simple code: records, extension with its scan, thorough GC, the journal.

Shares no code with scmsim.fs.  Sources: NOVA (Linux 5.1 lineage) fs/nova/{log,gc,journal}.c, log.h, nova_def.h; FAST'16
NOVA inode.c, nova.h.  Units: bytes, blocks and pages of 4096 bytes, 64-byte lines.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.reference.nova_lists import formatted

PAGE, LOG_BYTES, LINE = 4096, 4064, 64
INODE = 128
EXTEND_THRESHOLD = 256


class Variant(NamedTuple):
    """The differences between the versions of NOVA."""

    entry: int  # bytes of a write entry
    counters: bool  # log pages count their entries; entries are cleared before they are written; inodes have a checksum
    inplace: bool
    dentry: int  # bytes of a dentry without its name, but with a closing zero if it has one
    setattr: int  # bytes of a record of this kind, as the next two
    link_change: int
    dot: int
    setattr_fields: int  # bytes that the source stores into the fields of a setattr record
    link_fields: int  # the same of a link-change record


VARIANTS = {
    "nova-cow": Variant(64, True, False, 49, 56, 40, 56, 49, 32),
    "nova-inplace": Variant(64, True, True, 49, 56, 40, 56, 49, 32),
    "nova-fast16": Variant(40, False, False, 29, 32, 32, 32, 22, 22),
}


class Reading(NamedTuple):
    """Known differences between the compiled model and the source; all False is the source."""

    plain_first: bool = False  # thorough GC copies a page's records without data together, before the others
    counter_in_dentry: bool = False  # FAST'16 updates a page counter that it does not have when a name is dropped


@dataclass(eq=False)
class LogPage:
    block: int
    records: list = field(default_factory=list)
    used: int = 0
    dead: int = 0


@dataclass(eq=False)
class Entry:
    """A write entry, or (block < 0) a record without data."""

    page: LogPage
    addr: int
    length: int
    first: int
    count: int
    block: int
    invalid: int = 0
    reassigned: bool = False


@dataclass
class File:
    number: int
    name: int
    first_size: int
    is_dir: bool = False
    exists: bool = False
    length: int = 0
    pages: dict = field(default_factory=dict)  # file page -> Entry
    nodes: dict = field(default_factory=dict)  # file page / 64 -> radix node
    log: list = field(default_factory=list)
    log_size: int = 0  # sih->log_pages: thorough GC adds all pages that it allocated, even unfilled ones
    tail: int = 0
    links: int = 0
    opens: int = 0
    link_entry: bool = False
    dentry: Entry | None = None  # dentry of its newest name
    directory: "File | None" = None  # directory of that name


class Logs:
    """The files of one NOVA and their logs, and the amounts of the current operation."""

    def __init__(self, variant, names, first_sizes, dirs, capacity, inode_fence=False, reading=None, cpus=1):
        self.v, self.reading, self.inode_fence = variant, reading or Reading(), inode_fence
        rows = len(names) + 1  # the last one is the parent directory of names without one in the trace
        made = [i for i in dirs if first_sizes[i] >= 0]
        fast16 = not variant.counters
        self.space, _, tables, logs = formatted(capacity // PAGE, cpus, rows, len(made), fast16=fast16)
        self.tables = [table * PAGE for table in tables]
        self.files = [
            File(i, len(name), size, i in dirs) for i, (name, size) in enumerate(zip(names, first_sizes, strict=True))
        ]
        self.files.append(File(rows - 1, 0, 0, True, True))
        for i, block in zip([-1, *sorted(made)], logs, strict=True):
            self.files[i].log, self.files[i].log_size = [LogPage(block)], 1
            self._add_dots(self.files[i])
        self.journals = [0] * cpus  # next offset in each journal page
        self.free_nodes: list[int] = []  # free radix nodes, the last freed one at the end
        self.most_nodes = 0
        self.scanned_pages = self.copied = self.gcs = self.closes = 0
        self._due: File | None = None
        self.committed: LogPage | None = None  # log page with the tail that the current operation found
        self.postpones = False  # whether thorough GC waits until the operation's end
        self._clear()

    def _clear(self) -> None:
        self.stored, self.nt, self.loaded = Counter(), Counter(), Counter()
        self.flushes, self.fences = Counter(), Counter()

    def _store(self, site, length, nt=0):
        self.stored[site] += length
        self.nt[site] += nt

    def _flush(self, site, addr, length):
        self.flushes[site] += (addr + length - 1) // LINE - addr // LINE + 1

    def _inode(self, f):
        return self.tables[f.number % len(self.tables)] + f.number // len(self.tables) * INODE

    def _inode_copied(self):
        """Load the inode for its copy, with checksums or without (nova_check_inode_integrity)."""
        if self.v.counters:
            self.loaded["inode"] += 120

    def _commit(self, f):
        """Update a log's tail (nova_update_tail), then write the inode back."""
        self._new_tail(f)
        self._written_back("log commit", f)

    def _new_tail(self, f):
        site = "log commit"
        self.fences[site] += 2
        self._store(site, 8)
        self._flush(site, self._inode(f) + 72, 64)

    def _written_back(self, site, f):
        """Write the inode back, even without checksums (nova_update_inode_checksum); FAST'16 does not."""
        if self.v.counters:
            self._flush(site, self._inode(f), 120)
            self.fences[site] += self.inode_fence

    def _transaction(self, records):
        """Journal old 8-byte values as 32-byte records with a checksum of 28 bytes, then store the tail pointer."""
        self.loaded["journal"] += 8 + 8 + 8 + (8 + 28) * records
        self._store("journal", 32 * records)
        at = self.journals[self.space.cpu]
        places = [(at + 32 * i) % PAGE for i in range(records)]
        self.flushes["journal"] += len({place // LINE for place in places})
        self.journals[self.space.cpu] = (at + 32 * records) % PAGE
        self._store("journal", 8)
        self.flushes["journal"] += 1
        self.fences["journal"] += 2

    def _end_transaction(self):
        self.loaded["journal"] += 8
        self._store("journal", 8)
        self.flushes["journal"] += 1
        self.fences["journal"] += 1

    def _add_log_pages(self, f, count):
        added = []
        while len(added) < count:
            start, got = self.space.take(count - len(added), log=True)
            assert got, "no block for a log page"
            added += [LogPage(start + i) for i in range(got)]
            self.fences["log extension"] += 1
        self._store("log extension", (16 if self.v.counters else 8) * count)
        self.flushes["log extension"] += count
        f.log += added
        f.log_size += count

    def _add_dots(self, f):
        """Put "." and ".." on the first log page of a directory."""
        page = f.log[0]
        for _ in range(2):
            page.records.append(Entry(page, page.block * PAGE + page.used, self.v.dot, 0, 1, -1))
            page.used += self.v.dot

    def _begin_appending(self, f):
        """Note the log page that a scan ends at (sih->log_tail in nova_inode_log_fast_gc)."""
        self.committed = f.log[f.tail] if f.log else None

    def _collect(self):
        """Run the thorough GC that is due."""
        if self._due is not None:
            self._thorough_gc(*self._due)
            self._due = None

    def _append(self, f, length, first=0, count=1, block=-1):
        """Reserve room for a record at the log's tail, adding a page if needed; return the record."""
        site = "log extension"
        if not f.log:
            self._add_log_pages(f, 1)
            self.fences[site] += 1
            self._store(site, 16)
            self._flush(site, self._inode(f) + 72, 64)
            self._flush(site, self._inode(f) + 64, 64)
            self._written_back(site, f)
            self.committed = f.log[0]
        page = f.log[f.tail]
        if page.used + length > LOG_BYTES:
            self.loaded["log append"] += 32
            if page.used < LOG_BYTES:  # room for the mark that the log continues on another page
                self._store("log append", 1)
                self._flush("log append", page.block * PAGE + page.used, LINE)
                self.fences["log append"] += 1
            if f.tail == len(f.log) - 1:
                self._extend(f)
            f.tail += 1
            page = f.log[f.tail]
        entry = Entry(page, page.block * PAGE + page.used, length, first, count, block)
        page.records.append(entry)
        page.used += length
        return entry

    def _extend(self, f):
        """Add pages after a full log; scan each page before the tail and free those without live entries."""
        site, tail_page = "log extension", f.log[f.tail]
        self._add_log_pages(f, min(f.log_size, EXTEND_THRESHOLD))
        self.fences[site] += 2
        end = f.log.index(self.committed)
        self.loaded["log scan"] += end * (40 if self.v.counters else LOG_BYTES // self.v.entry * self.v.entry)
        self.scanned_pages += end
        kept: list[LogPage] = []
        for page in f.log[:end]:
            if page.dead == len(page.records):
                if kept:  # link the page before to the page after
                    self._store("log gc", 8)
                    self.flushes["log gc"] += 1
                    self.fences["log gc"] += 1
                self.space.give(page.block, 1)
                f.log_size -= 1
            else:
                kept.append(page)
        f.log = kept + f.log[end:]
        f.tail = f.log.index(tail_page)
        self._store(site, 8)  # the tail page's link to the new pages
        self.flushes[site] += 1
        self._store(site, 16)  # the log's head
        self._written_back(site, f)
        self._flush(site, self._inode(f) + 64, 64)
        entries = sum(len(page.records) for page in kept)
        valid = entries - sum(page.dead for page in kept)
        if self._due and self._due[0] is f:
            self._due = None
        if entries and not f.is_dir:
            blocks = -(-valid * len(kept) // entries) if self.v.counters else -(-valid * self.v.entry // LOG_BYTES)
            if blocks and 2 * blocks < len(kept):
                self._due = f, len(kept), blocks

    def _thorough_gc(self, f, old, blocks):
        """Copy the live entries of the first `old` pages of the log to new pages, which become the log's head."""
        spare = 257 if self.v.counters else 0  # a log's pages stay out of the dead zone
        if self.space.free < len(self.tables) * (blocks + blocks // 64 + 8 + spare):
            return
        site, rest, due = "log gc", f.log[old:], f.log[:old]
        f.log = []
        self._add_log_pages(f, blocks)
        at = 0
        for page in due:
            self.loaded[site] += len(page.records) * (1 + 4 + 4)  # type, num_pages, invalid_pages
            live, together = [entry for entry in page.records if entry.invalid < entry.count], 0
            if self.reading.plain_first:
                live.sort(key=lambda entry: entry.block >= 0)
                together = sum(entry.length for entry in live if entry.block < 0)
            for entry in live:
                if f.log[at].used + max(entry.length, together) > LOG_BYTES:
                    at += 1
                    if at == len(f.log):
                        self._add_log_pages(f, 1)
                target, together = f.log[at], 0
                self._store(site, entry.length, nt=entry.length)
                self.loaded[site] += entry.length + (1 + 8 + 4)  # then type, pgoff, num_pages
                self.fences[site] += 1
                if self.v.counters:
                    self.loaded[site] += 4
                    self._store(site, 4)
                    self.flushes[site] += 1
                entry.page, entry.addr = target, target.block * PAGE + target.used
                target.records.append(entry)
                target.used += entry.length
                self.copied += 1
        for page in [*due, *f.log[at + 1 :]]:
            self.space.give(page.block, 1)
        f.log = f.log[: at + 1] + rest
        f.tail += at + 1 - old
        f.log_size -= old
        self._store(site, 8 + 16)  # link to the rest of the log; the log's head
        self._written_back(site, f)
        self.flushes[site] += 1
        self._flush(site, self._inode(f), 120)
        self.fences[site] += 2
        self.gcs += 1

    def _count_entry(self, page):
        if self.v.counters:
            self.loaded["log append"] += 4
            self._store("log append", 4)
            self.flushes["log append"] += 1

    def _append_record(self, f, length, fields):
        """Append a record without data: clear it, then store its fields; write back 64 bytes if pages count entries."""
        self._inode_copied()
        self._begin_appending(f)
        entry = self._append(f, length)
        self._store("log append", length + fields)
        self._flush("log append", entry.addr, LINE if self.v.counters else length)
        self._count_entry(entry.page)
        return entry

    def _append_write(self, f, first, count, block):
        entry = self._append(f, self.v.entry, first, count, block)
        if self.v.counters:
            self._store("log append", 64)
            self.flushes["log append"] += 2 if self.v.inplace else 1  # write-backs of lines on the stack
        self._store("log append", self.v.entry, nt=self.v.entry)
        self.fences["log append"] += 1
        self._count_entry(entry.page)
        return entry
