"""NOVA."""
