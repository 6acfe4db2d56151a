"""Files that a program maps: its page tables, page faults, and what msync, munmap and truncate do to them."""
