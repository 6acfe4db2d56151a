"""SIMFS."""
