"""DaxFS: a lock-free hash table of pages in shared memory, changed by compare-and-swap alone."""
