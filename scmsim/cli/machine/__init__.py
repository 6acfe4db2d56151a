"""`scmsim machine`: machines whose TLBs and page walks can be simulated; its subcommands are the files of this folder."""

from scmsim.cli import group

SUMMARY = "Describe this machine, for the simulation of its TLBs."

command = group("machine", SUMMARY)
