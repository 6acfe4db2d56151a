"""Loads and stores, address by address."""
