"""Models of ext2."""
