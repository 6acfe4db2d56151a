"""The two kernels of a model at work: the frequent operations, and the rare ones where those leave something to them."""

from scmsim.fs.linux.operations import frequent
from scmsim.fs.linux.rare import rare


def emit(state, arena, ops, i, out):
    """Turn operations from `ops[i]` on into events while they fit; returns the index of the first one not done."""
    flags = state[0]
    flags["emitted"], flags["need_events"], flags["need_words"] = 0, 0, 0
    while True:
        i = frequent(state, arena, ops, i, out)
        if not flags["rare"]:
            return i
        i = rare(state, arena, ops, i, out)
        if flags["stuck"]:
            return i
