"""The two kernels of a model: the frequent operations, and the rare operations that the frequent kernel leaves.

A family binds its subroutines to this module and gets its `emit` from `emitter`.
"""

from collections.abc import Callable
from types import ModuleType

from scmsim.fs.engine import operations
from scmsim.fs.engine.events import has_events
from scmsim.fs.linux import calls, index, metadata
from scmsim.fs.linux import operations as frequent_operations
from scmsim.fs.linux import rare as rare_operations
from scmsim.jit import calling, kernel
from scmsim.jit.binding import bind

_HOOKS = {operations: calls.HOOKS}
frequent_loop = bind("linux", operations, {**_HOOKS, calls: frequent_operations.HOOKS}).loop
rare_loop = bind("linux_rare", operations, {**_HOOKS, calls: rare_operations.HOOKS}).loop


@kernel
def frequent(state, arena, ops, i, out):
    """Turn operations from `ops[i]` on into events until one does not fit or is rare; return its index."""
    s = state[0]
    s.rare = s.grow_file != 0
    return i if s.rare else frequent_loop(s, arena, ops, i, out)


@kernel
def rare(state, arena, ops, i, out):
    """Do the work that `frequent` left: index blocks, checkpoints, write-back, then operations from `ops[i]` on while rare."""
    s = state[0]
    s.rare, s.slow_path_blocked = 0, 1
    if s.grow_file and not index.grow(s, arena):
        return i
    if s.want_checkpoint:
        if not has_events(s, out, 2 * s.checkpoint_blocks + 2):
            return i
        metadata.checkpoint(s, arena, out)
        s.want_checkpoint = 0
    i = rare_loop(s, arena, ops, i, out)
    # blocked: an operation is left, and `accepts` did not hand it to the frequent kernel
    s.slow_path_blocked = s.slow_path_blocked and i < ops.size
    return i


def emitter(kernels: ModuleType) -> Callable:
    """Return a model's `emit` from this module as a family has bound it."""

    @calling(kernels.frequent, kernels.rare)
    def emit(state, arena, ops, i, out):
        """Turn operations from `ops[i]` on into events while they fit; returns the index of the first one not done."""
        flags = state[0]
        flags["emitted"], flags["need_events"], flags["need_words"] = 0, 0, 0
        while True:
            i = kernels.frequent(state, arena, ops, i, out)
            if not flags["rare"]:
                return i
            i = kernels.rare(state, arena, ops, i, out)
            if flags["slow_path_blocked"]:
                return i

    return emit
