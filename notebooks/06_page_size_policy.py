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
# # Design a page-size policy
# Which files should lie on which pages, how much of the device is set aside for large ones, and at what grain should overwrites be copied?
# `scmsim advise` weighs 20,000 combinations for a trace in one pass; `scmsim sweep` replays the interesting ones on whole models.

# %%
import altair as alt
import pandas as pd

import scmsim
from scmsim.core.units import format_bytes
from scmsim.plot import notebook
from scmsim.study.advise.profile import FAR, profile
from scmsim.study.advise.search import OBJECTIVES, advise
from scmsim.study.advise.text import recommendation
from scmsim.workload import postmark

notebook.enable()  # pictures that stay in the notebook, in the report's colours

# %% [markdown]
# ## The front
# A trace of small and large files. Every point is a combination; no other combination is better than a point of the front in all three of
# walk cycles, wasted bytes and write amplification.

# %%
trace = postmark.Workload(
    files=200, transactions=2000, size_low=4 << 10, size_high=8 << 20, buffering=0, read=65536, write=65536
)
advice = advise(profile(trace), "i7-8700k")
print(f"{len(advice.choices):,} combinations, {len(advice.front)} on the front")
print(*recommendation(advice), sep="\n")

# %%
names = ["walk cycles", "wasted bytes", "write amplification"]
everything = pd.DataFrame(advice.costs, columns=names)
front = everything.iloc[advice.front].assign(kind="front")
some = everything.sample(1500, random_state=1).assign(kind="a sample of the others")
shown = pd.concat([some, front])
alt.Chart(shown[(shown["walk cycles"] > 0) & (shown["wasted bytes"] > 0)]).mark_point(filled=True).encode(
    x=alt.X("walk cycles:Q", scale=alt.Scale(type="log"), axis=alt.Axis(format="~s", tickCount=6)),
    y=alt.Y("wasted bytes:Q", scale=alt.Scale(type="log"), axis=alt.Axis(format="~s", tickCount=6)),
    color=alt.Color("kind:N", title=None),
    shape=alt.Shape("kind:N", title=None),
    size=alt.Size("write amplification:Q", scale=alt.Scale(type="log", range=[15, 200])),
).properties(width=480, height=320)


# %%
def limit(size):
    """The longest file of a class; beyond FAR there is none."""
    return "any size" if size >= FAR else format_bytes(size)


rows = [
    {
        "4 KiB pages up to": limit(choice.small),
        "2 MiB pages up to": limit(choice.large),
        "set aside, %": choice.share,
        "copy-on-write": choice.grain,
        **dict(zip(OBJECTIVES, advice.costs[i].round(3), strict=True)),
    }
    for i in advice.front[:12]
    for choice in [advice.choices[i]]
]
pd.DataFrame(rows)

# %% [markdown]
# ## The same on a whole model
# SCMFS with superpages has such a threshold. Moving it changes walks and waste, and the time that migration takes:

# %%
found = []
for threshold in ("256KiB", "1MiB", "2MiB", "4MiB", "64MiB"):
    run = scmsim.replay(trace, "scmfs-lp", params={"scmfs-lp": {"threshold": threshold}}).runs[0]
    found.append(
        {
            "threshold": threshold,
            "walks per call": run.metrics["dtlb_walks"] / run.calls,
            "ns per call (estimate)": run.metrics["estimated_ns_per_call"],
        }
    )
pd.DataFrame(found)

# %% [markdown]
# Larger experiments belong into a file: `scmsim sweep sweep-page-sizes -o sizes` runs every combination of its axes, goes on where it was
# after a crash, and gives one Parquet data set that pandas, DuckDB and Polars read.
