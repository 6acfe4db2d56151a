"""Charts of runs, of results with cells, of the documents, of traces and of misses; Altair draws them (the extra `report`)."""
