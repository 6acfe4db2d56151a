"""A slow, readable model of where ext4 puts blocks: mke2fs, inode allocation, mballoc, extents."""

from tests.reference.ext4_layout.cached import CachedLayout
from tests.reference.ext4_layout.layout import Ext4Layout
from tests.reference.ext4_layout.mballoc import Mballoc, NoSpaceLeft, Request
from tests.reference.ext4_layout.mkfs import Mkfs

__all__ = ["CachedLayout", "Ext4Layout", "Mballoc", "Mkfs", "NoSpaceLeft", "Request"]
