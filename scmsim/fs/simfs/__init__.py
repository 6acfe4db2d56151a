"""Model of SIMFS."""
