"""Observe a model for a crash check: one operation at a time, its events on persistent memory as plain Python tuples.

Files from before the trace are written first, so that the checker has seen every store that created them.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from scmsim.core.records import (
    CREATE,
    FENCE,
    FLUSH,
    LOAD,
    MKDIR,
    NTSTORE,
    OP,
    OP_COLUMNS,
    PM,
    RENAME,
    SETUP,
    STORE,
    SYNC,
    WRITE,
    Files,
    Source,
)  # fmt: skip
from scmsim.fs.engine.model import Model

PIECE = 1 << 20  # bytes per write that recreates a file from before the trace
KEPT = (LOAD, STORE, NTSTORE, FLUSH, FENCE)
STRIDE = 4096


class Event(NamedTuple):
    """Event on persistent memory, or a fence; fields as in records.EVENT, `site` by name.

    `virtual` is its address before a recovery model's page table translated it (`RecoveryModel.physical`), or -1.
    """

    code: int
    site: str
    addr: int
    length: int
    negated_page_bytes: int
    virtual: int = -1

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yield the bytes [low, high) that the event touches, page by page if it is strided."""
        if self.negated_page_bytes >= 0:
            yield self.addr, self.addr + self.length
            return
        for page in range(self.addr // STRIDE, (self.addr + self.length - 1) // STRIDE + 1):
            low = page * STRIDE + self.addr % STRIDE
            yield low, low - self.negated_page_bytes


def observe(model: Model, op: np.recarray) -> tuple[list[Event], np.record, bool]:
    """Run one operation (an array of one row) and return its events, the operation as done, and whether it succeeded.

    A short write is returned with the length that was written.
    """
    failed, seen = int(model.status[0]["failed"]), []
    for events in model.events(op):
        rows = events[
            np.isin(events["code"], KEPT)
            & ((events["space"] == PM) | (events["code"] == FENCE))
            & (events["length"] > 0)
        ]
        columns = [rows[name].tolist() for name in ("code", "site", "addr", "length", "negated_page_bytes")]
        seen += [
            Event(code, model.sites[site], addr, length, page_bytes)
            for code, site, addr, length, page_bytes in zip(*columns, strict=True)
        ]
    if model.short:
        op = op.copy()
        op.length[0] = model.short[0]
    return seen, op[0], int(model.status[0]["failed"]) == failed


def prologue(source: Source) -> tuple[Files, np.recarray]:
    """Return the table of files for an empty file system, and the operations that create the files from before the trace.

    The last operation is a sync.
    """
    files, rows, seen = source.files, [], set()
    for batch in source.batches():
        order, first = np.unique(batch.file, return_index=True)
        for file, i in zip(order.tolist(), first.tolist(), strict=True):
            made = batch.op[i] in (CREATE, MKDIR) and files.first_size[file] < 0
            if file >= 0 and file not in seen and not made:
                rows += _made(file, int(files.first_size[file]), bool(files.is_dir[file]))
            seen.add(file)
        for file in np.unique(batch.replaced[(batch.op == RENAME) & (batch.replaced >= 0)]).tolist():
            if file not in seen and files.first_size[file] >= 0:
                rows += _made(file, int(files.first_size[file]), bool(files.is_dir[file]))
                seen.add(file)
    if rows:
        rows.append((SYNC, -1, 0, 0))
    ops = np.zeros(len(rows), OP).view(np.recarray)
    for k, (op, file, offset, length) in enumerate(rows):
        ops[[*OP_COLUMNS]][k] = (0, offset, length, file, -1, 0, SETUP, 0, op)
    return replace(files, first_size=np.full(len(files), -1, np.int64)), ops


def _made(file: int, size: int, is_dir: bool) -> list[tuple[int, int, int, int]]:
    if is_dir:
        return [(MKDIR, file, 0, 0)]
    pieces = [(WRITE, file, at, min(PIECE, size - at)) for at in range(0, max(size, 0), PIECE)]
    return [(CREATE, file, 0, 0), *pieces]
