"""State of SIMFS: the state of `contiguous`, and whether writes are atomic (`shadow`).

A file's table SUPERS holds its upper page tables: the highest one first, then one per GiB.
"""

import numpy as np

from scmsim.core.records import Files
from scmsim.fs.contiguous import state as contiguous_state
from scmsim.fs.contiguous import templates as tpl
from scmsim.fs.engine import costs
from scmsim.fs.engine.events import State
from scmsim.fs.simfs import templates

STATE = np.dtype(
    (
        np.record,
        [
            *contiguous_state.FIELDS,
            ("shadow", "i8"),  # 1: a write goes to a temporary file, whose table entry is swapped with the file's
        ],
    )
)


def start(params: dict, files: Files) -> State:
    """Return the state of an empty SIMFS that knows the trace's `files`."""
    variant = contiguous_state.Variant(templates.templates(), costs.load("scmfs", tpl.COSTS, list(tpl.SITES)), STATE)
    state = contiguous_state.start(params, files, variant)
    state.record[0].shadow = params["update"] == "atomic"
    return state
