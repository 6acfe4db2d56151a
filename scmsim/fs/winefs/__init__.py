"""WineFS."""
