"""Memory file systems: a crash loses everything, by design.
Units: none.
Source: Linux Documentation/filesystems/{tmpfs,ramfs-rootfs-initramfs}.rst.
"""

SUMMARY = "tmpfs, ramfs: volatile, so there is nothing to check"
MODELS = ("tmpfs", "ramfs")
NONE = "its files live in DRAM and claim nothing that outlives a crash"
