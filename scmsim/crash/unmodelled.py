"""FAT and ext2 on the SCM driver: clusters of 512 bytes and blocks of 1 KiB, smaller than the pages that the check follows.
Units: none.
Source: none.
"""

SUMMARY = "FAT and ext2 on the SCM driver: blocks smaller than the 4 KiB pages that the check follows"
MODELS = ("fat-scm", "ext2-scm", "fat-nand")
NONE = "its blocks are smaller than the 4 KiB pages that the check follows; it promises nothing before fsck"
