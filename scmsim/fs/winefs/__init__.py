"""Model of WineFS."""
