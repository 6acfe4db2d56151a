"""Models whose stores to the device are those of a block layer: what a block write means is not modelled.
Units: none.
Source: none.
"""

SUMMARY = "file systems through the page cache: no adapter says what a block that is written back means"
MODELS = ("ext2", "ext2-ramdisk", "ext2-dax", "fat-scm", "ext2-scm", "fat-nand")
NONE = "no adapter says what its stores of whole blocks mean to a recovery (fsck, or the journal's replay)"
