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
# # The thesis' study, simulated and measured
# One microbenchmark, ext4, ext4-DAX and NOVA, units from 1 KiB to 4 MiB: how many loads and stores does a byte cost, and where do they
# come from? Then the same matrix is measured with the harness on whatever this machine has.

# %%
import pathlib
import subprocess
import sys
import tempfile

import altair as alt
import pandas as pd

import scmsim
from scmsim.plot import notebook, theme
from scmsim.workload import microbench

notebook.enable()  # pictures that stay in the notebook, in the report's colours

# %%
rows, sites = [], []
for unit in [1 << k for k in range(10, 23, 2)]:
    work = microbench.Workload("append", unit, 32 << 20)
    for run in scmsim.replay(work, "ext4,ext4-dax,nova-fast16", "i7-8700k-thesis").runs:
        rows.append({"fs": run.fs, "unit, KiB": unit >> 10, "traffic per KiB": run.metrics["tlb_traffic"] / (32 << 10)})
        if unit == 1 << 10:
            sites += [
                {
                    "fs": run.fs,
                    "site": site,
                    "traffic per call": (c["mem_inst_retired_all_loads"] + c["mem_inst_retired_all_stores"])
                    / run.calls,
                }
                for site, c in run.sites.items()
            ]
frame = pd.DataFrame(rows)
alt.Chart(frame).mark_line(point=True).encode(
    x=alt.X("unit, KiB:Q", scale=alt.Scale(type="log", base=2)),
    y=alt.Y("traffic per KiB:Q", scale=alt.Scale(type="log")),
    color="fs:N",
    strokeDash="fs:N",
).properties(width=480, height=260, title="Loads and stores per KiB appended (the thesis' TLB traffic)")

# %% [markdown]
# Where the traffic of 1 KiB appends comes from, as a profile by symbol would show it:

# %%
causes = pd.DataFrame(sites)
largest = list(causes.groupby("site")["traffic per call"].sum().nlargest(8).index)
causes["site"] = causes["site"].where(causes["site"].isin(largest), "other")
names = [*largest, "other"]
causes = causes.groupby(["fs", "site"], as_index=False)["traffic per call"].sum()
alt.Chart(causes).mark_bar().encode(
    x=alt.X("traffic per call:Q", stack="zero"),
    y=alt.Y("fs:N", title=None),
    color=alt.Color("site:N", scale=alt.Scale(domain=names, range=theme.colours(names))),
    tooltip=["site", "traffic per call"],
).properties(width=480, height=110)

# %% [markdown]
# ## The log scan
# NOVA of 2016 scans a file's whole log each time it grows. A log doubles up to 256 pages and grows by 256 pages after that. So the scan
# costs an append about the same while the log is short, and rises with the length of the file from then on:

# %%
scan = []
for total in (16 << 20, 64 << 20, 256 << 20):
    run = scmsim.replay(microbench.Workload("append", 1 << 10, total), "nova-fast16", "i7-8700k-thesis").runs[0]
    found = run.sites["log scan"]
    scan.append(
        {
            "appended, MiB": total >> 20,
            "log scan, instructions a call": round(found["instructions"] / run.calls, 1),
            "log scan, loads a call": round(found["mem_inst_retired_all_loads"] / run.calls, 1),
            "log scan, % of instructions": round(100 * found["instructions"] / run.counters["instructions"], 2),
        }
    )
pd.DataFrame(scan)

# %% [markdown]
# ## Measured
# `scmsim perf run` measures the same kind of matrix with perf. Here it uses the software back end (page faults, time), which needs no
# counters of the CPU; with hardware counters leave `--backend` out, and `perf run` writes the same cells as a sweep of the models.

# %%
with tempfile.TemporaryDirectory() as scratch:
    out = pathlib.Path(scratch) / "measured"
    line = [sys.executable, "-m", "scmsim", "perf", "run", "perf-smoke", "--backend", "software", "-o", str(out)]
    done = subprocess.run(line, capture_output=True, text=True)
    print(done.stderr.strip().splitlines()[-1] if done.returncode else "measured")
    measured = scmsim.result.read_all(out) if done.returncode == 0 else None
if measured is not None:
    table = measured.to_frame()
    cell = [column for column in table if column.startswith("cell_")]
    for counter in ("page_faults", "task_clock"):
        table[f"{counter} per call"] = table[counter] / table["calls"]
    shown = table[["fs", *cell, "calls", "page_faults per call", "task_clock per call"]].rename(
        columns={"task_clock per call": "ns on a CPU per call"}
    )
    display(shown.rename(columns=lambda name: name.removeprefix("cell_")).head(8))  # noqa: F821
