"""`scmsim artifact`: results that others can check; its subcommands are the files of this folder."""

from scmsim.cli import group

SUMMARY = "Pack a result with everything that it needs, and check such a folder by running it again."

command = group("artifact", SUMMARY)
