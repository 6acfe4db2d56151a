"""Files that a program maps: its page tables, page faults, and the effects of msync, munmap and truncate on them."""
