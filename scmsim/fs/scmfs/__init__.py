"""SCMFS."""
