"""Import traces of caches: requests for objects."""
