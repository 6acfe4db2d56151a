"""Shared parts of all recovery models: the content of persistent memory, and the states in which a crash may leave a file."""
