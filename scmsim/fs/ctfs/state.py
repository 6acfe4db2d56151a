"""State of ctFS: the shared state of contiguous files, and whether writes are atomic.

One percent of the device is reserved as 4 KiB pages, for page tables and split pieces.
"""

import numpy as np

from scmsim.core.records import Files
from scmsim.fs.contiguous import state as contiguous_state
from scmsim.fs.contiguous import templates as tpl
from scmsim.fs.ctfs import templates
from scmsim.fs.engine import costs
from scmsim.fs.engine.events import State

STATE = np.dtype(
    (
        np.record,
        [
            *contiguous_state.FIELDS,
            ("shadow", "i8"),  # 1: a write goes to a staging partition, whose entries are then swapped with the file's
        ],
    )
)


def start(params: dict, files: Files) -> State:
    """Return the state of an empty ctFS that knows the trace's `files`."""
    rows = costs.load("ctfs", templates.COSTS, list(tpl.SITES))
    variant = contiguous_state.Variant(templates.templates(), rows, STATE, normal_percent=1)
    state = contiguous_state.start(params, files, variant)
    state.record[0].shadow = params["update"] == "atomic"
    return state
