"""Back ends of the harness: one file each, with SUMMARY, PARAMS and `start(request)` (see `scmsim.perf.backend`)."""
