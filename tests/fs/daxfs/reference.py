"""DaxFS again in slow, simple code: the table as a dict of buckets that is really searched, the pool as a number and a list.

Source: DaxFS daxfs/{overlay,file,dir}.c; nothing is shared with the kernels.  What stands for FNV-1a is repeated here, since a
test compares buckets.
"""

from collections import Counter
from dataclasses import dataclass, field

from tests.fs.names import Names

PAGE = 4096
INODE, LIST = 0xFFFFF, 0xFFFFE


def mixed(number):
    """The hash of a name by its number."""
    x = (number + 1) * 2654435761 % 2**32
    x = (x ^ x >> 16) * 73244475 % 2**32
    return x ^ x >> 15


@dataclass
class File:
    ino: int
    is_dir: bool = False
    size: int = 0
    pages: dict[int, int] = field(default_factory=dict)  # page of the file -> page of the pool
    known: set[int] = field(default_factory=set)  # pages that the kernel's map of the inode has
    links: int = 1
    opens: int = 0
    name: int | None = None  # number of the name that it has
    entry: bool = True  # whether a directory entry names it


class Table:
    """Open addressing with linear probing; a key is never removed."""

    def __init__(self, count):
        self.count, self.buckets = count, {}

    def probes(self, key):
        """Buckets looked at until the key or a free bucket is found."""
        at, n = key[0] % self.count, 1
        while at in self.buckets and self.buckets[at] != key:
            at, n = (at + 1) % self.count, n + 1
        return at, n

    def has(self, key):
        return self.probes(key)[0] in self.buckets


class DaxFS(Names):
    """A device of `capacity` bytes with `buckets` buckets; sums by mechanism of the last operation."""

    def __init__(self, sizes, dirs, capacity, buckets, *, filled=False):
        self.pool = capacity - 2 * PAGE - -(-16 * buckets // PAGE) * PAGE
        self.table, self.top, self.filled = Table(buckets), 32, filled
        self.table.buckets[((1 << 20) + INODE) % buckets] = ((1 << 20) + INODE,)
        self.root, self.next, self.unknown = len(sizes), 2, 0
        self.numbers = {len(sizes): 1}  # inode numbers of directories that have entries
        self.names, self.lists = {}, set()  # names with an entry; directories with a list
        self.old: dict[int, set[int]] = {}  # gaps = filled: inode -> pages whose key is in the table
        self.free: list[int] = []
        self.refused = self.cut = self.lost = 0
        super().__init__(sizes, dirs)

    def reset(self):
        self.stored, self.loaded, self.nt, self.flushes, self.fences = (Counter() for _ in range(5))

    # The table and the pool.

    def search(self, key):
        at, n = self.table.probes(key)
        self.loaded["hash table"] += 16 * n
        return at in self.table.buckets

    def insert(self, key, quiet=False):
        at, _ = self.table.probes(key)
        if not quiet:
            self.search(key)
            self.stored["hash table"] += 16
            self.loaded["hash table"] += 8
        self.table.buckets[at] = key

    def bump(self, quiet=False):
        if not quiet:
            self.stored["pool"] += 8
            self.loaded["pool"] += 8

    def take_entry(self, size, quiet=False):
        self.bump(quiet)
        self.top += size

    def take_pages(self, count):
        first = -(-self.top // PAGE)
        self.top = (first + count) * PAGE
        return first

    def take_page(self):
        self.bump()
        if not self.free:
            return self.take_pages(1)
        self.loaded["pool"] += 8
        return self.free.pop()

    def push(self, page):
        self.stored["pool"] += 16
        self.loaded["pool"] += 8
        self.free.append(page)

    def key(self, file, page):
        return ((file.ino << 20) + page,)

    def adopt(self, number):
        size, is_dir = self.before[number]
        self.files[number] = file = File(self.next, is_dir, 0 if is_dir else max(size, 0), name=number)
        self.next += 1
        self.take_entry(32, True)
        self.insert(self.key(file, INODE), True)
        if number not in self.names:
            self.names[number] = None
            self.take_entry(304, True)
            self.insert((mixed(number), number), True)
        if self.root not in self.lists:
            self.lists.add(self.root)
            self.take_entry(16, True)
            self.insert(((1 << 20) + LIST,), True)
        count = -(-file.size // PAGE)
        first = self.take_pages(count) if count else 0
        for page in range(count):
            file.pages[page] = first + page
            self.insert(self.key(file, page), True)

    # Data.

    def find(self, file, page):
        """daxfs_overlay_get_page_cached."""
        if page in file.known:
            return file.pages[page]
        self.search(self.key(file, page))
        if page in file.pages:
            file.known.add(page)
        return file.pages.get(page)

    def publish(self, file, page, taken):
        if page in file.pages:
            self.search(self.key(file, page))
            self.push(taken)
            self.search(self.key(file, page))
        else:
            self.insert(self.key(file, page))
            file.pages[page] = taken
        file.known.add(page)

    def set_size(self, file, size):
        file.size = size
        self.search(self.key(file, INODE))
        self.stored["entry"] += 8

    def do_write(self, number, offset, length, _):
        file = self.files[number]
        if length == 0:
            return
        end, pages = offset + length, range(offset // PAGE, (offset + length - 1) // PAGE + 1)
        ahead = (self.pool - -(-self.top // PAGE) * PAGE) // PAGE
        if 2 <= len(pages) <= 256 and ahead >= len(pages) and not file.known.intersection(pages):
            self.bump()
            first = self.take_pages(len(pages))
            for k, page in enumerate(pages):
                self.stored["zeroing"] += PAGE
                self.publish(file, page, first + k)
        for page in pages:
            piece = min(end, (page + 1) * PAGE) - max(offset, page * PAGE)
            if self.find(file, page) is None:
                self.add(file, page, piece == PAGE)
            self.stored["copy"] += piece
        if end > file.size:
            self.set_size(file, end)

    def add(self, file, page, whole):
        taken = self.take_page()
        self.stored["zeroing"] += 0 if whole else PAGE
        self.publish(file, page, taken)

    def do_read(self, number, offset, length, _):
        file = self.files[number]
        at, end = offset, min(offset + length, file.size)
        while at < end:
            page = at // PAGE
            stop = page + 1
            if page not in file.pages and not self.filled:
                self.find(file, page)
                self.cut += 1
                return
            if page in file.known:
                while stop * PAGE < end:
                    if self.find(file, stop) != file.pages[page] + stop - page:
                        break
                    stop += 1
            elif page in file.pages:
                self.find(file, page)
            stop = min(stop * PAGE, end)
            self.loaded["copy"] += stop - at if page in file.pages else 0
            at = stop

    def do_truncate(self, number, size, *_):
        file = self.files[number]
        for page in sorted(file.pages):
            begin = max(size, page * PAGE)
            if page * PAGE + PAGE <= size or (not self.filled and begin >= file.size):
                continue
            if self.filled and begin == page * PAGE:
                self.give_back(file, page)
            else:
                self.find(file, page)
                self.stored["zeroing"] += (page + 1) * PAGE - begin
        self.set_size(file, size)

    def give_back(self, file, page):
        self.push(file.pages.pop(page))
        file.known.discard(page)

    def do_fallocate(self, number, offset, length, _):
        file = self.files[number]
        if not self.filled:
            self.refused += 1
            return
        if length == 0:
            return
        for page in range(offset // PAGE, (offset + length - 1) // PAGE + 1):
            if page not in file.pages:
                self.add(file, page, False)
        if offset + length > file.size:
            self.set_size(file, offset + length)

    # Names.

    def compare(self, number):
        self.loaded["entry"] += 48 + self.lengths[number]

    def create_dirent(self, number, name, directory):
        if name is None:
            self.unknown += 1
        key = (
            mixed(len(self.before) + 1 + self.unknown if name is None else name),
            name,
            self.unknown * (name is None),
        )
        key = key[:2] if name is not None else key
        self.search(key)
        if name in self.names:
            self.compare(number)
            self.stored["entry"] += 16
            return
        self.take_entry(304)
        self.stored["entry"] += 49 + self.lengths[number]
        self.insert(key)
        if name is not None:
            self.names[name] = None
        if directory not in self.numbers:
            self.numbers[directory] = self.files[directory].ino if directory in self.files else self.next
            self.next += directory not in self.files
        key = ((self.numbers[directory] << 20) + LIST,)
        self.search(key)
        if directory not in self.lists:
            self.lists.add(directory)
            self.take_entry(16)
            self.stored["entry"] += 16
            self.insert(key)
        self.stored["entry"] += 16
        self.loaded["entry"] += 8

    def bury(self, number):
        file = self.files[number]
        if not file.entry:
            return
        file.entry = False
        if file.name is not None:
            self.search((mixed(file.name), file.name))
        self.compare(number)
        self.stored["entry"] += 4

    def do_create(self, number, _offset, _length, directory):
        if number in self.files:
            self.files[number].opens += 1
            self.stat(number)
            return
        self.search((mixed(number), number))
        if number in self.names:
            self.compare(number)
        self.bump()
        self.files[number] = file = File(self.next, opens=1, name=number)
        self.next += 1
        self.take_entry(32)
        self.stored["entry"] += 32
        self.insert(self.key(file, INODE))
        self.create_dirent(number, number, self.root if directory < 0 else directory)
        self.search(self.key(file, INODE))

    def stat(self, number):
        self.search(self.key(self.files[number], INODE))
        self.loaded["entry"] += 32

    def do_stat(self, number, *_):
        self.stat(number)

    def do_open(self, number, *_):
        self.files[number].opens += 1
        self.stat(number)

    def do_link(self, number, _offset, _length, directory):
        if not self.filled:
            self.refused += 1
            return
        self.files[number].links += 1
        self.create_dirent(number, None, self.root if directory < 0 else directory)

    def do_unlink(self, number, *_):
        self.files[number].links -= 1
        self.bury(number)
        self.leave(number)

    def do_rename(self, number, _offset, _length, replaced):
        name = None
        there = replaced in self.files and replaced != number
        if there:
            self.files[replaced].links -= 1
            name = self.files[replaced].name
            self.bury(replaced)
        elif replaced >= 0 and replaced != number:
            self.before[replaced] = (-1, self.before[replaced][1])
        self.create_dirent(number, name, self.root)
        self.bury(number)
        self.files[number].name, self.files[number].entry = name, True
        if there:
            self.leave(replaced)

    def released(self, file):
        for page in sorted(file.pages):
            if self.filled:
                self.give_back(file, page)
            else:
                self.lost += 1
