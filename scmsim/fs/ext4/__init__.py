"""Models of ext4."""
