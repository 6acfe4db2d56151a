"""Drive SplitFS: run its library, and the two kernels of ext4-DAX where the library leaves work to them."""

import sys

from scmsim.core import records as r
from scmsim.fs.engine import operations
from scmsim.fs.ext4.operations import HOOKS
from scmsim.fs.linux import calls, transfer
from scmsim.fs.linux import mapping as kernel_side
from scmsim.fs.linux.driver import run_fast_path, run_slow_path
from scmsim.fs.mapping import hooks
from scmsim.fs.splitfs.data import TRANSFER
from scmsim.fs.splitfs.operations import CALLS, end
from scmsim.jit import calling, kernel
from scmsim.jit.binding import bind

# Without `has_background_work`: the kernel's threads ran before the library did.
_FILES = {name: hook for name, hook in kernel_side.DAX.items() if name != "has_background_work"}
_LIBRARY = {operations: {**calls.HOOKS, "end": end}, calls: CALLS, transfer: TRANSFER, hooks: _FILES}
library_loop = bind("splitfs_library", operations, _LIBRARY).loop


@kernel
def library(state, arena, ops, i, out):
    """Emit the events of operations from `ops[i]` on until one does not fit or needs the kernel; return its index."""
    s = state[0]
    s.needs_slow_path, s.passed = 0, 0
    return library_loop(s, arena, ops, i, out)


_kernels = bind("splitfs", sys.modules[__name__], HOOKS)
__all__ = ["emit", "library", "run_fast_path", "run_slow_path"]


@calling(_kernels.library, _kernels.run_fast_path, _kernels.run_slow_path)
def emit(state, arena, ops, i, out):
    """Emit the events of operations from `ops[i]` on while they fit; return the index of the first one not done."""
    flags = state[0]
    flags["emitted"], flags["need_events"], flags["need_words"] = 0, 0, 0
    while i < len(ops):
        i = _kernels.library(state, arena, ops, i, out)
        if flags["passed"]:
            before, i = i, _kernels.run_fast_path(state, arena, ops[: i + 1], i, out)
            if i > before:
                flags["prepared"] = 0
                continue
        if not flags["needs_slow_path"]:
            return i
        rows = ops[: i + 1]
        # The work of the kernel's threads needs the slow path, but the library runs before the operation: pass a STAT of no
        # file, at which the slow path stops when the threads have run.
        if not flags["settled"]:
            rows = rows.copy()
            rows["op"][i], rows["file"][i] = r.STAT, -1
        before, i = i, _kernels.run_slow_path(state, arena, rows, i, out)
        if i > before:
            flags["prepared"] = 0
        if flags["slow_path_blocked"]:
            return i
    return i
