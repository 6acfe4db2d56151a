"""Draw charts of runs, results with cells, papers' figures, traces and misses by Altair (the extra `report`)."""
