"""What benchmarks write and read: a log of operations, a workload."""
