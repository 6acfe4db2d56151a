# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Map the database, or read it?
# LMDB maps its file and loads from it. Would `pread` be better? The answer depends on the size of the pages that the mapping gets, which no
# trace of system calls shows. `traces/mapped/lmdb-get.parquet` has every load: 1,000 random look-ups in 40,000 keys, captured with
# `scmsim capture --backend lackey` (no root, no hardware).

# %%
import collections
import pathlib
import tempfile

import numpy as np
import pandas as pd

import scmsim
from scmsim.core.records import CLOSE, OPEN, READ, ULOAD, joined
from scmsim.trace import TraceWriter, open_trace

stored = open_trace("../traces/mapped/lmdb-get.parquet")
rows = joined(list(stored.batches()))
data = next(i for i, path in enumerate(stored.files.path) if path.endswith("data.mdb"))
rows = rows[rows["file"] == data]
loads = rows[rows["op"] == ULOAD]
pages = loads["offset"] // 4096
visits = pages[np.append(True, pages[1:] != pages[:-1])]
print(
    f"{len(loads):,} loads in {len(visits):,} visits to {len(np.unique(pages)):,} of {stored.files.first_size[data] // 4096:,} pages"
)

# %% [markdown]
# Three pages a look-up: the root, a branch, a leaf. Within a page, a binary search.
#
# ## The same look-ups with `pread`
# A program that reads keeps pages itself. `kept` is how many it can keep; the least recently used one goes. With 1 it reads again
# whenever the page changes.

# %%
folder = pathlib.Path(tempfile.mkdtemp())


def write(name, records):
    """A trace of the same file."""
    with TraceWriter(folder / f"{name}.parquet", {}) as writer:
        writer.append(records)
        writer.close(stored.files)
    return folder / f"{name}.parquet"


def as_reads(kept):
    """The visits to pages that are not kept, a read of 4 KiB each."""
    held, wanted = collections.OrderedDict(), []
    for page in visits.tolist():
        if page not in held:
            wanted.append(page)
        held[page] = None
        held.move_to_end(page)
        if len(held) > kept:
            held.popitem(last=False)
    reads = np.zeros(len(wanted), rows.dtype)
    reads["op"], reads["file"], reads["file2"], reads["length"] = READ, data, -1, 4096
    reads["offset"] = np.array(wanted) * 4096
    out = joined([rows[rows["op"] == OPEN][:1], reads, rows[rows["op"] == CLOSE][-1:]])
    out["time_ns"] = np.arange(len(out))  # the capture has no times
    return out


traces = {"mmap": write("mmap", rows)} | {f"pread, {n} kept": write(f"pread-{n}", as_reads(n)) for n in (1, 64, 1024)}

# %% [markdown]
# ## Replay
# Once on a device whose first block of data lies anywhere, once on one where it lies at a multiple of 2 MiB.

# %%
found = []
for alignment in (0, 2 << 20):
    for name, trace in traces.items():
        params = {fs: {"data_alignment": alignment} for fs in ("ext4-dax", "xfs-dax")} if alignment else None
        for run in scmsim.replay(trace, "ext4-dax,xfs-dax", params=params).runs:
            count = run.counters
            found.append(
                {
                    "file system": run.fs,
                    "device": "aligned to 2 MiB" if alignment else "as it comes",
                    "way": name,
                    "faults of 4 KiB": count["page_faults_pte"],
                    "faults of 2 MiB": count["page_faults_pmd"],
                    "walks": count["dtlb_load_misses_walk_completed"] + count["dtlb_store_misses_walk_completed"],
                    "instructions of the kernel": count["instructions"],
                    "bytes from the medium": count["pm_loaded_bytes"],
                }
            )
table = pd.DataFrame(found)
table

# %% [markdown]
# ## What it says
# - **A fault costs more than a `pread` of a page** (some 4,000 and 1,660 instructions on ext4-dax, the first measured on Linux 6.1, the second on 5.13),
#   but a page faults once, and `pread` pays at each visit to a page that is not kept. Mapping by 4 KiB takes fewer instructions than a program
#   that keeps one page, and more than one that keeps 64.
# - **It moves fewer bytes.** A binary search loads a dozen words of a page; `pread` copies all 4 KiB.
# - **`pread` walks less.** The kernel copies through its own mapping, whose pages are large; the program's mapping of 4 KiB pages misses the TLB at almost every
#   page that it visits first.
# - **Aligned, the mapping loses that, too.** Nearly all faults and walks go: some 2 MiB pages hold the whole database. So the question for a mapped
#   database is where its extents begin (`scmsim replay --set ext4-dax.data_alignment=2MiB`), not `mmap` or `pread`.
# - A program that keeps as many pages as it visits reads each of them once, too: then it pays a copy of 4 KiB and a call in place of a fault.
#
# Time is not compared here: which loads the processor's caches would take is not modelled. Instructions of faults are
# fitted to what ext4-dax and xfs-dax of Linux 6.1 took (docs/guide/mapped.md); that each page faults once, and with which size, is exact.

# %%
for fs, rest in table[table.device == "as it comes"].groupby("file system"):
    mapped, read = (rest[rest.way == way].iloc[0] for way in ("mmap", "pread, 1 kept"))
    print(
        f"{fs}: pread takes {read['instructions of the kernel'] / mapped['instructions of the kernel']:.1f} times the instructions"
    )
