"""Shared parts of all recovery models: the content of persistent memory, and the states that a crash may leave of a file."""
