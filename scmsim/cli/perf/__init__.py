"""`scmsim perf`: measure with perf what the models predict; its subcommands are the files of this folder."""

from scmsim.cli import group

SUMMARY = "Measure with perf: check the machine, set it up, run, profile, import."

command = group("perf", SUMMARY)
