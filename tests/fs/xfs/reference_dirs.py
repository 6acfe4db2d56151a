"""Implement the directories of XFS's reference.

Written from the same description as scmsim/fs/xfs/dirs.py, and shares no code with it.
"""

from tests.fs.xfs.reference_log import Log


class Dirs(Log):
    """The names in inodes, blocks and leaves."""

    def short(self, file):
        """Return the bytes of a name in an inode."""
        return self.name_length[file] + 8

    def long(self, file):
        """Return the bytes of a name in a block."""
        return -(-(self.name_length[file] + 12) // 8) * 8

    def most_short(self, folder):
        """Return the bytes of names that a directory's inode holds; the root's has no room for extended attributes."""
        return (336 if folder is self.nodes[self.root] else self.fork) - 6

    def blocks_for(self, folder, file):
        """Return how many blocks must be free before a name is added."""
        if folder.form == "inode":
            return int(folder.short + self.short(file) > self.most_short(folder))
        return 4

    def after(self, item):
        """Return the block after an item's, if it is in the same group."""
        block = item.home + 1
        return block if block % self.space.size and block < self.space.blocks else item.home

    def data_goal(self, folder, index):
        """Return where a data block shall be."""
        before = [other for other in folder.data if other < index]
        return self.after(folder.data[max(before)]) if before else self.numbers.block(folder.inode)

    def leaf_goal(self, folder):
        """Return where the next leaf shall be."""
        return self.after(folder.leaves[-1]) if folder.leaves else self.data_goal(folder, folder.end)

    def add_data(self, folder, index):
        """Add a data block."""
        item = folder.data[index] = self.meta_block(self.data_goal(folder, index))
        item.fill, item.high = (32, 96) if index == 0 else (0, 64)
        self.change(item, 0, item.high + 15)
        folder.end = max(folder.end, index + 1)

    def add_leaf(self, folder):
        """Add a leaf."""
        item = self.meta_block(self.leaf_goal(folder))
        folder.leaves.append(item)
        self.change(item, 0, 64 + 8 * min(folder.names, 252))

    def add_leaf_under_node(self, folder):
        """Add a leaf, and change its neighbour and the node above."""
        self.add_leaf(folder)
        self.change(folder.leaves[-2], 0, 63)
        self.change(folder.node, 0, 64 + 8 * len(folder.leaves) % 4032)

    def note_room(self, folder, index):
        """Note the changed free space of a data block."""
        if folder.form == "node":
            self.change(folder.frees, 0, 63)
            at = 64 + 2 * index % 4032
            self.change(folder.frees, at, at + 1)
        else:
            self.change(folder.leaves[0], 4092 - 2 * (index + 1), 4095)

    def place(self, item, index, file):
        """Store a name in a data block."""
        need, at = self.long(file), item.high
        if at + need <= 4096:
            item.high += need
        else:
            at = 64 + 4 * file * 2654435761 % (4096 - 64 - need)
        item.fill += need
        self.nodes[file].at = (index, at)
        self.change(item, 0, 63)
        self.change(item, at, at + need + 1)

    def add_name(self, folder, file):
        """Add a name to a directory."""
        node = self.nodes[file]
        folder.names += 1
        folder.short += self.short(file)
        folder.long += self.long(file)
        node.known += 1
        node.before, node.at = node.at, (0, 0)
        if folder.form == "inode":
            if folder.short > self.most_short(folder):
                folder.form = "block"
                self.add_data(folder, 0)
                item = folder.data[0]
                item.fill += folder.long
                item.high += folder.long
                self.change(item, 0, item.high + 15)
                self.change(item, 4095 - 8 * (folder.names + 3), 4095)
        elif folder.form == "block" and 64 + 32 + folder.long + 8 * (folder.names + 3) <= 4096:
            self.place(folder.data[0], 0, file)
            self.change(folder.data[0], 4095 - 8 * (folder.names + 3), 4095)
        else:
            self.add_to_data(folder, file)
        self.change_folder(folder)

    def add_to_data(self, folder, file):
        """Add a name to a directory with leaves, or to one that gets them now."""
        if folder.form == "block":
            folder.form = "leaf"
            self.add_leaf(folder)
            self.change(folder.data[0], 0, 63)
            self.change(folder.data[0], 4095 - 8 * (folder.names + 2), 4095)
        elif folder.form == "leaf" and folder.names > 500:
            folder.form, folder.frees = "node", self.meta_block(self.leaf_goal(folder))
            folder.node = self.meta_block(self.after(folder.frees))
            self.change(folder.frees, 0, 64 + 2 * folder.end)
            self.add_leaf_under_node(folder)
        elif folder.form == "node" and folder.names > 504 + 252 * (len(folder.leaves) - 1):
            self.add_leaf_under_node(folder)
        if folder.form == "node":
            fitting = [i for i, item in folder.data.items() if item.fill + self.long(file) <= 4032]
            index = max(fitting, default=next(i for i in range(folder.end + 1) if i not in folder.data))
        else:
            index = folder.hint
            while index < folder.end and index in folder.data and folder.data[index].fill + self.long(file) > 4032:
                index += 1
        folder.hint = index
        if index not in folder.data:
            self.add_data(folder, index)
        self.place(folder.data[index], index, file)
        self.note_room(folder, index)
        last, filled = folder.leaves[-1], max(folder.names - 252 * (len(folder.leaves) - 1), 1)
        end = min(64 + 8 * filled, 4095)
        self.change(last, 0, 63)
        self.change(last, end - 8, end)

    def change_folder(self, folder):
        """Change the inode of a directory."""
        if folder.form == "inode":
            self.change_inode(folder, -(-(folder.short + 6) // 4) * 4)
        else:
            blocks = folder.end + len(folder.leaves) + 2 * (folder.form == "node")
            self.change_inode(folder, 16 * min(blocks, self.fork // 16))

    def empty_folder(self, folder):
        """Free all blocks of a directory."""
        extra = [folder.node, folder.frees] if folder.form == "node" else []
        for item in [*folder.data.values(), *folder.leaves, *extra]:
            self.free_meta(item)
        folder.data, folder.leaves, folder.end, folder.hint, folder.form = {}, [], 0, 0, "inode"

    def remove_name(self, folder, file):
        """Remove the newest name of a file from a directory."""
        node = self.nodes[file]
        if node.known:
            node.known -= 1
            folder.names = max(folder.names - 1, 0)
            folder.short = max(folder.short - self.short(file), 0)
            folder.long = max(folder.long - self.long(file), 0)
            if folder.form != "inode" and folder.short <= self.most_short(folder):
                self.empty_folder(folder)
            if folder.form != "inode":
                self.clear_name(folder, file, *node.at)
            node.at = node.before
        self.change_folder(folder)

    def swap_names(self, folder, file, replaced):
        """Let the newest names of two files change places; the entry that now names `file` is logged."""
        node, other = self.nodes[file], self.nodes[replaced]
        if not other.known:
            return
        node.at, other.at = other.at, node.at
        if folder.form != "inode":
            places = [at if at[0] in folder.data else (0, 0) for at in (node.at, other.at)]
            mine, its = (folder.data[index] for index, _ in places)
            self.change(mine, places[0][1], places[0][1] + self.long(file) - 1)
            mine.fill += self.long(file) - self.long(replaced)
            its.fill -= self.long(file) - self.long(replaced)

    def clear_name(self, folder, file, index, at):
        """Clear the bytes and the hash of a name; free a data block or a leaf that is no longer needed."""
        if index not in folder.data:
            index = at = 0
        item = folder.data[index]
        self.change(item, 0, 63)
        self.change(item, at, at + self.long(file) - 1)
        item.fill = max(item.fill - self.long(file), 0)
        folder.hint = index if folder.form == "node" else min(folder.hint, index)
        if folder.form == "block":
            self.change(item, 4088, 4095)
            return
        place, behind, leaves = index * 4096 + at, folder.end * 4096, len(folder.leaves)
        leaf = folder.leaves[min(place * leaves // behind, leaves - 1)]
        hash_at = 64 + place * leaves % behind * 252 // behind * 8
        self.change(leaf, 0, 63)
        self.change(leaf, hash_at, hash_at + 7)
        self.note_room(folder, index)
        if index and item.fill == 0:
            self.free_meta(folder.data.pop(index))
        if folder.form == "node" and leaves > 2 and 2 * folder.names < 252 * leaves:
            self.free_meta(folder.leaves.pop())
            self.change(folder.node, 0, 64 + 8 * leaves % 4032)
