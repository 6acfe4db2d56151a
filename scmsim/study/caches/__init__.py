"""Data caches judged: a real kernel's stream of lines and a replay through the same caches."""
