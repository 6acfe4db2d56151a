"""FAT and ext2 on the SCM driver, and FAT on NAND."""

from scmsim.fs.scm_manager.block_recovery import RecoveryModel as RecoveryModel

SUMMARY = (
    "FAT and ext2 on the SCM driver: blocks written back in no safe order; what a crash leaves for fsck is counted"
)
MODELS = ("fat-scm", "ext2-scm", "fat-nand")
