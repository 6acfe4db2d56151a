"""The two kernels of a model: the fast path runs the frequent operations, the slow path all other operations.

A family binds its subroutines to this module and gets its `emit` from `emitter`.
"""

from collections.abc import Callable
from types import ModuleType

from scmsim.fs.engine import operations
from scmsim.fs.engine.events import reserve_events
from scmsim.fs.linux import calls, fast_path, metadata, slow_path
from scmsim.jit import calling, kernel
from scmsim.jit.binding import bind

_HOOKS = {operations: calls.HOOKS}
fast_loop = bind("linux", operations, {**_HOOKS, calls: fast_path.HOOKS}).loop
slow_loop = bind("linux_slow", operations, {**_HOOKS, calls: slow_path.HOOKS}).loop


@kernel
def run_fast_path(state, arena, ops, i, out):
    """Emit the events of operations from `ops[i]` on until one needs space or the slow path; return its index."""
    s = state[0]
    s.needs_slow_path = 0
    return fast_loop(s, arena, ops, i, out)


@kernel
def run_slow_path(state, arena, ops, i, out):
    """Run the checkpoint that the fast path left, if any, then rare operations from `ops[i]` on; return the next one's index."""
    s = state[0]
    s.needs_slow_path, s.slow_path_blocked = 0, 1
    if s.want_checkpoint:
        if not reserve_events(s, out, 2 * s.checkpoint_blocks + 2):
            return i
        metadata.checkpoint(s, arena, out)
        s.want_checkpoint = 0
    i = slow_loop(s, arena, ops, i, out)
    # still blocked only if an operation is left that `handled_here` did not hand to the fast path
    s.slow_path_blocked = s.slow_path_blocked and i < ops.size
    return i


def emitter(kernels: ModuleType) -> Callable:
    """Return the `emit` of a model; `kernels` is this module as bound by the model's family."""

    @calling(kernels.run_fast_path, kernels.run_slow_path)
    def emit(state, arena, ops, i, out):
        """Emit the events of operations from `ops[i]` on; return the index of the operation with which the next call goes on."""
        flags = state[0]
        flags["emitted"], flags["need_events"], flags["need_words"] = 0, 0, 0
        while True:
            i = kernels.run_fast_path(state, arena, ops, i, out)
            if not flags["needs_slow_path"]:
                return i
            i = kernels.run_slow_path(state, arena, ops, i, out)
            if flags["slow_path_blocked"]:
                return i

    return emit
