"""Parts of the tables: their layout, the breakdowns, and the summary's sentences."""
