"""Keep the rows of some operations, files or threads."""

import fnmatch
import os
import posixpath
from collections.abc import Iterator, Sequence

import numpy as np

from scmsim.core.errors import UsageError, unknown
from scmsim.core.records import OPS, SETUP
from scmsim.trace._rewrite import CHUNK, Renumber, derived, different, write
from scmsim.trace.store import open_trace


def filter_trace(
    source: "str | os.PathLike[str]",
    out: "str | os.PathLike[str]",
    *,
    ops: Sequence[str] = (),
    under: str | None = None,
    match: str | None = None,
    threads: Sequence[int] = (),
    setup: bool = True,
) -> int:
    """Write the rows that pass all conditions; drop files that no kept row names from the side table.

    Parameters
    ----------
    ops : names of operations; empty: all
    under : keep only objects at or below this path
    match : keep only objects whose whole path matches this shell pattern (`*` also matches `/`)
    threads : thread numbers; empty: all
    setup : keep rows marked SETUP

    Returns
    -------
    int
        Rows written. `under` and `match` drop operations without a file (sync).

    Raises UsageError if an operation is unknown, the input is not a trace, or no row passes the conditions.
    """
    different(out, source)
    for name in ops:
        if name not in OPS:
            raise unknown("operation", name, OPS)
    trace = open_trace(source)
    codes = np.array([OPS.index(name) for name in ops], np.int64)
    wanted = None
    if under is not None or match is not None:
        wanted = np.array([_wanted(path, under, match) for path in trace.files.path], bool)

    def kept() -> Iterator[np.ndarray]:
        for batch in trace.batches(CHUNK):
            rows = batch.view(np.ndarray)
            keep = np.ones(len(rows), bool)
            if len(codes):
                keep &= np.isin(rows["op"], codes)
            if threads:
                keep &= np.isin(rows["thread"], list(threads))
            if not setup:
                keep &= (rows["flag"] & SETUP) == 0
            if wanted is not None:
                keep &= (rows["file"] >= 0) & (wanted[rows["file"]] if len(wanted) else False)
            yield rows[keep]

    renumber = Renumber(trace.files)
    left = 0
    for rows in kept():
        renumber.see(rows)
        left += len(rows)
    if not left:
        raise UsageError(
            f"no row of {str(source)!r} passes the filter; see 'scmsim trace stats {source}' for its contents"
        )
    files = renumber.table(trace.files.first_size)
    header = derived(
        "filter", [trace], ops=list(ops), under=under, match=match, threads=list(threads), setup=setup
    )  # fmt: skip
    return write(out, header, (renumber.apply(rows) for rows in kept()), files)


def _wanted(path: str, under: str | None, match: str | None) -> bool:
    if under is not None:
        root = posixpath.normpath(under)
        if path != root and not path.startswith(root.rstrip("/") + "/"):
            return False
    return match is None or fnmatch.fnmatchcase(path, match)
