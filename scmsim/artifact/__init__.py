"""Artifacts: a folder with a result, everything that its command reads, and the claims that a second run must meet.

`pack` turns a result into a folder, `recipe` writes the file that its command runs, `contents` names changed files, `rerun` runs
the command, `claims` compares the figures and `verify` joins these steps.
"""

from scmsim.artifact.pack import make
from scmsim.artifact.verify import Verification, verify

__all__ = ["Verification", "make", "verify"]
