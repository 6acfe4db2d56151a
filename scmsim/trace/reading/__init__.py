"""What importers share: the input, lines and tables in it, rows of what they say, and the report."""
