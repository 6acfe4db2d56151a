"""tmpfs and ramfs."""
