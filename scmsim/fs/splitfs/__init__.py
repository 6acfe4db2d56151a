"""SplitFS."""
