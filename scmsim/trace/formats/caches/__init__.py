"""Traces of caches: requests for objects."""
