"""Model of SplitFS."""
