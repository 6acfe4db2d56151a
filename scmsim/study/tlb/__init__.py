"""A replay's TLB misses beside those of a real kernel's address stream in the same MMU."""
