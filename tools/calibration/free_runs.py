"""Measure in the lab the cost of a free run that XFS's search for blocks compares with the others, `compared_run`.

Two traces write to new files after every second of 200 adjacent one-page files was truncated to nothing, or of the first 120.  Each
write compares the free runs that this left; no sync makes them usable.  (Blocks of removed files would be freed later, by
xfs_inodegc_worker.)
"""

from scmsim.core.records import CREATE, SETUP, SYNC, TRUNCATE, WRITE
from tests.verification import lab_card as card
from tools.calibration.lab_costs import per_call

FEW, MANY = 60, 100  # free runs
WRITES = 30
_OLD = range(1, 2 * MANY + 1)
_NEW = range(_OLD.stop, _OLD.stop + WRITES)
_MADE = [
    *[row for file in _OLD for row in ((CREATE, file, 0, 0, SETUP), (WRITE, file, 0, 4096, SETUP))],
    *[(CREATE, file, 0, 0, SETUP) for file in _NEW],
    (SYNC, -1, 0, 0, SETUP),
]


def _trace(runs):
    freed = [(TRUNCATE, file, 0, 0, SETUP) for file in _OLD[: 2 * runs : 2]]
    return [*_MADE, *freed, *[(WRITE, file, 0, 4096, 0) for file in _NEW]]


def costs_of(folder, fs, kernel):
    """Return {cost: (instructions, loads, stores)} of xfs-dax on a kernel; make missing runs."""
    paths = {runs: folder / f"runs-{runs}.parquet" for runs in (FEW, MANY)}
    for runs, path in paths.items():
        if not path.exists():
            card.store(_trace(runs), _NEW.stop, path)
    found = card.measure(paths, [fs], folder, kernel)
    few, many = (per_call(found[runs].runs[0], "write") for runs in (FEW, MANY))
    return {"compared_run": (many - few) / (MANY - FEW)}
