"""Measure in the lab the costs of large folios in the page cache of ext4 (from Linux 6.16 on) and of XFS (from 6.6 on).

Each pair of traces makes the same calls on files in folios of one page and on files in large folios; the difference of a call's
counts, divided by the difference in folios or in buffers, is a cost.
"""

from scmsim.core.records import CLOSE, CREATE, FSYNC, READ, SETUP, SYNC, UNLINK, WRITE
from tests.verification import lab_card as card
from tools.calibration.lab_costs import per_call

# Costs per page besides those per folio: differences of the cells of 16 and 256 KiB on 6.18, in which a call writes one folio.  The
# zeroing of a page's rest: memset_orig of the append of 1 KiB, which zeroes 3 KiB of each page.
# cost: (instructions, loads, stores)
PRIORS = {
    "cache_page": (28, 9, 3),
    "cache_read_page": (92.6, 21.0, 11.6),
    "flush_page": (940, 115, 40),
    "cache_page_zeroed": (550, 1, 384),
}
PAGES = 8  # pages of a small file, in 8 folios or in one
LONGER = 64  # pages of a longer file, in one folio
BUFFERS = 256  # pages of the large file, in 256 folios or in one
OVERWRITES = 200  # of its first pages, one after the other
FITTED = {"ext4": ("6.18", "7.3"), "xfs": ("6.12", "6.18", "7.3")}  # kernels whose tables have these costs
COUNT = 100  # small files
_MANY = range(1, COUNT + 1)
_SYNC = (SYNC, -1, 0, 0, SETUP)


def _file(file, pages, folio):
    """Return rows that write a file of `pages` pages, `folio` pages per call."""
    writes = [(WRITE, file, at << 12, folio << 12, SETUP) for at in range(0, pages, folio)]
    return [(CREATE, file, 0, 0, SETUP), *writes]


def _whole(op, file, flag):
    return op, file, 0, PAGES << 12, flag


def _removed(file):
    return [(CLOSE, file, 0, 0, SETUP), (UNLINK, file, 0, 0, 0)]


def _small(folio, dirty):
    """Return rows that overwrite, store, read twice and remove small files; `dirty`: count overwrites of dirty pages."""
    rows = [row for file in _MANY for row in _file(file, PAGES, folio)] + [_SYNC]
    for file in _MANY:
        first = [_whole(WRITE, file, SETUP if dirty else 0), *([_whole(WRITE, file, 0)] if dirty else [])]
        rows += [*first, (FSYNC, file, 0, 0, 0), _whole(READ, file, SETUP), _whole(READ, file, 0)]
    return [*rows, *[row for file in _MANY for row in _removed(file)]]


def _large(folio):
    """Return rows that overwrite single pages of a large file, and store each."""
    over = [row for at in range(OVERWRITES) for row in ((WRITE, 1, at << 12, 4096, 0), (FSYNC, 1, 0, 0, 0))]
    return [*_file(1, BUFFERS, folio), _SYNC, *over]


def _new(first, pages, again):
    """Return rows that append `pages` pages per call, from page `first` on; `again`: count a second pass instead."""
    passes = (SETUP, 0) if again else (0,)
    writes = [(WRITE, 1, (first + pages * k) << 12, pages << 12, flag) for flag in passes for k in range(200)]
    return [(CREATE, 1, 0, 0, SETUP), (WRITE, 1, 0, 1, SETUP), *writes]


# (first page, pages) of appends that allocate one folio of 2 pages, one of 8 pages, and 2 folios of one page
NEW = {"two": (2, 2), "eight": (8, 8), "apart": (1, 2)}
TRACES = {
    **{f"new {name}": (_new(*where, False), 2) for name, where in NEW.items()},
    **{f"old {name}": (_new(*where, True), 2) for name, where in NEW.items()},
    "clean single": (_small(1, False), COUNT + 1),
    "clean folios": (_small(PAGES, False), COUNT + 1),
    "dirty single": (_small(1, True), COUNT + 1),
    "dirty folios": (_small(PAGES, True), COUNT + 1),
    "large single": (_large(1), 2),
    "large folio": (_large(BUFFERS), 2),
    "longer folios": (
        [row for file in _MANY for row in _file(file, LONGER, LONGER)]
        + [_SYNC, *(row for file in _MANY for row in _removed(file))],
        COUNT + 1,
    ),
}


def costs_of(folder, fs, kernel):
    """Return {cost: (instructions, loads, stores)} of a file system on a kernel; make missing runs."""
    paths = {name: folder / f"{name.replace(' ', '-')}.parquet" for name in TRACES}
    for name, trace in paths.items():
        if not trace.exists():
            card.store(*TRACES[name], trace)
    measured = card.measure(paths, [fs], folder, kernel)
    runs = {name: next(run for run in result.runs if run.fs == fs) for name, result in measured.items()}

    # buffers of the large file's folio that an overwrite of ext4 visits, on average (linux.state.STATE: stops_at_end)
    visited = (1 + OVERWRITES) / 2 if kernel == "7.3" else BUFFERS

    def per(kind, many, few, units):
        return (per_call(runs[many], kind) - per_call(runs[few], kind)) / units

    two, eight, apart = (per("write", f"new {name}", f"old {name}", 1) for name in NEW)
    page = (eight - two) / 6
    folio = apart / 2 - page
    written = per("write", "dirty single", "dirty folios", PAGES - 1)
    return {
        "cache_page_new": page,
        "cache_folio_new": folio,
        "cache_folio_large": two - folio - 2 * page,
        "cache_folio": written,
        "cache_folio_dirty": per("write", "clean single", "clean folios", PAGES - 1) - written,
        "cache_buffer": per("write", "large folio", "large single", visited - 1),
        "cache_read_folio": per("read", "clean single", "clean folios", PAGES - 1),
        "flush_folio": per("fsync", "clean single", "clean folios", PAGES - 1),
        "flush_buffer": per("fsync", "large folio", "large single", BUFFERS - 1),
        "free_page": per("unlink", "longer folios", "clean folios", LONGER - PAGES),
        "free_folio": per("unlink", "clean single", "clean folios", PAGES - 1),
    }
