"""Implement the extents of files of XFS's reference: their leaves, and the blocks that a file frees.

Written from the same description as scmsim/fs/xfs/*.py, and shares no code with them.
"""

from tests.fs.xfs.reference_dirs import Dirs


class Extents(Dirs):
    """The runs of a file's blocks, in its inode or in leaves."""

    def change_extents(self, node, page, block=None, left=0):
        """Note that the extents of a file changed at a page, and add leaves that they need.

        The leaves are in the group of the new data block `block`, if any; `left` blocks stay free for the data.
        """
        self.drop_leaves(node)
        extents, leaves = node.extents(), len(node.leaves)
        if leaves:
            at = 72 + 16 * min(extents // leaves, 250)
            self.change(node.leaves[min(page * leaves // max(node.end, 1), leaves - 1)], at, at + 15)
        inline = self.fork // 16
        while extents > inline and extents > 251 * len(node.leaves) and self.free_count() > left:
            item = self.meta_block(self.leaf_place(node, block))
            node.leaves.append(item)
            self.change(item, 0, 72 + 16 * min(extents // len(node.leaves), 251))
        self.change_inode(node, 72 + 16 * len(node.leaves) if node.leaves else 16 * min(extents, inline))

    def leaf_place(self, node, block):
        """Return where the search for a leaf begins; `block` is the first of the transaction's data, if any."""
        size, goal = self.space.size, self.numbers.block(node.inode)
        if self.leaf_by_inode:
            if node.leaves:
                goal = node.leaves[-1].home
            if block is not None:
                goal = max(goal // size, block // size) * size + goal % size
        elif block is not None:
            goal = block // size * size
        return goal

    def drop_leaves(self, node):
        """Free the leaves of a file's extents, if the inode holds them again."""
        if node.extents() <= self.fork // 16:
            while node.leaves:
                self.free_meta(node.leaves.pop())

    def free_extents(self, node, first, last):
        """Free the extents of a range of pages, the last one first, two per transaction; return how many."""
        runs = []  # [page, block, unwritten, blocks]
        for page in sorted(node.pages, reverse=True):
            if not first <= page <= last:
                continue
            block, unwritten = node.pages[page]
            if runs and runs[-1][:3] == [page + 1, block + 1, unwritten]:
                runs[-1] = [page, block, unwritten, runs[-1][3] + 1]
            else:
                runs.append([page, block, unwritten, 1])
        for number, (page, block, _, count) in enumerate(runs, 1):
            for one in range(page, page + count):
                del node.pages[one]
            self.space.give(block, count)
            self.change_free_space(block)
            if number % 2 == 0:
                self.drop_leaves(node)
        return len(runs)

    def free_pages(self, node, first, last):
        """Free the blocks of a range of pages from its end, two extents per transaction."""
        last = min(last, node.end - 1)
        for number in range(self.free_extents(node, first, last)):
            self.extra += 32 + (56 if number % 2 == 0 else 0)
        if last == node.end - 1:
            node.end = min(node.end, first)
        self.change_extents(node, first)

    def run_of(self, node, page, last):
        """Return how many pages from `page` on are alike: holes, or contiguous blocks of one state."""
        count, first = 1, node.pages.get(page)
        while page + count <= last:
            expected = (first[0] + count, first[1]) if first else None
            if node.pages.get(page + count) != expected:
                break
            count += 1
        return count
