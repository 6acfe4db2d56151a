"""The perf harness: the same counters as the models predict, measured on real hardware."""
