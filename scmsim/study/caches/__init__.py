"""Compare the cache misses of a replay with those that a real kernel's stream of lines has in the same caches."""
