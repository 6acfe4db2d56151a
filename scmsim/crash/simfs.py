"""SIMFS: nothing is written back or fenced, so nothing is promised to outlive a crash.
Units: none.
Source: SIMFS fs/simfs (noop_fsync in file.c; no clflush, no barrier after a store): docs/validation-scmfs.md.
"""

SUMMARY = "SIMFS: no write-back and no fence anywhere, fsync does nothing; atomic update swaps an entry without either"
MODELS = ("simfs",)
NONE = "its code never writes a line back nor fences, and its fsync does nothing, so no call is durable and none is ordered"
