"""PMFS."""
