"""The reasons of `scmsim reproduce` put to the test, a file for each document; `__main__` says how."""
