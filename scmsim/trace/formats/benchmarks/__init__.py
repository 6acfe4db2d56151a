"""Import files of benchmarks: a log of operations, a workload."""
