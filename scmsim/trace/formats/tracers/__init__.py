"""Import system calls that a tracer recorded."""
