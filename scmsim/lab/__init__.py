"""An emulated machine that runs the real kernel's file system and counts what it does: no PMU, no persistent memory needed."""
