"""Import traces of loads and stores by address."""
