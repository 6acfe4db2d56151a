"""Walk of a path: instructions, loads and stores of Linux for each directory of a path that a call names.

The costs of calls are measured on files one directory below the root of the file system.  A call on a file in a deeper
directory costs more for each further directory (link_path_walk: the right to search the directory, the hash of the next name,
its entry in the dentry cache).  Every file system of Linux has the same walk.  A path is taken to be absolute, as a trace has
it; a program that opens files relative to a directory walks fewer of them.
Source: Linux fs/namei.c; amounts of costs/path-walk.toml, measured by tools/calibration/paths.py.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from scmsim.core import folders
from scmsim.core import records as r
from scmsim.fs.engine import costs
from scmsim.fs.engine.events import FREE_COST, State, emit_work, reserve_events
from scmsim.jit import kernel

MEASURED = 1  # directories below the root in the measurements of the costs of calls
TABLE = "path-walk"
SITE = "namespace"


def beyond_measured(files: r.Files) -> np.ndarray:
    """Return how many directories each file's path has beyond those in the costs of calls; 0 for a name that is not a path."""
    common = folders.common_folder(files.path, files.is_dir)
    found = [folders.directories_of(path, common) if path[:1] == "/" else 0 for path in files.path]
    return np.maximum(np.array(found, np.int64) - MEASURED, 0)


def lay(state: State, files: r.Files, version: str, sites: Mapping[str, str]) -> None:
    """Place a table of the files' paths in the arena, and the cost of a directory on a version of Linux after the model's costs."""
    beyond = beyond_measured(files)
    if SITE not in sites or not beyond.any():
        return
    record: Any = state.record[0]
    row = int(np.flatnonzero(record.cost[:, 3] == FREE_COST)[0])
    record.cost[row] = costs.load(TABLE, [version], list(sites))[0]
    if record.arena_top + len(beyond) > len(state.arena):
        state.grow(len(beyond))
    record.walk_cost, record.paths = row, record.arena_top
    state.arena[record.paths : record.paths + len(beyond)] = beyond
    record.arena_top += len(beyond)


@kernel
def paths_of(code):
    """Return how many paths a call names."""
    if code == r.RENAME or code == r.LINK:
        return 2
    return int(code <= r.OPEN or code == r.UNLINK or r.MKDIR <= code <= r.STAT)


@kernel
def walk_path(s, arena, out, op):
    """Charge the walk of the paths of an operation, once; return False if `out` has no room."""
    if s.paths == 0 or s.walked or op.file < 0:
        return True
    directories = arena[s.paths + op.file] * paths_of(op.op)
    if directories == 0:
        return True
    if not reserve_events(s, out, 1):
        return False
    emit_work(s, out, s.walk_cost, directories)
    s.walked = 1
    return True
