"""hugetlbfs and device-dax again in slow, simple code: files as dictionaries of pages; nothing is shared with the kernels.

Source: Linux 6.1 fs/hugetlbfs/inode.c, mm/hugetlb.c, drivers/dax/device.c.
"""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class File:
    is_dir: bool = False
    size: int = 0
    pages: dict[int, int] = field(default_factory=dict)
    promised: set[int] = field(default_factory=set)
    links: int = 0
    opens: int = 0


class Pool:
    """A pool of `count` pages of `page` bytes; sums by mechanism of the last operation."""

    def __init__(self, sizes, dirs, page, count, *, device=False):
        self.page, self.free, self.device = page, set(range(count)), device
        self.before = {i: (size, i in dirs) for i, size in enumerate(sizes)}
        self.files: dict[int, File] = {}
        self.refused = 0
        self.closes = False
        self.reset()

    def reset(self):
        self.moved = Counter()  # bytes loaded from and stored to pages, by mechanism

    def do(self, op, number, offset=0, length=0, file2=-1, flag=0):
        self.reset()
        if number not in self.files and not (op in ("create", "mkdir") and self.before[number][0] < 0):
            size, is_dir = self.before[number]
            self.files[number] = File(is_dir, 0 if is_dir else max(size, 0), links=1)
            self.take(self.files[number], 0, self.files[number].size)
            self.reset()
        self.before[number] = (-1, self.before[number][1])
        getattr(self, f"do_{op}")(number, offset, length, file2)

    def span(self, offset, end):
        return range(offset // self.page, -(-end // self.page))

    def take(self, file, offset, end):
        for page in self.span(offset, end):
            if page not in file.pages:
                file.pages[page] = min(self.free)
                self.free.remove(file.pages[page])
                file.promised.discard(page)
                self.moved["zeroing"] += 0 if self.device else self.page

    def do_write(self, number, offset, length, _):
        if length:
            file = self.files[number]
            self.take(file, offset, offset + length)
            self.moved["copy"] += length
            file.size = max(file.size, offset + length)

    def do_read(self, number, offset, length, _):
        file = self.files[number]
        at, end = offset, min(offset + length, file.size)
        while at < end:
            stop = min((at // self.page + 1) * self.page, end)
            self.moved["copy"] += stop - at if at // self.page in file.pages else 0
            at = stop

    def do_fallocate(self, number, offset, length, _):
        file = self.files[number]
        if length:
            self.take(file, offset, offset + length)
            file.size = max(file.size, offset + length)

    def do_truncate(self, number, size, *_):
        file = self.files[number]
        if size < file.size:
            kept = -(-size // self.page)
            self.free |= {page for index, page in file.pages.items() if index >= kept}
            file.pages = {index: page for index, page in file.pages.items() if index < kept}
            file.promised = {index for index in file.promised if index < kept}
        file.size = size

    def do_mmap(self, number, offset, length, _):
        if length and not self.device:
            file = self.files[number]
            file.promised |= set(self.span(offset, offset + length)) - set(file.pages)

    def do_create(self, number, *_):
        if number in self.files:
            self.files[number].opens += 1
        else:
            self.files[number] = File(links=1, opens=1)

    def do_open(self, number, *_):
        self.files[number].opens += 1

    def do_close(self, number, *_):
        self.closes = True
        self.files[number].opens = max(self.files[number].opens - 1, 0)
        self.leave(number)

    def do_link(self, number, *_):
        self.files[number].links += 1

    def do_unlink(self, number, *_):
        self.files[number].links -= 1
        self.leave(number)

    def do_rename(self, number, _offset, _length, replaced):
        if replaced in self.files and replaced != number:
            self.files[replaced].links -= 1
            self.leave(replaced)
        elif replaced >= 0 and replaced != number:
            self.before[replaced] = (-1, self.before[replaced][1])

    def leave(self, number):
        file = self.files[number]
        if file.links <= 0 and not (self.closes and file.opens > 0):
            self.free |= set(file.pages.values())
            del self.files[number]

    def do_fsync(self, *_):
        pass

    do_stat = do_fsync
