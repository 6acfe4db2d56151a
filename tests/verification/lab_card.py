"""Replay against the lab, kind of operation by kind of operation: the table of docs/validation/lab.md.

    python -m tests.verification.lab_card FOLDER [--fs ext4-dax,ext4] [--costs ext4-dax=TABLE.toml ...]

Makes small traces in FOLDER, runs each on a real kernel (`scmsim lab run`; finished ones are kept) and on the models, and
prints Markdown: bytes stored, loads + stores, instructions and fences of both.  Costs are the models' of 6.1, or those of a
table of `scmsim lab calibrate`.  Cells are the microbenchmark's and the passes over names: no trace of this card is among them.
"""

import argparse
import contextlib
import pathlib
import statistics
import subprocess
import sys

import numpy as np

import scmsim
from scmsim.core import registry
from scmsim.core.records import (
    APPENDS,
    CLOSE,
    CREATE,
    FSYNC,
    MKDIR,
    OP,
    OPEN,
    READ,
    RENAME,
    RMDIR,
    SETUP,
    STAT,
    SYNC,
    TRUNCATE,
    UNLINK,
    WRITE,
    Files,
)
from scmsim.result import read
from scmsim.study.calibrate import using
from scmsim.study.layout import judge
from scmsim.trace import open_trace
from scmsim.trace.store import TraceWriter

KIB = 1 << 10
WHOLE = {
    "varmail": ("filebench", {"personality": "varmail", "set": "nfiles=200 nthreads=1", "flowops": 3000}),
    "fileserver": ("filebench", {"personality": "fileserver", "set": "nfiles=50 nthreads=1", "flowops": 600}),
    "sqlite delete": ("sqlite", {"journal": "delete", "transactions": 200}),
    "sqlite wal": ("sqlite", {"journal": "wal", "transactions": 200}),
}


def single(name):
    """Rows (op, file, offset, length, flag) and number of files of a trace of one kind of operation; file 0 is a directory."""
    draw = np.random.default_rng(1)
    fill = [
        (CREATE, 1, 0, 0, SETUP),
        *[(WRITE, 1, at * 64 * KIB, 64 * KIB, SETUP) for at in range(64)],
        (SYNC, -1, 0, 0, SETUP),
    ]
    many = range(1, 301)
    made = [row for i in many for row in ((CREATE, i, 0, 0, SETUP), (CLOSE, i, 0, 0, SETUP))]
    names = {
        "create": [row for i in many for row in ((CREATE, i, 0, 0, 0), (CLOSE, i, 0, 0, 0))],
        "unlink": [*made, (SYNC, -1, 0, 0, SETUP), *[(UNLINK, i, 0, 0, 0) for i in many]],
        "rename": [*made, (SYNC, -1, 0, 0, SETUP), *[(RENAME, i, 0, 0, 0) for i in many]],
        "mkdir": [(MKDIR, i, 0, 0, 0) for i in many],
        "stat": [*made, *[(STAT, i, 0, 0, 0) for i in many]],
        "rmdir": [*[(MKDIR, i, 0, 0, SETUP) for i in many], *[(RMDIR, i, 0, 0, 0) for i in many]],
    }
    if name in names:
        return names[name], 301
    data = {
        "append": [(CREATE, 1, 0, 0, SETUP), *[(WRITE, 1, at * 2000, 2000, APPENDS) for at in range(1000)]],
        "rewrite": [*fill, *[(WRITE, 1, at * 2048, 2048, 0) for at in range(1000)]],
        "read": [*fill, *[(READ, 1, at * 2048, 2048, 0) for at in range(1000)]],
        "wsync": [
            (CREATE, 1, 0, 0, SETUP),
            *[row for at in range(200) for row in ((WRITE, 1, at * 2048, 2048, 0), (FSYNC, 1, 0, 0, 0))],
        ],
        "random overwrite": [*fill, *[(WRITE, 1, int(at) * 4096, 4096, 0) for at in draw.integers(0, 1024, 1000)]],
        "unaligned overwrite": [*fill, *[(WRITE, 1, int(at), 1000, 0) for at in draw.integers(0, (4 << 20) - 1000, 1000)]],
        "truncate": [
            row
            for i in range(1, 101)
            for row in (
                (CREATE, i, 0, 0, SETUP),
                (WRITE, i, 0, 64 * KIB, SETUP),
                (TRUNCATE, i, 10000, 0, 0),
                (TRUNCATE, i, 0, 0, 0),
            )
        ],
        "fsync": [*fill, *[row for at in range(200) for row in ((WRITE, 1, at * 4096, 4096, SETUP), (FSYNC, 1, 0, 0, 0))]],
        "open close": [*fill, *[row for _ in range(500) for row in ((OPEN, 1, 0, 0, 0), (CLOSE, 1, 0, 0, 0))]],
    }  # fmt: skip
    return data[name], 101 if name == "truncate" else 2


# What the emulated machine has: its kernel and device.
PARAMS = {"capacity": "2GiB", "copy_fence": 1, "kernel": "6.1"}


def params(fs, path, lab):
    """Parameters of the machine that was measured, those that the model has; the tick in times of the trace in `path`."""
    known = registry.literals("fs", fs).get("PARAMS", {})
    values = PARAMS | judge.by_the_guests_clock(open_trace(path), lab.counters, known)
    return {"linux": {"user_page": "2MiB"}, fs: {key: value for key, value in values.items() if key in known}}


SINGLE = (
    "append", "rewrite", "read", "wsync", "random overwrite", "unaligned overwrite", "open close", "create", "stat", "unlink",
    "rename", "mkdir", "rmdir", "truncate", "fsync",
)  # fmt: skip


def make(name, path):
    """Write the trace of a row of the card."""
    if name not in WHOLE:
        store(*single(name), path)
        return
    kind, given = WHOLE[name]
    source = registry.load("workload", kind).Workload(**given)
    with TraceWriter(path, dict(source.header)) as writer:
        for part in source.batches():
            writer.append(part)
        writer.close(source.files)


def store(rows, count, path):
    """Write a trace of rows as `single` has them, on `count` files."""
    batch = np.zeros(len(rows), OP)
    for k, field in enumerate(("op", "file", "offset", "length", "flag")):
        batch[field] = [row[k] for row in rows]
    batch["file2"] = np.where(np.isin(batch["op"], (CREATE, OPEN, UNLINK, MKDIR, RMDIR, STAT)), 0, -1)
    batch["time_ns"] = 1000 * np.arange(len(batch))
    sizes = np.full(count, -1, np.int64)
    sizes[0] = 0
    with TraceWriter(path, {"tool": "lab_card"}) as writer:
        writer.append(batch)
        writer.close(Files(["/d", *(f"/d/f{i:06d}" for i in range(1, count))], sizes, np.arange(count) == 0))


def measure(traces, systems, folder, kernel=None):
    """Run every trace in the lab unless it is there, on a kept kernel or the chosen one; {name: Result}."""
    found = {}
    for name, path in traces.items():
        out = folder / f"lab-{path.stem}"
        if not (out / "result.json").exists():
            command = [
                sys.executable,
                "-m",
                "scmsim",
                "lab",
                "run",
                str(path),
                "--fs",
                ",".join(systems),
                "-o",
                str(out),
                *(["--kernel", kernel] if kernel else []),
            ]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found[name] = read(out / "result.json")
    return found


def figures(counters):
    """Bytes stored, loads + stores, instructions, fences."""
    loads, stores = (counters.get(f"mem_inst_retired_all_{kind}", 0) for kind in ("loads", "stores"))
    return (
        counters.get("pm_stored_bytes", 0),
        loads + stores,
        counters.get("instructions", 0),
        counters.get("fences", 0),
    )


def error(replayed, measured, calls):
    """Relative error; 0 where both are below one per call."""
    if max(replayed, measured) < calls:
        return 0.0
    return replayed / measured - 1 if measured else float("inf")


def rows_of(name, lab, replayed):
    """(label, calls, measured figures, replayed figures, errors): the whole trace, and its kinds of operation if several."""
    parts = [(name, lab.calls, lab.counters, replayed.counters)]
    if len(lab.groups) > 1:
        parts += [
            (f"{name}: {kind}", lab.params.get(f"calls_{kind}", 1), counters, replayed.groups.get(kind, {}))
            for kind, counters in lab.groups.items()
        ]
    for label, calls, ours, theirs in parts:
        one, other = figures(ours), figures(theirs)
        yield label, calls, one, other, [error(b, a, calls) for a, b in zip(one, other, strict=True)]


def line(label, calls, measured, replayed, errors):
    """One row of the Markdown table, per call."""
    cells = [
        f"{m / calls:,.1f} | {r / calls:,.1f} | {100 * e:+.1f} %"
        for m, r, e in zip(measured, replayed, errors, strict=True)
    ]
    return f"| {label} | {calls:,} | " + " | ".join(cells) + " |"


def card(fs, traces, measured, tables):
    """Print the section of a file system."""
    print(f"\n### {fs}\n")
    heads = ("stored B", "loads + stores", "instructions", "fences")
    print("| operation | calls | " + " | ".join(f"{h} lab | replay | error" for h in heads) + " |")
    print("|" + "---|" * (2 + 3 * len(heads)))
    errors = []
    for name, path in traces.items():
        lab = next(run for run in measured[name].runs if run.fs == fs)
        with using([tables[fs]]) if fs in tables else contextlib.nullcontext():
            given = params(fs, path, lab)
            if fs in tables:
                del given[fs]["kernel"]  # such a table stands in the place of the default one
            replayed = scmsim.replay(open_trace(path), fs=fs, by="op", params=given)
        for row in rows_of(name, lab, replayed.runs[0]):
            print(line(*row))
            errors.append((row[0], row[-1]))
    groups = {
        "single kinds of operation": [e for label, e in errors if label in SINGLE],
        "whole workloads": [e for label, e in errors if label in WHOLE],
        "kinds within workloads": [e for label, e in errors if label.split(": ")[0] in WHOLE and label not in WHOLE],
    }
    print("\n| median, worst | rows | " + " | ".join(heads) + " |\n" + "|---" * (2 + len(heads)) + "|")
    for what, found in groups.items():
        if found:
            columns = [[abs(100 * e) for e in column if e != float("inf")] for column in zip(*found, strict=True)]
            cells = [f"{statistics.median(c):.1f} %, {max(c):.0f} %" for c in columns]
            print(f"| {what} | {len(found)} | " + " | ".join(cells) + " |")


def main():
    """Make what is missing, run what has not run, print the card."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--fs", default="ext4-dax,ext4")
    parser.add_argument("--costs", nargs="*", default=[], metavar="FS=TABLE.toml")
    parser.add_argument("--only", default="", help="names of rows, separated by commas")
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    systems = given.fs.split(",")
    names = given.only.split(",") if given.only else [*SINGLE, *WHOLE]
    traces = {name: given.folder / f"{name.replace(' ', '-')}.parquet" for name in names}
    for name, path in traces.items():
        if not path.exists():
            make(name, path)
    measured = measure(traces, systems, given.folder)
    for fs in systems:
        card(fs, traces, measured, dict(pair.split("=", 1) for pair in given.costs))


if __name__ == "__main__":
    main()
