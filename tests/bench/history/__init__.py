"""Benchmarks that asv runs on many commits: `asv run` in tests/bench (see asv.conf.json)."""
