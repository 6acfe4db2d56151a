"""Models a file system that stores each write in place, at a fixed place for each file, and fences once.
Units: bytes.
Source: made up, to show how little a model needs.
"""

import numpy as np

from scmsim.core import records as r
from scmsim.core.records import FENCE, NTSTORE, PM, pack
from scmsim.fs.engine.events import HEADER, State, emit_run, new_state
from scmsim.jit import kernel

SUMMARY = "a file system that stores each write in place"
SITES = {"copy": "data"}
PARAMS = {"capacity": ("1GiB", "bytes", "size of the device")}
STATE = np.dtype((np.record, [*HEADER, ("stored", "i8")]))
COPY, DRAIN = pack(NTSTORE, 0, PM, 8), pack(FENCE, 0, PM)


def start(params, files):
    return new_state(STATE, 64, np.zeros((1, 4), np.int64))


@kernel
def emit(state, arena, ops, i, out):
    s = state[0]
    s.emitted = 0
    while i < ops.size and s.emitted + 2 <= out.size:
        s.op = i
        if ops[i].op == r.WRITE:
            emit_run(s, out, COPY, (ops[i].file << 30) + ops[i].offset, ops[i].length)
            emit_run(s, out, DRAIN, 0, 1)
            s.stored += ops[i].length
        i += 1
    return i


def space(state: State) -> dict[str, int]:
    stored = int(state.record.stored[0])
    return {"capacity_bytes": 1 << 30, "live_bytes": stored, "allocated_bytes": stored}
