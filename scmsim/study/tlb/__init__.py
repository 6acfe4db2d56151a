"""Compare the TLB misses of a replay with those that a real kernel's address stream has in the same MMU."""
