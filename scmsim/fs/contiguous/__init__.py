"""Files that are contiguous in virtual memory: what SCMFS, SIMFS and ctFS share."""
