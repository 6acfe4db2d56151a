"""famfs: files preallocated in units of 2 MiB of shared memory, described by an append-only log."""
