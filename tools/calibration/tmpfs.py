"""Derive scmsim/fs/tmpfs/costs/{tmpfs-5.13,tmpfs-6.1,ramfs-6.1}.toml from the measured rows.

The cost of a call is the sum of the call itself, its pages, and events that happen to a page once (allocation, second use).
Differences between units of 16 Ki and 256 Ki give the pages, the rest is the call.  Of the 1 Ki rows, tmpfs' rewrite separates
the write of a page from its second use, and wsync less append gives fsync; the other rows are not used.
Costs of names are their rows (6.1; none were measured for tmpfs on 5.13).
"""

import numpy as np

from tools.calibration import directories, ext4, tables
from tools.calibration.tables import Cost

SMALL, MIDDLE, LARGE = 1024, 16384, 262144
TABLES = (
    ("tmpfs", "5.13", "measured_513.csv"), ("tmpfs", "6.1", "measured_610.csv"), ("ramfs", "6.1", "measured_610.csv")
)  # fmt: skip


def line(found, op):
    """Return (cost of a call, cost of a whole page) of a pass, from its units of 4 and 64 pages."""
    page = (found[op, LARGE] - found[op, MIDDLE]) / 60
    return found[op, MIDDLE] - 4 * page, page


def costs(fs, kernel, transfers, names):
    """Return the cost table."""
    found, name = tables.rows(transfers, fs), tables.names(fs, name=names)
    call, rewritten = line(found, "rewrite")
    append_call, appended = line(found, "append")
    call = (call + append_call) / 2
    page = found["rewrite", SMALL] - call if fs == "tmpfs" else rewritten
    activate = np.maximum(rewritten - page, 0)
    # Reads of 16 Ki and 256 Ki include timer interrupts in proportion to their pages.
    read_call, read_page = line(found, "read")
    tick = np.array([5.9, 1.8, 1.2])
    read_page = read_page - tick
    fitted, namespace = f"{fs} rows of {transfers}: ", f"{fs} rows of {names}: "
    pair = name["openclose"]
    closed = pair * ext4.CLOSE_SHARE
    table = {
        "null_call": ("syscall", "call that is not modelled further", "measured", fitted + "null", found["null", 1]),
        "write_call": ("syscall", "write() without its pages", "fitted", fitted + "rewrite, append", call),
        "write_page": ("page cache", "page written", "fitted", fitted + "rewrite", page),
        "new_page": ("page cache", "page that is allocated", "fitted", fitted + "append", appended - page),
        "activate_page": ("page cache", "page used for the second time", "fitted", fitted + "rewrite", activate),
        "read_call": ("syscall", "read() without its pages", "fitted", fitted + "read", read_call),
        "read_page": ("page cache", "page read", "fitted", fitted + "read", read_page),
        "timer_tick": (
            "syscall", "4096 bytes read: interrupts during a rep-string of 1 ns a byte", "estimate",
            "as fitted for ext4 to its reads of 262144", tick,
        ),
        "fsync_call": (
            "syscall", "fsync(), which does nothing", "fitted", fitted + "wsync less append",
            np.maximum(found["wsync", SMALL] - found["append", SMALL], 0),
        ),
        "create": ("namespace", "open(O_CREAT) of a new file", "measured", namespace + "create less close",
                   name["create"] - closed),
        "open": ("namespace", "open of an existing file", "estimate", namespace + "openclose less close", pair - closed),
        "close": ("namespace", "close", "estimate", namespace + "openclose by ext4-dax' share of close in the lab, 6.1", closed),
        "unlink": ("namespace", "unlink that leaves another name", "measured", namespace + "unlinkl", name["unlinkl"]),
        "remove": ("namespace", "unlink of the last name, without pages", "measured", namespace + "unlink0",
                   name["unlink0"]),
        "free_page": ("page cache", "page freed", "fitted", namespace + "unlink64k less unlink0",
                      (name["unlink64k"] - name["unlink0"]) / 16),
    }  # fmt: skip
    table["sync_call"] = ("syscall", "sync()", "measured", namespace + "create_sync", 1000 * name["create_sync"])
    for op in ("stat", "rename", "link", "mkdir", "rmdir"):
        table[op] = ("namespace", op, "measured", namespace + op, name[op])
    told = ("measured", directories.SOURCE) if kernel == "6.1" else ("estimate", f"as on 6.1: {directories.SOURCE}")
    return {name: Cost(amounts, *words) for name, (*words, amounts) in table.items()} | directories.listing(
        "tmpfs", *told
    )


def derive():
    """Return the cost tables of tmpfs and ramfs."""
    found = {}
    for fs, kernel, transfers in TABLES:
        head = (
            f"# Costs of {fs} on Linux {kernel}: instructions, loads and stores (rep-strings left out) per unit, as counted on an\n"
            "# emulated machine; written by tools/calibration/tmpfs.py, whose data files the sources name.\n"
        )
        table = costs(fs, kernel, transfers, "measured_namespace.csv")
        found[f"tmpfs/{fs}-{kernel}"] = tables.text(head, table, tables.tenths)
    return found
