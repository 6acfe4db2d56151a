"""Models of the SCM manager, and of FAT and ext2 on its SCM driver."""
