"""Hold what NOVA's recovery model knows of a file: its state before a crash, and the log entries that give its size.

Source: NOVA fs/nova/rebuild.c (nova_rebuild_handle_write_entry, nova_rebuild_file_inode_tree).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from scmsim.fs.recovery.image import Image


class Sized(NamedTuple):
    """The entries of a log that give the file's size: the last write entry, and the last truncate after it (version, size).

    The recovery takes the size of each write entry in the order of the log, although an overwrite in place may have changed an
    earlier entry later; a truncate counts if its transaction is not older (nova_rebuild_handle_write_entry).
    """

    write: Any = None
    cut: tuple[int, int] = (0, 0)

    def size(self, image: Image) -> int:
        """Return the size that the recovery finds."""
        written = image.word(("size", self.write), (0, 0))
        return (self.cut if self.cut[0] >= written[0] else written)[1]


class Running:
    """A file's state in the running system, before a crash."""

    def __init__(self, chain: Sequence[int] = ()) -> None:
        self.size = 0
        self.chain = list(chain)  # addresses of its log pages in order
        self.mapped: dict[int, int] = {}  # page -> device page
        self.entry_of: dict[int, Any] = {}  # page -> write entry
