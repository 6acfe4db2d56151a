"""The file systems by name: a file is one of them."""
