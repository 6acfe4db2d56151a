"""Run a real kernel's file system in an emulated machine and count its work; no PMU or persistent memory is needed."""
