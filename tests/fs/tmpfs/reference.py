"""Implement the reference of tmpfs and ramfs: a file's pages, and the counts of charged costs, with dicts and sets.

Shares no code with scmsim/fs/tmpfs/*.py.
"""

from collections import Counter

PAGE = 4096


class Slow:
    """The files, as dicts page -> number of uses (0: without content); methods return (bytes cleared, costs by name).

    `folio` > 1: huge pages of `folio` pages are allocated if `option` allows it and none of the pages exists; `by_page`:
    fallocate clears huge pages, and truncation clears only the rest of a page (Linux 5.13).
    """

    def __init__(self, activates, folio=1, by_page=False, option="always"):
        self.activates, self.folio, self.by_page, self.option = activates, folio, by_page, option
        self.files = {}
        self.huge = set()  # (file, first page)
        self.used = {}  # huge page -> uses

    def pages_of(self, offset, length):
        return range(offset // PAGE, (offset + length - 1) // PAGE + 1)

    def group(self, page):
        """Return the pages of the huge page that a page may be in."""
        first = page - page % self.folio
        return range(first, first + self.folio)

    def is_huge(self, file, page):
        return (file, self.group(page)[0]) in self.huge

    def use(self, file, page, costs):
        pages = self.files[file][1]
        if self.is_huge(file, page):
            key = file, self.group(page)[0]
            self.used[key] = uses = self.used.get(key, 1) + 1
        else:
            pages[page] = uses = pages[page] + 1
        if uses == 2 and self.activates:
            costs["activate_page"] += 1

    def comes_whole(self, file, page):
        """Allocate a huge page; return False if a page of it exists or the options do not allow it."""
        size, pages = self.files[file]
        if self.folio == 1 or self.option == "advise" or any(other in pages for other in self.group(page)):
            return False
        behind = self.group(page)[-1] + 1
        if self.by_page and page == self.group(page)[0]:
            behind = max(page, self.folio)  # as if it were the end of the piece before
        if self.option == "within_size" and -(-size // PAGE) < behind:
            return False
        self.huge.add((file, self.group(page)[0]))
        self.used.pop((file, self.group(page)[0]), None)
        pages.update(dict.fromkeys(self.group(page), 0))
        return True

    def write(self, file, offset, length):
        """Write; return (bytes cleared, costs)."""
        size, pages = self.files.setdefault(file, (0, {}))
        costs, cleared, end = Counter(write_call=1), 0, offset + length
        fresh = set()
        for page in self.pages_of(offset, length):
            costs["write_page"] += 1
            written = min(end, (page + 1) * PAGE) - max(offset, page * PAGE)
            if pages.get(page) and page not in fresh:
                self.use(file, page, costs)
            elif not pages.get(page):
                costs["new_page"] += 1
                came = [page]
                if self.comes_whole(file, page) or self.is_huge(file, page):
                    came = self.group(page)
                    fresh |= set(came)
                for one in came:
                    pages[one] = 1
                cleared += len(came) * PAGE - written
        self.files[file] = max(size, end), pages
        return cleared, costs

    def read(self, file, offset, length):
        """Read up to the end of the file; return (0, costs)."""
        size, pages = self.files.get(file, (0, {}))
        costs = Counter(read_call=1)
        length = min(length, size - offset)
        if length > 0:
            for page in self.pages_of(offset, length):
                costs["read_page"] += 1
                if pages.get(page):
                    self.use(file, page, costs)
        return 0, costs

    def fallocate(self, file, offset, length, _, hole):
        """Allocate, or make a hole, which keeps the size; return (bytes cleared, costs)."""
        size, pages = self.files.setdefault(file, (0, {}))
        costs, cleared = Counter(null_call=1), 0
        if hole:
            return self.punch(file, offset, offset + length)
        for page in self.pages_of(offset, length):  # clear existing pages without content
            came = self.group(page) if self.is_huge(file, page) else [page]
            if pages.get(page) == 0:
                cleared += len(came) * PAGE
                pages.update(dict.fromkeys(came, 1))
        asked = Counter(page - page % self.folio for page in self.pages_of(offset, length))
        for page in self.pages_of(offset, length):
            if self.comes_whole(file, page) and self.by_page and asked[page - page % self.folio] > 1:
                pages.update(dict.fromkeys(self.group(page), 1))
                cleared += self.folio * PAGE
            pages.setdefault(page, 0)
        self.files[file] = max(size, offset + length), pages
        return cleared, costs

    def punch(self, file, offset, end):
        pages = self.files[file][1]
        (freed, cleared), (more, too) = (self.split(file, edge, offset, end) for edge in (offset, end))
        freed, cleared = freed + more, cleared + too
        for page in self.pages_of(offset, end - offset):
            begin, stop = max(offset, page * PAGE), min(end, (page + 1) * PAGE)
            if stop - begin < PAGE and pages.get(page):
                cleared += stop - begin
        freed += self.drop(file, lambda page: offset <= page * PAGE and (page + 1) * PAGE <= end)
        return cleared, Counter(null_call=1, free_page=freed)

    def split(self, file, edge, at, end):
        """Split a huge page at byte `edge`, because [at, end) are freed; return (pages freed, bytes cleared)."""
        first, (size, pages) = self.group(edge // PAGE)[0], self.files[file]
        if edge % (self.folio * PAGE) == 0 or (file, first) not in self.huge:
            return 0, 0
        cleared = 0
        for page in () if self.by_page else self.group(first):
            part = min(end, (page + 1) * PAGE) - max(at, page * PAGE)
            cleared += part if part == PAGE or (part > 0 and not pages[page]) else 0
        if self.used.get((file, first), 1) > 1:
            pages[first] = pages[first] and 2  # the mark stays with the first page
        self.huge.remove((file, first))
        return self.drop(file, lambda page: page in self.group(first) and page * PAGE >= size), cleared

    def drop(self, file, goes):
        """Free the pages for which `goes` is true; return how many, a huge page as one."""
        pages = self.files[file][1]
        gone = [page for page in pages if goes(page)]
        whole = {page - page % self.folio for page in gone if self.is_huge(file, page)}
        freed = len([page for page in gone if not self.is_huge(file, page)]) + len(whole)
        for page in gone:
            del pages[page]
        self.huge -= {(file, first) for first in whole}
        return freed

    def truncate(self, file, size):
        """Truncate, clearing the rest of the last page; return (bytes cleared, costs)."""
        old, pages = self.files.setdefault(file, (0, {}))
        freed = cleared = 0
        if size < old:
            freed, cleared = self.split(file, size, size, 1 << 60)
            freed += self.drop(file, lambda page: page >= -(-size // PAGE))
            cleared += -size % PAGE if pages.get(size // PAGE) else 0
        self.files[file] = size, pages
        return cleared, Counter(null_call=1, free_page=freed)

    def live_pages(self):
        """Return the number of pages of all files."""
        return sum(len(pages) for _, pages in self.files.values())
