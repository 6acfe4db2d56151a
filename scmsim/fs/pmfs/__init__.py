"""Model of PMFS."""
