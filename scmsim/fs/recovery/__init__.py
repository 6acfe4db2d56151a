"""What every family's recovery is written with: the content of persistent memory, and what a crash may leave of a file."""
