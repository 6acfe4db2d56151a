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
# # Bring your own trace
# Any program can be captured (`scmsim capture -o mine.parquet -- PROGRAM`), and many trace formats can be read (`scmsim trace convert`).
# This notebook takes the stored capture of a mail server; put your own file in its place.

# %%
import pathlib

import altair as alt
import pandas as pd

import scmsim
from scmsim.mmu import mrc, order_of
from scmsim.pipeline import touches
from scmsim.plot import notebook
from scmsim.trace import open_trace

notebook.enable()  # pictures that stay in the notebook, in the report's colours
trace = pathlib.Path("../traces/varmail.parquet")
stored = open_trace(trace)
print(f"{stored.rows:,} operations on {len(stored.files):,} files; captured by: {stored.header.get('tool')}")

# %% [markdown]
# Which operations are in it, and how large are the transfers?

# %%
from scmsim.core.records import OPS  # noqa: E402

operations = pd.concat(pd.DataFrame({"op": batch.op, "length": batch.length}) for batch in stored.batches())
operations["op"] = operations["op"].map(dict(enumerate(OPS)))
operations.groupby("op")["length"].agg(["count", "median", "max", "sum"]).sort_values("count", ascending=False)

# %% [markdown]
# ## Replay, by file

# %%
result = scmsim.replay(trace, "ext4-dax,nova-cow,pmfs-4k", by="file")
result

# %%
files = result.to_frame("group")
files["traffic"] = files["mem_inst_retired_all_loads"] + files["mem_inst_retired_all_stores"]
files[files.fs == "nova-cow"].nlargest(8, "traffic")[["group", "traffic", "pm_stored_bytes", "fences"]]

# %% [markdown]
# ## How large a TLB would help?
# The miss-ratio curve of all page touches of the replay, exact for every capacity:

# %%
rows = []
for fs in ("ext4-dax", "nova-cow"):
    for page in ("4KiB", "2MiB"):
        curve = mrc.Curve(order_of(page))
        for part in touches(trace, fs):
            curve.add(part)
        entries = [1 << k for k in range(16) if 1 << k < curve.pages]
        rows += [
            {"what": f"{fs}, {page} pages", "entries": n, "miss ratio": misses / curve.accesses}
            for n, misses in zip(entries, curve.misses(entries), strict=True)
        ]
alt.Chart(pd.DataFrame(rows)).mark_line(point=True).encode(
    x=alt.X("entries:Q", scale=alt.Scale(type="log", base=2)),
    y=alt.Y("miss ratio:Q", scale=alt.Scale(type="log")),
    color="what:N",
    strokeDash="what:N",
).properties(width=480, height=260)
