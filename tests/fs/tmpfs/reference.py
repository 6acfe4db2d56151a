"""Reference implementation of tmpfs and ramfs: a file's pages, and how often each cost is charged, with plain dicts and sets.

Shares no code with scmsim/fs/tmpfs/*.py.
"""

from collections import Counter

PAGE = 4096


class Slow:
    """Files as dicts page -> number of uses; `charged` returns an operation's cleared bytes and its costs by name."""

    def __init__(self, activates):
        self.activates = activates
        self.files = {}

    def pages_of(self, offset, length):
        return range(offset // PAGE, (offset + length - 1) // PAGE + 1)

    def use(self, pages, page, costs):
        pages[page] += 1
        if pages[page] == 2 and self.activates:
            costs["activate_page"] += 1

    def write(self, file, offset, length):
        """(bytes cleared, costs) of a write()."""
        size, pages = self.files.setdefault(file, (0, {}))
        costs, cleared, end = Counter(write_call=1), 0, offset + length
        for page in self.pages_of(offset, length):
            costs["write_page"] += 1
            if page in pages:
                self.use(pages, page, costs)
            else:
                pages[page] = 1
                costs["new_page"] += 1
                cleared += PAGE - (min(end, (page + 1) * PAGE) - max(offset, page * PAGE))
        self.files[file] = max(size, end), pages
        return cleared, costs

    def read(self, file, offset, length):
        """(0, costs) of a read(), which is cut at the end of the file."""
        size, pages = self.files.get(file, (0, {}))
        costs = Counter(read_call=1)
        length = min(length, size - offset)
        if length > 0:
            for page in self.pages_of(offset, length):
                costs["read_page"] += 1
                if page in pages:
                    self.use(pages, page, costs)
        return 0, costs

    def truncate(self, file, size):
        """(bytes cleared, costs) of a truncate: the rest of the last page is cleared."""
        old, pages = self.files.setdefault(file, (0, {}))
        gone = [page for page in pages if size < old and page >= -(-size // PAGE)]
        for page in gone:
            del pages[page]
        self.files[file] = size, pages
        cleared = -size % PAGE if size < old and size // PAGE in pages else 0
        return cleared, Counter(null_call=1, free_page=len(gone))

    def live_pages(self):
        """Pages of all files."""
        return sum(len(pages) for _, pages in self.files.values())
