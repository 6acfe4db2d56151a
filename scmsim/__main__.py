"""`python -m scmsim` is the command line."""

from scmsim.cli import main

main()
