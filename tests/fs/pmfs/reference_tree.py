"""Model the slow PMFS's trees of blocks: a file's data blocks and nodes are dicts.

Source: as the kernels', fs/pmfs/inode.c.
"""

from tests.fs.pmfs.reference_log import Journal


class Trees(Journal):
    """Allocate and free blocks; `space`, `unit` and `size` are those of the file system."""

    def new_node(self, f, level, index):
        f.nodes[level, index] = self.space.take()
        self.clear("index", 4096)

    def grow(self, f, last):
        height = f.height
        while last >= 512**height:
            height += 1
        self.fresh = not f.data and not f.nodes
        for level in range(f.height + 1, height + 1):
            self.new_node(f, level, 0)
            self.store("index", 8)
            self.flushes["index"] += 1
        if height > f.height:
            self.store("inode", 9)
        f.height = height

    def slots(self, f, level, first, last, new):
        """Log the slots `first` to `last` of one node before a change, or write them back if the node is new."""
        addr = f.nodes[level, first >> 9] * 4096 + 8 * (first % 512)
        if (f, level, first >> 9) in self.logged_slots:
            return
        self.logged_slots.add((f, level, first >> 9))
        if not new and not self.fresh:
            self.log(addr, 8 * (last - first + 1))
        if level > 1 or new or self.fresh:
            self.flush("index", addr, 8 * (last - first + 1))

    def reach(self, f, i, last, new_nodes):
        """Make the missing nodes above data block i."""
        for level in range(f.height - 1, 0, -1):
            index = i >> 9 * level
            if (level, index) not in f.nodes:
                end = min(last >> 9 * level, index | 511)
                self.slots(f, level + 1, index, end, (level + 1, index >> 9) in new_nodes)
                self.new_node(f, level, index)
                self.store("index", 8)
                new_nodes.add((level, index))

    def allocate(self, f, first, last, replace=False, zero=False):
        """Allocate data blocks for [first, last]; return the replaced blocks by index."""
        self.grow(f, last)
        old, unit, new_nodes = {}, 1 if f.is_dir else self.unit, set()
        for i in range(first, last + 1):
            self.reach(f, i, last, new_nodes)
            if i in f.data and not replace:
                continue
            if f.height:
                new = (1, i >> 9) in new_nodes or self.fresh
                self.slots(f, 1, max(first, i & ~511) if new else i, min(last, i | 511), new)
                self.store("index", 8)
            else:
                self.store("inode", 9)
            if i in f.data:
                old[i] = f.data[i]
            else:
                self.store("inode", 8)
            f.data[i] = self.space.take(unit)
            if zero:
                self.clear("block zeroing", self.size)
        return old

    def free(self, f, first):
        """Free the data blocks from `first` on, and the nodes that no earlier block needs."""
        doomed = sorted(i for i in f.data if i >= first)
        leaves = range(first >> 9, (doomed[-1] >> 9) + 1) if doomed else ()
        for leaf in leaves:
            self.free_leaf(f, [i for i in doomed if i >> 9 == leaf])
            if not any(i >> 9 == leaf for i in f.data):
                self.free_node(f, 1, leaf)
            for level in range(2, f.height + 1):
                index = leaf >> 9 * (level - 1)
                if leaf + 1 in leaves and (leaf + 1) >> 9 * (level - 1) == index:
                    break
                if not any(key[0] == level - 1 and key[1] >> 9 == index for key in f.nodes):
                    self.free_node(f, level, index)
        if f.height and (f.height, 0) not in f.nodes:
            f.height = 0
        while f.height > 0 and max(first - 1, 0) < 512 ** (f.height - 1):
            self.free_node(f, f.height, 0)
            f.height -= 1

    def free_node(self, f, level, index):
        if (level, index) in f.nodes:
            self.space.give(f.nodes.pop((level, index)))

    def free_leaf(self, f, indices):
        """Free the data blocks of some indices, all of one leaf."""
        for i in indices:
            self.space.give(f.data.pop(i), 1 if f.is_dir else self.unit)
