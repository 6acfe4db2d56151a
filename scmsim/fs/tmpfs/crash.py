"""Declare file systems in DRAM: a crash loses everything, by design.

Units: none.
Source: Linux Documentation/filesystems/{tmpfs,ramfs-rootfs-initramfs}.rst, drivers/block/brd.c.
"""

SUMMARY = "tmpfs, ramfs, ext2 on a RAM disk: volatile, so there is nothing to check"
MODELS = ("tmpfs", "ramfs", "ext2-ramdisk")
NONE = "its files are in DRAM, so a crash loses all of them by design, including synced data"
