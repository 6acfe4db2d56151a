"""Model of NOVA."""
