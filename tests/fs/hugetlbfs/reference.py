"""hugetlbfs and device-dax again in slow, simple code: files as dictionaries of pages; nothing is shared with the kernels.

Source: Linux 6.1 fs/hugetlbfs/inode.c, mm/hugetlb.c, drivers/dax/device.c.
"""

from collections import Counter
from dataclasses import dataclass, field

from tests.fs.names import Names


@dataclass
class File:
    is_dir: bool = False
    size: int = 0
    pages: dict[int, int] = field(default_factory=dict)
    promised: set[int] = field(default_factory=set)
    links: int = 0
    opens: int = 0


class Pool(Names):
    """A pool of `count` pages of `page` bytes; sums by mechanism of the last operation."""

    File = File

    def __init__(self, sizes, dirs, page, count, *, device=False):
        self.page, self.free, self.device = page, set(range(count)), device
        self.refused = 0
        super().__init__(sizes, dirs)

    def reset(self):
        self.moved = Counter()  # bytes loaded from and stored to pages, by mechanism

    def adopt(self, number):
        size, is_dir = self.before[number]
        self.files[number] = File(is_dir, 0 if is_dir else max(size, 0), links=1)
        self.take(self.files[number], 0, self.files[number].size)
        self.reset()

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

    def released(self, file):
        self.free |= set(file.pages.values())
