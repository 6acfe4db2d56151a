"""System calls as rows: lines of strace taken apart, descriptors, positions, names and mappings."""
