"""`scmsim lab`: measure real kernels in an emulated machine; its subcommands are the files of this folder."""

from scmsim.cli import group

SUMMARY = "Measure a real kernel's file systems in an emulated machine, without a PMU or persistent memory."

command = group("lab", SUMMARY)
