"""Parts of the comparison tables: layout, rows, breakdowns, intervals, and the summary's sentences."""
