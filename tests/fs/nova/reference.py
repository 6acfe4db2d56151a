"""Model NOVA's persistent accounting in slow, simple code: stores, loads, write-backs and fences of each operation.

Shares no code with scmsim.fs.  Sources: NOVA (Linux 5.1 lineage, its port to 5.13) fs/nova/{file,dax,namei,dir,inode,log}.c;
FAST'16 NOVA dax.c.  FAST'16's field bytes of an inode (100) and of a changed entry (30) are estimates.
"""

from tests.fs.nova.reference_log import LINE, PAGE, VARIANTS, Logs, Reading

RADIX_NODES = 1 << 40  # address of the radix nodes' slabs; this address itself means no node

__all__ = ["VARIANTS", "Nova", "Reading"]


class Nova(Logs):
    """One NOVA; `stored`, `nt`, `loaded`, `flushes`, `fences` (site -> amount) are those of the last operation."""

    def do(self, op, file, offset=0, length=0, file2=-1, synchronous=False, thread=0):
        """Perform one operation; count its amounts, and note the addresses of visited radix nodes in `looked_up`."""
        self._clear()
        self.space.cpu = thread % len(self.space.lists)
        self.looked_up = []
        f = self.files[file]
        parent = self.files[file2] if file2 >= 0 and op != "rename" else self.files[-1]
        if op == "rename" and f.directory:
            parent = f.directory
        over = self.files[file2] if op == "rename" and file2 >= 0 else f
        if over is not f and over.exists and over.directory:
            parent = over.directory  # the replaced file's name stays in its directory
        pages = (offset % PAGE + length + PAGE - 1) // PAGE if length and op in ("write", "fallocate") else 0
        adopts = not f.exists and not f.is_dir
        pages += (max(f.first_size, 0) + PAGE - 1) // PAGE if adopts else 0
        # The model collects after the call if the device is nearly full.
        self.postpones = self.space.free < pages + pages // 8 + 2000 * len(self.space.lists)
        if not f.exists and (f.first_size >= 0 or op not in ("create", "mkdir")):
            self._adopt(f)
        f.opens += op == "open" or (op == "create" and f.exists)
        if op == "write":
            if length:
                self._inode_copied()
                self._write(f, offset, length)
                self.fences["fsync"] += synchronous
        elif op == "read":
            self._read(f, offset, length)
        elif op == "truncate":
            self._truncate(f, offset)
        elif op == "fallocate" and length:
            self._inode_copied()
            grows = offset + length > f.length
            self._fill_holes(f, offset // PAGE, -(-(offset + length) // PAGE), zero=True, grows=grows)
            f.length = max(f.length, offset + length)
        elif op == "fsync":
            self.fences["fsync"] += 1
        elif op == "close":
            self.fences["fsync"] += 1
            self.closes += 1
            f.opens = max(f.opens - 1, 0)
            self._leave(f)
        elif op in ("create", "mkdir"):
            if not f.exists:
                self._create(f, parent, op == "mkdir")
        elif op == "link":
            self._add_dentry(f, parent)
            self._change_links(f, 1)
            self._commit_names(f, parent)
        elif op == "rename":
            self._rename(f, parent, self.files[file2] if file2 >= 0 else None)
        elif op in ("unlink", "rmdir"):
            self._drop_name(f, f.dentry)
            self._change_links(f, -1)
            self._commit_names(f, parent, gone=f if f.links <= 0 or op == "rmdir" else None)
            self._leave(f)
        self._collect()

    def _leave(self, f):
        """Evict a file without a name, unless it is still open (in a trace that has closes)."""
        if f.exists and f.links <= 0 and not (self.closes and f.opens > 0):
            self._evict(f)

    def _assign(self, f, entry):
        """Point the radix tree's slots at `entry`; invalidate the former entries by runs, in FAST'16 by pages."""
        self.loaded["radix tree"] += 1 + 8 + 4  # type, pgoff, num_pages
        runs: list[list] = []
        for page in range(entry.first, entry.first + entry.count):
            old = f.pages.get(page)
            if runs and runs[-1][0] is old and self.v.counters:
                runs[-1][2] += 1
            else:
                runs.append([old, page, 1])
            f.pages[page] = entry
        for old, page, count in runs:
            if old is not None:
                self._invalidate(old, count)
                self.space.give(old.block + page - old.first, count)
        for group in range(entry.first // 64, (entry.first + entry.count - 1) // 64 + 1):
            if group not in f.nodes:
                f.nodes[group] = self._new_node()
        self.looked_up.append(self._node(f, entry.first))

    def _new_node(self):
        """Return the radix node that was freed last, else a new one."""
        if self.free_nodes:
            return self.free_nodes.pop()
        self.most_nodes += 1
        return self.most_nodes

    def _node(self, f, page):
        """Return the address of a page's radix node: 28 nodes of 576 bytes, numbered from 1, per 16 KiB."""
        number = f.nodes.get(page // 64)
        return RADIX_NODES + (number // 28 * 16384 + number % 28 * 576 if number else 0)

    def _free_empty_nodes(self, f):
        for group in sorted(f.nodes):
            if not any(page // 64 == group for page in f.pages):
                self.free_nodes.append(f.nodes.pop(group))

    def _invalidate(self, old, count):
        site = "entry invalidation"
        self.loaded[site] += 49 if self.v.counters else 24
        old.invalid += count
        old.reassigned = True
        self._store(site, 5 if self.v.counters else 4)
        if self.v.counters:
            self._flush(site, old.addr, self.v.entry)
        if old.invalid == old.count:
            old.page.dead += 1
            if self.v.counters:
                self.loaded[site] += 4
                self._store(site, 4)
                self.flushes[site] += 1

    def _copy(self, addr, length):
        head = min(-addr % 8, length)
        self._store("data copy", length, nt=(length - head) // 8 * 8)
        self.fences["data copy"] += 1

    def _fill(self, f, page, addr, length):
        """Fill an end of a new block that the write does not cover with old bytes or zeros, and write it back."""
        site = "partial block" if page in f.pages else "block zeroing"
        if page in f.pages:
            self.loaded[site] += 20 + length  # pgoff, num_pages and block of the old entry, and the bytes
        self._store(site, length)
        self._flush(site, addr, length)

    def _run_of_holes(self, f, page, most):
        count = 0
        while count < most and page + count not in f.pages:
            count += 1
        return count

    def _covered(self, entry, page, most):
        """Return how many pages from `page` on one lookup of `entry` covers."""
        return 1 if entry.reassigned else min(most, entry.first + entry.count - page)

    def _write(self, f, offset, length):
        end, page, fresh = offset + length, offset // PAGE, []
        self._begin_appending(f)
        last = (end - 1) // PAGE
        while page <= last:
            want, low = last - page + 1, max(offset, page * PAGE)
            if self.v.inplace and page in f.pages:
                entry = f.pages[page]
                count = self._covered(entry, page, want)
                high = min(end, (page + count) * PAGE)
                self._copy((entry.block + page - entry.first) * PAGE + low % PAGE, high - low)
                self._update_in_place(entry)
            else:
                want = self._run_of_holes(f, page, want) if self.v.inplace else want
                block, count = self.space.take(want)
                assert count, "no block for data"
                high = min(end, (page + count) * PAGE)
                if low % PAGE:
                    self._fill(f, page, block * PAGE, low % PAGE)
                if high % PAGE:
                    at = high // PAGE
                    self._fill(f, at, (block + at - page) * PAGE + high % PAGE, PAGE - high % PAGE)
                self._copy(block * PAGE + low % PAGE, high - low)
                fresh.append(self._append_write(f, page, count, block))
                if not self.postpones:
                    self._collect()
            page += count
        f.length = max(f.length, end)
        if fresh:
            self._commit(f)
        for entry in fresh:
            self._assign(f, entry)

    def _update_in_place(self, entry):
        self.loaded["entry update"] += 21 + 20
        self._transaction(self.v.entry // 8)
        self._store("entry update", 29)
        self._flush("entry update", entry.addr, 64)
        self.fences["entry update"] += 1
        self._end_transaction()

    def _read(self, f, offset, length):
        end = min(offset + length, f.length)
        while offset < end:
            page, most = offset // PAGE, (end - 1) // PAGE - offset // PAGE + 1
            self.looked_up.append(self._node(f, page))
            if page in f.pages:
                stop = min(end, (page + self._covered(f.pages[page], page, most)) * PAGE)
                self.loaded["radix tree"] += 21
                self.loaded["data copy"] += stop - offset
            else:
                stop = min(end, (page + self._run_of_holes(f, page, most)) * PAGE)
            offset = stop

    def _truncate(self, f, length):
        self._append_record(f, self.v.setattr, self.v.setattr_fields)
        self._commit(f)
        if not self.postpones:
            self._collect()
        if length < f.length:
            if length % PAGE and length // PAGE in f.pages:
                self._store("block zeroing", PAGE - length % PAGE, nt=PAGE - length % PAGE)
                self.fences["block zeroing"] += 1
            if -(-length // PAGE) <= (f.length - 1) // PAGE:
                self._free_from(f, -(-length // PAGE), invalidate=True)
        f.length = length

    def _free_from(self, f, first, invalidate):
        runs: list[list] = []
        for page in sorted(page for page in f.pages if page >= first):
            old = f.pages.pop(page)
            if runs and runs[-1][0] is old and runs[-1][1] + runs[-1][2] == page:
                runs[-1][2] += 1
            else:
                runs.append([old, page, 1])
        for old, page, count in runs:
            self.space.give(old.block + page - old.first, count)
            if invalidate:
                self._invalidate(old, count)
        self._free_empty_nodes(f)

    def _fill_holes(self, f, page, stop, zero, grows=False):
        self._begin_appending(f)
        while page < stop:
            count = self._run_of_holes(f, page, stop - page if zero else min(256, stop - page))
            if count == 0:
                entry = f.pages[page]
                if grows:
                    self.loaded["entry update"] += 21 + 20
                    self._store("entry update", 8)
                    self._flush("entry update", entry.addr, 64)
                page += self._covered(entry, page, stop - page)
                continue
            block, count = self.space.take(count)
            assert count, "no block for a hole"
            if zero:
                self._store("block zeroing", count * PAGE, nt=count * PAGE)
            if not zero:
                self._begin_appending(f)
            entry = self._append_write(f, page, count, block)
            if zero:
                self._commit(f)
            self._assign(f, entry)
            if zero and not self.postpones:
                self._collect()
            page += count

    def _adopt(self, f):
        """Create a file from before the trace, as by writes of 1 MiB, without counting them."""
        f.exists, f.links, length, f.first_size = True, 1, max(f.first_size, 0), -1
        if length and not f.is_dir:
            self._fill_holes(f, 0, -(-length // PAGE), zero=False)
            f.length = length
        self._clear()
        self.looked_up = []

    def _add_dentry(self, f, parent):
        """Append a dentry: non-temporal stores of the name in words of 4 bytes, a fence, 34 bytes of fields, a zero."""
        length = -(-(self.v.dentry + f.name) // 8) * 8
        past = f.name // 4 * 4 if self.v.counters else 0
        fields = 34 + f.name + 1 if self.v.counters else length - 10
        f.dentry, f.directory = self._append_record(parent, length, fields), parent
        self.nt["log append"] += past
        self.fences["log append"] += 1

    def _create(self, f, parent, directory):
        f.exists, f.links, f.opens = True, 1, not directory
        self._add_dentry(f, parent)
        self._store("inode", 106 if self.v.counters else 100)
        self.flushes["inode"] += 2
        if directory and not f.log:  # without a log: the trace may have added names before
            self._begin_directory(f)
        self._transaction(2)
        self._commit(parent)
        self._store("inode", 1)
        if self.v.counters:
            self._written_back("inode", f)
        else:
            self.flushes["inode"] += 2
        self.fences["inode"] += 1
        self._end_transaction()

    def _begin_directory(self, f):
        """Add a log page with "." and "..": clear, store and write back each, then write back both again."""
        self._add_log_pages(f, 1)
        self._add_dots(f)
        page = f.log[0]
        for name, entry in zip((1, 2), page.records, strict=True):
            addr = entry.addr
            self._store("log append", self.v.dot + 34 + name + 1 if self.v.counters else 27 + name)
            self._flush("log append", addr, LINE if self.v.counters else self.v.dot)
        self._store("log extension", 16)
        self._flush("log extension", self._inode(f) + 64, 64)
        self._new_tail(f)
        if self.v.counters:
            self._store("log append", 4)
            self.flushes["log append"] += 1
            self._flush("log append", page.block * PAGE, 2 * self.v.dot)
            self._store("inode", 40)
            self._written_back("inode", f)

    def _drop_name(self, f, dentry):
        """Invalidate a dentry in place, in its own transaction."""
        self._transaction(6)
        self._store("namespace", 31 if self.v.counters else 30)
        self._flush("namespace", dentry.addr if dentry else 0, LINE if self.v.counters else 56)
        if self.v.counters or self.reading.counter_in_dentry:
            self._store("namespace", 4)
            self.flushes["namespace"] += 1
        self.fences["namespace"] += 1
        self._end_transaction()
        if dentry:
            dentry.page.dead += 1
            if f.dentry is dentry:
                f.dentry = None

    def _change_links(self, f, by):
        if f.link_entry:
            self._inode_copied()
            self._transaction(self.v.link_change // 8)
            self._store("namespace", 32 if self.v.counters else 30)
            self.flushes["namespace"] += 1
            self.fences["namespace"] += 1
            self._end_transaction()
        else:
            self._append_record(f, self.v.link_change, self.v.link_fields)
            f.link_entry = True
        f.links += by

    def _commit_names(self, f, parent, replaced=None, gone=None, source=None):
        """Commit the tails of all changed logs in one transaction; also mark the inode of `gone` as invalid."""
        files = [file for file in (f, source, parent, replaced) if file]
        self._transaction(len(files) + 2 * bool(gone))
        for file in files:
            self._commit(file)
        self._store("inode", 9 * bool(gone))
        self.fences["inode"] += 1
        self._end_transaction()

    def _rename(self, f, parent, replaced):
        over = replaced if replaced is not None and replaced.exists and replaced is not f else None
        if replaced is not None and replaced is not f:
            replaced.first_size = -1
        old, source = f.dentry, f.directory if f.directory is not parent else None
        self._change_links(f, 0)
        if over:
            self._drop_name(over, over.dentry)
        self._add_dentry(f, parent)
        self._drop_name(f, old)
        if over:
            self._change_links(over, -1)
        self._commit_names(f, parent, over, over if over and over.links <= 0 else None, source)
        if over:
            self._leave(over)

    def _evict(self, f):
        self._store("inode", 33)
        if self.v.counters:
            self._written_back("inode", f)  # deleted
            self._written_back("inode", f)  # the log's ends
        else:
            self._flush("inode", self._inode(f), 120)
        self._free_from(f, 0, invalidate=False)
        for page in f.log:
            self.space.give(page.block, 1)
        f.log, f.log_size, f.tail, f.length, f.link_entry, f.exists, f.opens = [], 0, 0, 0, False, False, 0
        if self._due and self._due[0] is f:
            self._due = None

    @property
    def log_pages(self) -> int:
        return sum(len(f.log) for f in self.files)

    @property
    def data_blocks(self) -> int:
        return sum(len(f.pages) for f in self.files)
