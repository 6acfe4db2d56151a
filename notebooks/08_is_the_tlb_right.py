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
# # Is the TLB right?
# A replay says how often the TLB misses. A real kernel can be asked: 40 calls of a mail server ran on ext4-DAX under Debian's 6.1 kernel in
# the emulated machine (docs/guide/lab.md), and every load and store was kept. The stream is shipped (70 KB). It goes through the same MMU model as the replay's
# events, so what differs is what the MMU is given.

# %%
import pathlib
import shutil
import tempfile

import altair as alt
import pandas as pd

import scmsim
from scmsim.compare import compare
from scmsim.plot import notebook
from scmsim.plot.tlb import chart
from scmsim.study.tlb import card
from scmsim.study.tlb.judge import judge
from scmsim.study.tlb.results import measured

notebook.enable()  # pictures that stay in the notebook, in the report's colours

# %%
data = pathlib.Path("../tests/data/lab")
trace = str(data / "mail.parquet")
machines = ["i7-8700k", "zen2", "ice-lake-sp"]


def judged(footprints):
    folder = tempfile.mkdtemp()
    shutil.copy(data / "ext4-dax-1.runs.parquet", folder)
    return judge(trace, folder, ["ext4-dax"], machines, footprints=[footprints], progress=lambda *_: None)


without, with_them = judged(None), judged("6.1")

# %% [markdown]
# ## Without footprints, next to nothing
# A model of a file system says where data and metadata lie. The kernel's stacks, slab objects and per-CPU data are not in it, and they are nearly all of a real kernel's misses.


# %%
def rows(made):
    for cell in made["cells"]:
        for column in card.BOUNDS:
            told = card.of(cell, "kernel", column)
            yield cell["machine"], column, told["real"], told["replay"], told["verdict"]


names = ["machine", "kernel side", "real", "replay", "verdict"]
pd.DataFrame(rows(without), columns=names)

# %% [markdown]
# ## With footprints
# `footprints="6.1"` puts between a model's events what measured calls of the same kind touched. They were measured on other calls than these 40.

# %%
pd.DataFrame(rows(with_them), columns=names)

# %%
alt.Chart.from_dict(chart(with_them["cells"]).spec)

# %% [markdown]
# Forty calls are few, and where objects lie moves a real count by half. The whole card, docs/validation/tlb.md, has five file systems, five machines and four workloads.
#
# ## Where the misses are

# %%
cell = with_them["cells"][0]
by_region = pd.DataFrame(
    [{"side": side, **row} for side in ("real", "replay") for row in cell[side] if row["region"] != "program"]
)
by_region.pivot_table(index=["region", "page"], columns="side", values=["l1_misses", "walks"], aggfunc="sum").fillna(
    0
).astype(int)

# %% [markdown]
# ## As a measurement
# The card is a result as one of `perf` is, so `compare` takes it, and its tolerances come from the card of whole workloads.

# %%
replayed = scmsim.replay(trace, "ext4-dax", footprints="6.1", params={"linux": {"user_page": "2MiB"}})
found = compare(replayed, measured(with_them, ["i7-8700k"]))
pd.DataFrame([(row.quantity, row.simulated, row.measured, row.ratio, row.verdict) for row in found.rows],
             columns=["a call", "simulated", "measured", "ratio", "verdict"])  # fmt: skip

# %% [markdown]
# ## Another machine's memory, and what else runs
# How a kernel maps its DRAM stands in `/proc/meminfo`; what else takes room in the TLB are the tables of `scmsim list system`.

# %%
large = {"linux": {"user_page": "2MiB", "direct_4k": "28MiB", "direct_2m": "2020MiB", "direct_1g": "24GiB"}}
cases = {
    "as the lab's guest": {},
    "92 % of DRAM on 1 GiB pages": {"params": large},
    "timer, program, KPTI": {"system": "debian-6.1-kpti"},
    "Linux 4.1, no PCIDs": {"system": "thesis"},
}
found = {
    name: scmsim.replay(trace, "ext4-dax", footprints="6.1", **given).runs[0].metrics for name, given in cases.items()
}
shown = ["dtlb_lookups", "dtlb_kernel_l1_misses", "dtlb_kernel_walks", "tlb_traffic"]
pd.DataFrame({name: [metrics[key] for key in shown] for name, metrics in found.items()}, index=shown).T
