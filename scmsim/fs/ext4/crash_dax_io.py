"""Recovery model of ext4 with DAX of Linux 4.0 to 4.6: jbd2's commits as in crash_dax.py, but fsync does not flush data.

Bytes that a copy left in the caches stay there.
Source: Linux 4.4 fs/dax.c: dax_io (copy_from_iter_pmem, wmb_pmem), arch/x86/include/asm/pmem.h; 4.1: copy_from_iter.
"""

from collections.abc import Sequence
from typing import Any

from scmsim.fs.ext4.crash_dax import RecoveryModel as Dax

SUMMARY = "ext4-dax-linux4: metadata by jbd2, data in place, and data in caches that no fsync writes back"
MODELS = ("ext4-dax-linux4",)

IN_CACHES = {
    "nocache": "a write leaves its unaligned ends (less than 8 bytes) in the caches",
    "cached": "a write goes to the caches",
}


class RecoveryModel(Dax):
    """Recovery model of ext4-dax's commits."""

    def to_blame(self, op: Any, lost: Sequence[str], kind: str) -> str:
        """Return what is to blame: the file system if only data of earlier calls is lost, because fsync waits for metadata only."""
        if all("an earlier call" in line for line in lost):
            return f"the file system: {IN_CACHES[self.params['copy']]}, and fsync writes none of it back (fs/dax.c of Linux 4)"
        return super().to_blame(op, lost, kind)
