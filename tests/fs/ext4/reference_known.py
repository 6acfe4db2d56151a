"""Implement what ext4's reference remembers of look-ups: runs of blocks with their states.

The rules of the runs are those of the reference of ext4's layout (tests/reference/ext4_layout/status.py); shares no code with
scmsim/fs/ext4/known.py.
"""

from tests.fs.ext4.reference_disk import Disk
from tests.reference.ext4_layout.status import PROMISED

END = 0xFFFFFFFF
MOST = 128  # runs


class Known(Disk):
    """Look-ups of blocks, for files only."""

    def remembers(self, node):
        """Return whether look-ups of a file are remembered."""
        return not node.is_dir

    def states(self, node):
        """Yield a file's extents in order: first page, pages, first block, state."""
        found = []
        for number, page in sorted(node.pages.items()):
            if page.block is None:
                continue
            state = "unwritten" if page.unwritten else "written"
            if found:
                first, count, block, before = found[-1]
                if (first + count, block + count, before) == (number, page.block, state):
                    found[-1] = (first, count + 1, block, before)
                    continue
            found.append((number, 1, page.block, state))
        return found

    def learn(self, node, first, count):
        """Remember pages that are all a hole or all of an extent."""
        if self.remembers(node) and count > 0:
            page = node.pages[first]
            state = "delayed" if page.block is None else "unwritten" if page.unwritten else "written"
            state = PROMISED if page.promised else state
            node.known.insert(first, count, page.block or 0, state)
            del node.known.runs[MOST:]

    def unlearn(self, node, first, end):
        """Forget the pages [first, end)."""
        if self.remembers(node) and end > first:
            node.known.remove(first, end - first)
            del node.known.runs[MOST:]

    def learn_root(self, node):
        """Remember the extents in the inode, and the holes between them, as far as nothing of one is known."""
        if not self.remembers(node) or node.leaves:
            return
        before = 0
        for first, count, block, state in self.states(node):
            if before and before != first:
                node.known.cache(before, first - before, 0, "hole")
                del node.known.runs[MOST:]
            node.known.cache(first, count, block, state)
            del node.known.runs[MOST:]
            before = first + count

    def looked_up(self, node, page, count):
        """Return how many of `count` alike pages a look-up's answer covers."""
        if not self.remembers(node):
            return count
        run = node.known.lookup(page)
        if run:
            return min(count, run.length)
        self.learn_root(node)
        if page in node.pages:
            if node.pages[page].block is not None:
                self.learn(node, page, count)
        else:
            start = max((number + 1 for number in node.pages if number < page), default=0)
            if start and node.pages[start - 1].block is None:  # a promised block hides the start of the hole
                start = page
            end = min((number for number in node.pages if number > page), default=END)
            node.known.insert(start, end - start, 0, "hole")
            del node.known.runs[MOST:]
        return count

    def look_through(self, node, page, count):
        """Look up pages that need no block."""
        end = page + count
        while page < end:
            page += self.looked_up(node, page, end - page)
