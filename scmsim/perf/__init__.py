"""Perf harness, which measures on real hardware the counters that the models predict."""
