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
# # Why superpages help, and what they waste
# SCMFS keeps every file contiguous in virtual memory and finds its blocks by the page table alone. On 4 KiB pages that misses the TLB; on
# 2 MiB pages the end of every file is wasted. Its variant with superpages starts files on small pages and moves the large ones.

# %%
import altair as alt
import pandas as pd

import scmsim
from scmsim.plot import notebook
from scmsim.result.metrics import space_waste
from scmsim.workload import iozone, postmark

notebook.enable()  # pictures that stay in the notebook, in the report's colours

# %% [markdown]
# ## Misses
# The machine of the paper: a Core 2 Quad with a two-level TLB of 4 KiB and 2 MiB entries. Two workloads: IOzone's random writes into
# one large file, and Postmark's many small ones.

# %%
work = {
    "iozone": iozone.Workload(max_file=16 << 20, tests="0,2"),
    "postmark": postmark.Workload(transactions=150, files=60, size_low=4 << 10, size_high=8 << 20, buffering=0),
}
rows = []
for name, source in work.items():
    for run in scmsim.replay(source, "scmfs,scmfs-lp", "core2-q8200").runs:
        rows.append(
            {
                "workload": name,
                "fs": run.fs,
                "walks per 1000 instructions": run.metrics["walks_per_1000_instructions_data"],
            }
        )
frame = pd.DataFrame(rows)
frame

# %%
alt.Chart(frame).mark_bar().encode(
    x=alt.X("walks per 1000 instructions:Q"), y=alt.Y("fs:N", title=None), row=alt.Row("workload:N", title=None)
).properties(width=420, height=60, title="Page walks for data per 1000 instructions")

# %% [markdown]
# ## Waste
# What a page size wastes depends on the sizes of the files alone. Log-normal sizes with a median of 16 KiB, as small files have:

# %%
import numpy as np  # noqa: E402

sizes = np.random.default_rng(1).lognormal(np.log(16 << 10), 2.0, 20_000).astype(int) + 1
pages = {"4 KiB": 4 << 10, "64 KiB": 64 << 10, "2 MiB": 2 << 20, "1 GiB": 1 << 30}
waste = pd.DataFrame(
    [
        {"page": page, "waste per byte of data": sum(space_waste(int(size), order) for size in sizes) / sizes.sum()}
        for page, order in pages.items()
    ]
)
waste

# %%
alt.Chart(waste).mark_point(filled=True, size=120).encode(
    x=alt.X("waste per byte of data:Q", scale=alt.Scale(type="log")), y=alt.Y("page:N", sort=list(pages), title="page")
).properties(width=420, height=130, title="Bytes wasted for each byte of data")
