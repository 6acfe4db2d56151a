"""Model the mappings of SplitFS' library page by page, on top of the reference of page faults.

Written from the same description as scmsim/fs/splitfs/mappings.py, and shares no code with it.
"""

from collections import Counter

from tests.fs.mapping.reference import Mapped
from tests.fs.mapping.reference_entries import FAN

PAGE = 4096
STAGING = 1 << 45  # address of a staging file's byte in the library, less its address on the device


class Library(Mapped):
    """The library's mappings of the files of `disk`, in pieces of `piece` bytes."""

    def __init__(self, disk, piece):
        super().__init__("dax", True, linux=True)
        self.disk, self.piece, self.touched = disk, piece, True
        self.pieces, self.in_staging = set(), set()  # (file, number of the piece); (file, page)
        self.staging = 0  # bytes of staging files that were not filled in advance
        self.start()

    def start(self):
        """Start an operation with zero counts."""
        self.begin(self.lies, lambda file: self.disk.nodes[file].size, None, None, self.lies)

    def lies(self, file, page):
        """Return the place of a page's block: 0 for a hole, negative without content."""
        found = self.disk.nodes[file].pages.get(page)
        return 0 if found is None else PAGE * found.block * (-1 if found.unwritten else 1)

    def is_in_staging(self, file, page):
        """Return whether a page is accessed through a staging file."""
        return (file, page) in self.in_staging and page in self.disk.nodes[file].pages

    def append(self, file, pages, new):
        """Note pages that got blocks of a staging file, of which the last `new` bytes are from a new staging file."""
        self.in_staging |= {(file, page) for page in pages}
        for _ in range(-(-(self.staging + new) // (FAN * PAGE)) - -(-self.staging // (FAN * PAGE))):
            self.faults[-FAN, False, False, False] += 1
            self.faults[-FAN, True, True, False] += 1
        self.staging += new

    def map(self, file, pages):
        """Map the pieces of the pages that are not in a staging file."""
        for page in pages:
            piece = page * PAGE // self.piece
            if not self.is_in_staging(file, page) and (file, piece) not in self.pieces:
                self.pieces.add((file, piece))
                self.mmap(file, piece * self.piece, self.piece, True, False, True)

    def fault(self, one, page, store):
        """Fault a page in; a fault for a store also sets the file's times."""
        node = self.disk.nodes[one.file]
        if store and node.stamp != self.disk.file_time():
            node.stamp = self.disk.file_time()
            self.disk.change_inode(node)
        super().fault(one, page, store)

    def access(self, file, at, stop, store):
        """Load or store the bytes [at, stop)."""
        while at < stop:
            end = min(stop, at - at % PAGE + PAGE)
            if self.is_in_staging(file, at // PAGE):
                where = abs(self.lies(file, at // PAGE)) + at % PAGE
                self.accessed.append((STAGING + where, end - at, where))
            else:
                self.touch(file, at, end - at, store)
            at = end

    def lose(self, name, file, offset, length, flags, file2):
        """Remove the mappings that a kernel call invalidates."""
        nodes = self.disk.nodes
        if name == "rename" and file2 >= 0 and file2 != file and file2 in nodes and nodes[file2].links <= 1:
            self.forget(file2)
        if file not in nodes:
            return
        last = name == "close" and nodes[file].links <= 0 and nodes[file].opens <= 1
        if name in ("unlink", "rmdir") or last:
            self.forget(file)
        elif name == "truncate":
            self.truncate(file, max(offset, 0))
            self.in_staging = {(f, page) for f, page in self.in_staging if f != file}
        elif name == "fallocate" and "punch" in flags and length > 0:
            self.punch(file, offset, offset + length)

    def forget(self, file):
        """Unmap a file."""
        for f, piece in [one for one in self.pieces if one[0] == file]:
            self.munmap(f, piece * self.piece, self.piece)
        self.pieces = {one for one in self.pieces if one[0] != file}
        self.in_staging = {one for one in self.in_staging if one[0] != file}
        self.broken = {one for one in self.broken if one[0] != file}
        self.given = {one: dirty for one, dirty in self.given.items() if one[0] != file}
        self.given_large = {one: state for one, state in self.given_large.items() if one[0] != file}

    def by_page(self):
        """Return the accessed bytes by (page number of the address, page number on the device or -1 for zeros)."""
        found = Counter()
        for address, size, where in self.accessed:
            found[address // PAGE, where // PAGE] += size
        return found
