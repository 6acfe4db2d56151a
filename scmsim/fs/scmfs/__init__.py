"""Recovery model of SCMFS."""
