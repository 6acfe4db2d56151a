"""Charts of runs, results with cells, the documents' figures, traces and misses, drawn by Altair (the extra `report`)."""
