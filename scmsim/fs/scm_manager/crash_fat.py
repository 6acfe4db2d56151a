"""Recover FAT on the SCM driver and on NAND: an entry holds a file's size and first cluster, the FAT the others.

Source: Linux 2.6.24 fs/fat/{dir,fatent,cache}.c.

NFTL's own tables count as recovered, and only the first of the two FATs is read.
"""

from collections.abc import Iterator
from typing import Any

from scmsim.fs.recovery.image import Image
from scmsim.fs.recovery.model import Unrecoverable
from scmsim.fs.scm_manager import block_recovery, templates

SUMMARY = (
    "FAT on the SCM driver and on NAND: blocks written back in no safe order; what a crash leaves for fsck is counted"
)
MODELS = ("fat-scm", "fat-nand")

END = -1  # end of a chain


class RecoveryModel(block_recovery.RecoveryModel):
    """Recovery of sizes and first clusters in entries, and of chains."""

    def inode_in_entry(self, size: int, units: dict[int, int]) -> Any:
        """Return the file's size and its first cluster, None if it has no cluster."""
        return size, units.get(0)

    def metadata(self, file: int, row: Any, size: int, units: dict[int, int]) -> Iterator[tuple[int, Any]]:
        """Yield (place, (word, value)) for the FAT entries of a file's clusters."""
        record = self.state.record[0]
        for i, at in units.items():
            entry = int(record.table_at) + (at - int(record.origin)) // self.unit * templates.WORD
            yield entry, (("next", at), units.get(i + 1, END))

    def inode(self, image: Image, file: int, in_entry: Any) -> Any:
        """Return a file's size and its first cluster."""
        return in_entry

    def walk(self, image: Image, file: int, first: int | None, needed: int) -> Iterator[int | None]:
        """Yield the first `needed` clusters of the chain; raise Unrecoverable if the chain is shorter."""
        at = first
        for i in range(needed):
            if at is None or at == END:
                raise Unrecoverable(f"its chain ends after {i} of {needed} clusters")
            yield at
            at = image.word(("next", at))
