"""Models of ctFS."""
