"""Parts that SCMFS, SIMFS and ctFS share: files that are contiguous in virtual memory."""
