"""Recover ext2 on the SCM driver: an inode holds a file's size and first pointers, indirect blocks hold the others.

Source: Linux 2.6.24 fs/ext2/{inode,dir}.c.
"""

from collections.abc import Iterator
from typing import Any

from scmsim.fs.recovery.image import Image
from scmsim.fs.scm_manager import block_recovery, state, templates

SUMMARY = "ext2 on the SCM driver: blocks written back in no safe order; what a crash leaves for fsck is counted"
MODELS = ("ext2-scm",)

DIRECT, INODE, SIZE_AT, POINTERS_AT = 12, 128, 4, 40  # ext2's inode: pointers, bytes, byte offsets


class RecoveryModel(block_recovery.RecoveryModel):
    """Recovery of inodes, and of pointers in them and in indirect blocks."""

    def metadata(self, file: int, row: Any, size: int, units: dict[int, int]) -> Iterator[tuple[int, Any]]:
        """Yield (place, (word, value)) for a file's size and pointers."""
        at = int(self.state.record[0].inodes_at) + file * INODE
        yield at + SIZE_AT, (("inode", file), size)
        leaves, uppers, fan = self.units(row, state.LEAVES), self.units(row, state.UPPERS), self.unit // templates.WORD
        for k in range(DIRECT):
            yield at + POINTERS_AT + k * templates.WORD, (("pointer", file, k), units.get(k))
        yield at + POINTERS_AT + DIRECT * templates.WORD, (("leaf", file, 0), leaves.get(0))
        for k, to in units.items():
            leaf, slot = divmod(k - DIRECT, fan)
            if k >= DIRECT and leaf in leaves:
                yield leaves[leaf] + slot * templates.WORD, (("pointer", file, k), to)
        for leaf, to in leaves.items():
            if leaf and 1 in uppers:
                yield uppers[1] + (leaf - 1) % fan * templates.WORD, (("leaf", file, leaf), to)

    def inode(self, image: Image, file: int, in_entry: Any) -> tuple[int | None, Any]:
        """Return a file's size; ext2 needs nothing else to walk to its blocks."""
        return image.word(("inode", file)), None

    def walk(self, image: Image, file: int, first: None, needed: int) -> Iterator[int | None]:
        """Yield the device offset of each of the first `needed` blocks, None for a hole."""
        fan = self.unit // templates.WORD
        for k in range(needed):
            there = k < DIRECT or image.word(("leaf", file, (k - DIRECT) // fan)) is not None
            yield image.word(("pointer", file, k)) if there else None
