"""Comparison of a replay's TLB misses with those of a real kernel's address stream in the same MMU."""
