"""Make and verify artifacts: folders with a result, everything that its command reads, and claims for a second run to meet.

`pack` packs a result into a folder, `recipe` writes the file that its command runs, `contents` finds changed files, `rerun` runs
the command, `claims` compares the figures, and `verify` runs these steps.
"""

from scmsim.artifact.pack import make
from scmsim.artifact.verify import Verification, verify

__all__ = ["Verification", "make", "verify"]
