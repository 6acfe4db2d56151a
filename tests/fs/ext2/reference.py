"""Implement ext2's reference: files as dicts of pages and of pointer blocks, named by their path in the tree.

Shares no code with scmsim/fs/ext2/*.py: a pointer block is a tuple of indices, with a flag for dirty.
"""

from collections import Counter

PAGE, DIRECT, FAN = 4096, 12, 1024


def way(page):
    """Return the pointer blocks on the way from the inode to `page`."""
    if page < DIRECT:
        return []
    page -= DIRECT
    if page < FAN:
        return [("single",)]
    page -= FAN
    if page < FAN * FAN:
        return [("double",), ("double", page // FAN)]
    page -= FAN * FAN
    return [("triple",), ("triple", page // FAN**2), ("triple", page // FAN**2, page // FAN % FAN)]


class Slow:
    """ext2; each operation returns the bytes that it stores, by mechanism (with `dax`, data and zeroing at once)."""

    def __init__(self, dax):
        self.dax = dax
        self.files, self.others = {}, set()

    def file(self, name):
        return self.files.setdefault(name, {"size": 0, "pages": set(), "dirty": set(), "pointers": {}, "changed": True})

    def write(self, name, offset, length):
        f, stored = self.file(name), Counter()
        end = offset + length
        for page in range(offset // PAGE, (end - 1) // PAGE + 1):
            if page not in f["pages"]:
                f["pages"].add(page)
                stored["zeroing"] += PAGE * self.dax
                f["changed"] = True
                path, above = way(page), None
                for pointer in path:
                    if pointer not in f["pointers"]:
                        f["pointers"][pointer] = True
                        if above:
                            f["pointers"][above] = True
                    above = pointer
                if path:
                    f["pointers"][path[-1]] = True
            if not self.dax:
                f["dirty"].add(page)
        f["changed"] |= end > f["size"]
        f["size"] = max(f["size"], end)
        stored["copy"] += length * self.dax
        return stored

    def fsync(self, name):
        f, stored = self.file(name), Counter()
        stored["writeback"] = PAGE * len(f["dirty"])
        f["dirty"].clear()
        stored["metadata"] = PAGE * (sum(f["pointers"].values()) + f["changed"])
        f["pointers"] = dict.fromkeys(f["pointers"], False)
        f["changed"] = False
        return stored

    def truncate(self, name, size):
        f, stored = self.file(name), Counter()
        if size < f["size"]:
            gone = {page for page in f["pages"] if page >= -(-size // PAGE)}
            f["pages"] -= gone
            f["dirty"] -= gone
            kept = {pointer for page in f["pages"] for pointer in way(page)}
            lost = {pointer for page in gone for pointer in way(page)} - kept
            hit = {way(page)[-1] for page in gone if way(page)} | {
                above for p in gone for above, own in zip(way(p), way(p)[1:], strict=False) if own in lost
            }
            f["pointers"] = {p: dirty or p in hit for p, dirty in f["pointers"].items() if p in kept}
            if size % PAGE and size // PAGE in f["pages"]:
                stored["zeroing"] = (PAGE - size % PAGE) * self.dax
                if not self.dax:
                    f["dirty"].add(size // PAGE)
        f["size"], f["changed"] = size, True
        return stored

    def pages(self):
        return sum(len(f["pages"]) for f in self.files.values())

    def pointers(self):
        return sum(len(f["pointers"]) for f in self.files.values())
