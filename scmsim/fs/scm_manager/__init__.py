"""The SCM manager, and FAT and ext2 on its SCM driver."""
