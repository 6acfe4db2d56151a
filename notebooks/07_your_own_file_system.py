# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Write your own file-system model in one file
# A model says what each file operation does to memory: runs of loads and stores, flushes, fences, each with the mechanism (site) that
# causes it. Everything else (page table, TLB, medium, counters, reports) is there already. We write a file system with a redo log
# (each write goes to a log first, then in place) and one that writes in place, and compare them with NOVA.

# %%
import os
import pathlib
import tempfile

import scmsim
from scmsim.core import registry
from scmsim.workload import pattern

folder = pathlib.Path(tempfile.mkdtemp(prefix="my-models-"))
(folder / "fs").mkdir()
os.environ["SCMSIM_PLUGINS"] = str(folder)  # in a shell: export SCMSIM_PLUGINS=...

# %%
MODEL = '''
"""Models a file system that writes each write twice: a redo log, then in place, two fences.
Units: bytes.
Source: made up, as an example.
"""

import numpy as np

from scmsim.core import records as r
from scmsim.jit import kernel
from scmsim.fs.engine.events import HEADER, emit_run, new_state
from scmsim.core.records import FENCE, FLUSH, NTSTORE, PM, STORE, pack

SUMMARY = "a redo log, then in place"
SITES = {"log": "log", "commit": "metadata", "copy": "data"}  # mechanism -> kind of bytes it stores
PARAMS = {"log": ("16MiB", "bytes", "size of the log, which wraps around")}
STATE = np.dtype((np.record, [*HEADER, ("log_bytes", "i8"), ("tail", "i8"), ("stored", "i8")]))
LOG_DATA, LOG_FENCE = pack(NTSTORE, 0, PM, 8), pack(FENCE, 0, PM)
TAIL, TAIL_FLUSH, TAIL_FENCE = pack(STORE, 1, PM, 8), pack(FLUSH, 1, PM), pack(FENCE, 1, PM)
IN_PLACE, IN_PLACE_FENCE = pack(NTSTORE, 2, PM, 8), pack(FENCE, 2, PM)
FILE_BYTES = 1 << 30  # each file has a place of its own, from 1 GiB on


def start(params, files):
    state = new_state(STATE, 64, np.zeros((1, 4), np.int64))
    state.record.log_bytes = params["log"]
    return state


@kernel
def emit(state, arena, ops, i, out):
    s = state[0]
    s.emitted = 0
    while i < ops.size and s.emitted + 7 <= out.size:
        s.op = i
        if ops[i].op == r.WRITE:
            length = ops[i].length
            emit_run(s, out, LOG_DATA, 4096 + s.tail, length)
            emit_run(s, out, LOG_FENCE, 0, 1)
            emit_run(s, out, TAIL, 0, 8)
            emit_run(s, out, TAIL_FLUSH, 0, 64)
            emit_run(s, out, TAIL_FENCE, 0, 1)
            emit_run(s, out, IN_PLACE, (ops[i].file + 1) * FILE_BYTES + ops[i].offset, length)
            emit_run(s, out, IN_PLACE_FENCE, 0, 1)
            s.tail = (s.tail + length) % s.log_bytes
            s.stored += length
        i += 1
    return i


def space(state):
    stored = int(state.record.stored[0])
    return {"live_bytes": stored, "allocated_bytes": stored, "metadata_bytes": int(state.record.log_bytes[0])}
'''
(folder / "fs" / "redo_log.py").write_text(MODEL)
"redo-log" in registry.names("fs")

# %% [markdown]
# It is listed, takes parameters and replays like the others. Instructions of its code are not charged (that takes a cost table, see
# `scmsim/fs/*/costs`), but bytes, flushes, fences and the TLB are.

# %%
work = pattern.Workload(op="overwrite", unit=4096, order="random", file_size=64 << 20, calls=20_000)
result = scmsim.replay(work, "redo-log,nova-cow,pmfs-4k", params={"redo-log": {"log": "64MiB"}})
result

# %% [markdown]
# Write amplification of two is the double write. Where do the bytes go?

# %%
sites = result.to_frame("site")
sites = sites[(sites.fs == "redo-log")][["site", "pm_stored_bytes", "flushes", "fences"]]
sites

# %% [markdown]
# ## Does it keep the rules?
# The package's own models pass a conformance suite (`tests/conformance`): results that do not depend on the buffers, space laws, and
# more. Two of them by hand:

# %%
small = scmsim.replay(work, "redo-log", chunk=64).runs[0]
large = scmsim.replay(work, "redo-log").runs[0]
assert small.counters == large.counters, "counters depend on the chunk"
assert large.counters["pm_stored_bytes"] >= large.payload["written"], "bytes were lost"
"kept"
