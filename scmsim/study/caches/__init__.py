"""Comparison of a replay's cache misses with those of a real kernel's stream of lines in the same caches."""
