"""Drives an ext4 model without the rest of the package, and builds the operations of the measured experiments."""

import numpy as np

from scmsim.core import records as r
from scmsim.core.records import OP, OP_COLUMNS, Files
from scmsim.fs.engine.model import Model
from scmsim.pipeline import model_params

AMOUNTS = ("ins", "ld", "st", "ntst", "flush", "sfence", "pmld", "pmst")


def batch(rows, step_ns=1000):
    """OP records from (op, file, offset, length, flag, file2, time_ns) tuples; what is left out at the end is 0,
    file2 -1."""
    ops = np.zeros(len(rows), OP).view(np.recarray)
    for i, row in enumerate(rows):
        op, file, offset, length, flag, file2, time_ns = (*row, *(0, 0, 0, 0, 0, -1, step_ns * i)[len(row) :])
        ops[[*OP_COLUMNS]][i] = (time_ns, offset, length, file, file2, 0, flag, 0, op)
    return ops


def side_table(names, sizes=None, dirs=()):
    """Files of the given names; sizes before the trace (default: none existed)."""
    sizes = np.full(len(names), -1, np.int64) if sizes is None else np.asarray(sizes, np.int64)
    return Files(list(names), sizes, np.isin(np.arange(len(names)), list(dirs)))


def begin(fs, files, **params):
    """A fresh model, whose parameters are numbers."""
    return Model(fs, model_params("fs", fs, {}) | params, files)


def amounts(e):
    """One row of AMOUNTS per event."""
    code, width, length, addr = (e[field].astype(np.int64) for field in ("code", "width", "length", "addr"))
    is_work, load, store = code == r.WORK, code == r.LOAD, np.isin(code, (r.STORE, r.NTSTORE))
    steps = np.where((load | store) & (width > 0), -(-length // np.maximum(width, 1)), 0)
    pages = ((addr + length - 1) >> 12) - (addr >> 12) + 1  # a strided run (width < 0) moves -width bytes in each
    moved = np.where(width < 0, -width * pages, length)
    lines = ((addr + length - 1) >> 6) - (addr >> 6) + 1
    lines = np.where(width < 0, pages * ((((addr & 63) - width - 1) >> 6) + 1), lines * np.maximum(width, 1))
    pm = e["space"] == r.PM
    table = np.zeros((len(e), len(AMOUNTS)))
    table[:, 0] = np.where(is_work, addr / 1000, steps)
    table[:, 1] = np.where(is_work, length / 1000, steps * load)
    table[:, 2] = np.where(is_work, width / 1000, steps * store)
    table[:, 3] = steps * (code == r.NTSTORE)
    table[:, 4] = lines * (code == r.FLUSH)
    table[:, 5] = length * (code == r.FENCE)
    table[:, 6] = moved * (load & pm)
    table[:, 7] = moved * (store & pm)
    return table


def per_op(model, ops):
    """Amounts per operation, shape (operations, AMOUNTS)."""
    sums = np.zeros((len(ops), len(AMOUNTS)))
    for chunk in model.events(ops):
        np.add.at(sums, chunk["op"], amounts(chunk))
    return sums


def transfer_sequence(units_):
    """The passes of measured_513.csv on one file (row 0) of a fresh device, in the order in which they ran.

    Returns (operations, labels): a label per operation, (pass, unit) where it was counted, None where it was
    preparation. Each operation of a pass is one system call; `wsync` has two for each call of the table.
    """
    rows, labels = [(r.CREATE, 0)], [None]

    def call(label, *row):
        rows.append(row)
        labels.append(label)

    for unit in units_:
        total = (16384 if unit == 512 else (16 << 20) // unit) * unit
        call(None, r.UNLINK, 0)
        call(None, r.CREATE, 0)
        for at in range(0, total, unit):
            call(("append", unit), r.WRITE, 0, at, unit)
        for at in range(0, 1 << 20 if unit == 512 else total, unit):
            call(("rewrite", unit), r.WRITE, 0, at, unit)
        for at in range(0, total, unit):
            call(("read", unit), r.READ, 0, at, unit)
        call(None, r.UNLINK, 0)
        call(None, r.CREATE, 0)
        for at in range(0, min(256 * unit, total), unit):
            call(("wsync", unit), r.WRITE, 0, at, unit)
            call(("wsync", unit), r.FSYNC, 0)
    return batch(rows), labels


def namespace_sequence(count=1000):
    """The passes of measured_namespace.csv (each followed by its `_sync`): operations, labels, side table.

    Files 0 .. count-1; the rows behind them are directories, a fresh one for each group of passes.  See `names_lab` for file
    systems that know a name again or keep what a directory once had.
    """
    create, close, remove = (r.CREATE,), (r.CLOSE,), (r.UNLINK,)
    groups = [
        [("create", create, close), ("stat", (r.STAT,)), ("openclose", (r.OPEN,), close), ("unlink0", remove)],
        [(None, create, close), ("rename", (r.RENAME,)), ("link", (r.LINK,)), ("unlinkl", remove), (None, remove)],
        [("cwrite64k", create, (r.WRITE, 0, 65536), close), ("unlink64k", remove)],
        [("mkdir", (r.MKDIR,)), ("rmdir", (r.RMDIR,))],
        [("create_fsync", create, (r.FSYNC,), close)],
    ]
    rows, labels = [], []
    for parent, passes in enumerate(groups, count):
        rows += [(r.MKDIR, parent), (r.SYNC, -1)]
        labels += [None, None]
        for label, *steps in passes:
            for i in range(count):
                for op, *extent in steps:
                    directory = -1 if op == r.RENAME else parent
                    rows.append((op, i, *extent, *(0,) * (3 - len(extent)), directory))
                    labels.append(label)
            rows.append((r.SYNC, -1))
            labels.append(f"{label}_sync")
    files = [f"/d/f{i:05d}" for i in range(count)] + [f"/d{i}" for i in range(len(groups))]
    return batch(rows), labels, side_table(files, dirs=range(count, len(files)))


def capacity_with(fs, files, free):
    """Smallest capacity (bytes) that leaves `free` blocks for data and directories."""
    capacity = 24 << 20
    while True:
        record = begin(fs, files, capacity=capacity).state.record[0]
        left = int(record.free_blocks) - (int(record.kept_blocks) if "kept_blocks" in record.dtype.names else 0)
        if left == free:
            return capacity
        capacity -= 4096 * max(left - free, -1)
