"""Turn system calls into rows: parse lines of strace, follow descriptors, positions, names and mappings."""
