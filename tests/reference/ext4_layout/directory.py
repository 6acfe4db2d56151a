"""A directory: where its entries are, and when it needs another block.

Linux 6.1, fs/ext4/namei.c: ext4_add_entry, make_indexed_dir, do_split.  An entry is a record [bytes, name]; the name of
an unused record is "".  One level of index: up to 500 blocks of entries.
"""

from dataclasses import dataclass

from tests.reference.ext4_layout.file import Create, File
from tests.reference.ext4_layout.hashing import half_md4

_TAIL = 12  # bytes of a block's checksum
_INDEX_FIRST = 32  # bytes of an index block before its entries
_INDEX_TAIL, _INDEX_ENTRY = 8, 8


@dataclass(eq=False)
class Leaf:
    """A block of entries of an indexed directory, and the first hash that belongs there."""

    hash: int
    block: int


class Directory(File):
    """A directory in memory."""

    def __init__(self, mballoc, number: int, group: int, seed: tuple[int, ...], is_root: bool = False) -> None:
        super().__init__(mballoc, number, group, regular=False)
        self.seed, self.is_root = seed, is_root
        self.last_group: int | None = None
        self.links = 2
        block = mballoc.disk.options.block_bytes
        self.room = block - (_TAIL if "metadata_csum" in mballoc.disk.options.features else 0)
        self.blocks: list[list[list]] = []
        self.leaves: list[Leaf] = []
        self.most_leaves = (block - _INDEX_FIRST - _INDEX_TAIL) // _INDEX_ENTRY

    def begin(self) -> None:
        """Give a new directory its first block."""
        self._append()
        self.blocks[0] = [[12, "."], [self.room - 12, ".."]]

    def add(self, name: str) -> None:
        """Add an entry."""
        if self.leaves:
            self._add_indexed(name)
            return
        for block in self.blocks:
            if self._fits(block, name):
                return
            if len(self.blocks) == 1 and "dir_index" in self.mballoc.disk.options.features:
                self._make_index(name)
                return
        self._append()
        assert self._fits(self.blocks[-1], name)

    def remove(self, name: str) -> None:
        """Remove an entry; its bytes go to the record before it."""
        for block in self.blocks:
            for at, record in enumerate(block):
                if record[1] == name:
                    if at:
                        block[at - 1][0] += record[0]
                        del block[at]
                    else:
                        record[1] = ""
                    return
        raise KeyError(name)

    def _append(self) -> int:
        block_bytes = self.mballoc.disk.options.block_bytes
        number = self.size // block_bytes
        self.lookup(number, 1)
        self.map(number, 1, Create())
        self.size += block_bytes
        self.blocks.append([[self.room, ""]])
        return number

    def _fits(self, block: list[list], name: str) -> bool:
        """Add an entry to a block if there is room."""
        needed = _bytes(name)
        for at, record in enumerate(block):
            used = _bytes(record[1]) if record[1] else 0
            if record[0] - used >= needed:
                if used:
                    block.insert(at + 1, [record[0] - used, name])
                    record[0] = used
                else:
                    record[1] = name
                return True
        return False

    def _make_index(self, name: str) -> None:
        """Turn the only block into an index, with its entries in a new one, which is split at once."""
        number = self._append()
        dots, records = self.blocks[0][:2], self.blocks[0][2:]
        records[-1][0] = self.room - sum(record[0] for record in records[:-1])
        self.blocks[number], self.blocks[0] = records, dots
        self.leaves = [Leaf(0, number)]
        self._split(self.leaves[0], name)

    def _add_indexed(self, name: str) -> None:
        wanted = half_md4(name.encode(), self.seed)[0]
        leaf = [each for each in self.leaves if each.hash <= wanted][-1]
        if self._fits(self.blocks[leaf.block], name):
            return
        if len(self.leaves) == self.most_leaves:
            raise NotImplementedError("a directory with two levels of index")
        self._split(leaf, name)

    def _split(self, leaf: Leaf, name: str) -> None:
        """Move the half of a block's entries with the higher hashes to a new block; then add an entry to one of them."""
        number = self._append()
        hashes = {
            id(record): half_md4(record[1].encode(), self.seed)[0] for record in self.blocks[leaf.block] if record[1]
        }
        records = sorted((r for r in self.blocks[leaf.block] if r[1]), key=lambda record: hashes[id(record)])
        half, size, moved = self.mballoc.disk.options.block_bytes // 2, 0, 0
        for record in reversed(records):
            if size + record[0] // 2 > half:
                break
            size, moved = size + record[0], moved + 1
        split = len(records) - moved if moved < len(records) else len(records) // 2
        border = hashes[id(records[split])]
        continued = split > 0 and border == hashes[id(records[split - 1])]
        kept = {id(record) for record in records[:split]}
        self.blocks[number] = self._packed(records[split:])
        self.blocks[leaf.block] = self._packed([r for r in self.blocks[leaf.block] if id(r) in kept])
        self.leaves.insert(self.leaves.index(leaf) + 1, Leaf(border + continued, number))
        higher = half_md4(name.encode(), self.seed)[0] >= border
        assert self._fits(self.blocks[number if higher else leaf.block], name)

    def _packed(self, records: list[list]) -> list[list]:
        """Return entries one after the other; the last one has what is left."""
        packed = [[_bytes(record[1]), record[1]] for record in records]
        packed[-1][0] = self.room - sum(record[0] for record in packed[:-1])
        return packed


def _bytes(name: str) -> int:
    """Return the bytes that an entry needs."""
    return len(name.encode()) + 8 + 3 & ~3
