"""System calls, as a tracer recorded them."""
