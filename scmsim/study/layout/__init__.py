"""Comparison of where a real kernel and a model put the blocks of the same files."""
