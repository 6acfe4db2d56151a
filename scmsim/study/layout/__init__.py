"""Compare where a real kernel and a model place the blocks of the same files."""
