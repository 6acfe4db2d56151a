"""Guarantees that `scmsim lab crash --promise` checks, also on file systems without a model."""

from scmsim.fs.recovery.model import Guarantee

PROMISES = {
    "fsync": Guarantee("durable when fsync returns; until then calls may be seen in part", False, False),
    "call": Guarantee("durable when the call returns; until then a call may be seen in part", False, True),
    "atomic": Guarantee("each call atomic, durable when it returns", True, True),
}
