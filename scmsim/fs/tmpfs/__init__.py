"""Models of tmpfs and ramfs."""
