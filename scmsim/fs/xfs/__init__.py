"""Models of XFS."""
