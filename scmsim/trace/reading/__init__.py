"""Share code among importers: the input, its lines and tables, the rows made from them, and the report."""
