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
# # A first replay
# A small real trace (SQLite loading a table) on three file systems, and what small appends cost each of them.

# %%
import pathlib

import scmsim
from scmsim.workload.microbench import Workload

trace = pathlib.Path("../traces/sqlite-load.parquet")
result = scmsim.replay(trace, fs="ext4,ext4-dax,nova-cow", machine="i7-8700k", medium="optane")
result

# %% [markdown]
# Every mechanism inside a file system is a *site*. Which of them store bytes?

# %%
sites = result.to_frame("site").pivot_table(index="site", columns="fs", values="pm_stored_bytes", aggfunc="sum")
sites[sites.sum(axis=1) > 0].sort_values("nova-cow", ascending=False)

# %% [markdown]
# Appends of different sizes: NOVA with copy-on-write rewrites a whole block for each small append, ext4-DAX zeroes a block before
# it is written. Write amplification is bytes stored by payload bytes.

# %%
units = [512, 1024, 2048, 4096, 16384]
rows = []
for unit in units:
    runs = scmsim.replay(Workload(op="append", unit=unit, total=1 << 20), fs="nova-cow,nova-inplace,ext4-dax").runs
    rows += [{"unit": unit, "fs": run.fs, "write amplification": run.metrics["write_amplification"]} for run in runs]

import pandas as pd  # noqa: E402

pd.DataFrame(rows).pivot(index="unit", columns="fs", values="write amplification").round(2)

# %% [markdown]
# By default memory is mapped as a Linux kernel does (`linux`), with persistent memory on the largest pages that fit. The same trace on
# pages of one size:

# %%
for paging in ("linux", "directmap-1g", "directmap-2m", "base-4k"):
    run = scmsim.replay(trace, fs="nova-cow", paging=paging).runs[0]
    walks = run.counters["dtlb_load_misses_walk_completed"] + run.counters["dtlb_store_misses_walk_completed"]
    print(f"{paging:14s} {walks:8,d} data page walks")
