"""Scaling of PMFS, WineFS, NOVA and ext4-dax in `replay --threads`, beside what the authors of Odinfs state of these four.

Run: python -m tests.verification.odinfs_claims

The source is main-claim.md of the artifact of Odinfs (OSDI 2022, github.com/rs3lab/Odinfs), for a machine with 224 cores: which of
six cases of FxMark scale (claim 4), and which file systems are fast at varmail (claim 5).  It has no numbers, so this compares
shapes: whether a station of the model is busy at 224 threads.  FxMark reads the same page again and again, from the caches, so the
medium does not count as a limit of its reads.  Nothing was fitted.
"""

import functools
import pathlib
import tempfile
from typing import Any

import scmsim
from scmsim.pipeline.load import MEDIUM as MEDIUM_NAME
from scmsim.pipeline.load import under_load
from scmsim.trace import TraceWriter
from scmsim.trace.formats.own import ops_csv
from scmsim.workload.microbench import Workload

MODELS = ("ext4-dax", "nova-cow", "pmfs-4k", "winefs-relaxed")
MACHINE, MEDIUM = "skylake-sp", "optane-6"
BLOCK, BLOCKS = 4096, 4096
COUNTS, MOST = (1, 2, 4, 8, 16), 224
FULL = 0.9  # share of the time that a station must serve to be a limit
# case of FxMark: what its calls do, what the threads share, and whether the four file systems scale (claim 4, figure 11)
CASES = {
    "DRBL": ("read", [], True),
    "DRBM": ("read", ["file"], False),
    "DRBH": ("reread", ["file"], False),
    "DWOL": ("overwrite", [], False),
    "DWOM": ("overwrite", ["file"], False),
    "DWAL": ("append", [], False),
}
# Not in the claims; for the locks of creates and unlinks.
OTHERS = {"create, own directory": ("create", []), "create, one directory": ("create", ["directory"])}


@functools.cache
def replayed(fs: str, case: str) -> Any:
    """Return the run of a case's calls by one thread on a model."""
    if case != "create":
        pass_, total, passes = {
            "read": ("read", BLOCK * BLOCKS, 1),
            "reread": ("read", BLOCK, BLOCKS),
            "overwrite": ("rewrite", BLOCK * BLOCKS, 1),
            "append": ("append", BLOCK * BLOCKS, 1),
        }[case]
        return _replay(fs, Workload(pass_, BLOCK, total, passes=passes))
    with tempfile.TemporaryDirectory() as made:
        text, trace = pathlib.Path(made) / "calls.csv", pathlib.Path(made) / "calls.parquet"
        turns = ["create,/d/n", "close,/d/n", "unlink,/d/n"] * BLOCKS
        text.write_text("\n".join(["op,path", "mkdir,/d", *turns]) + "\n", encoding="utf-8")
        with TraceWriter(trace, {}) as writer:
            ops_csv.convert(text, writer)
        return _replay(fs, str(trace))


def _replay(fs: str, source: Any) -> Any:
    return scmsim.replay(source, fs=fs, machine=MACHINE, medium=MEDIUM, by="op", footprints="none").runs[0]


def varmail(fs: str) -> Any:
    """Return the run of the bundled trace of varmail on a model."""
    return _replay(fs, "traces/varmail.parquet")


def speeds(run: Any, shared: list[str]) -> list[float]:
    """Return how many times as fast as one thread 2 to 16 threads are."""
    one, *more = under_load(run, COUNTS, shared)
    return [state.calls_per_ns / one.calls_per_ns for state in more]


def limit(run: Any, shared: list[str], cached: bool) -> str:
    """Return the busiest station of 224 threads, or "-" if none is a limit; `cached`: the data is read from the CPU's caches."""
    (state,) = under_load(run, [MOST], shared)
    busy = {name: share for name, share in state.busy.items() if share >= FULL and not (cached and name == MEDIUM_NAME)}
    return max(busy, key=lambda name: busy[name], default="-")


def main() -> None:
    """Print the figures of the tables of docs/validation/load.md."""
    print(f"| case | file system | {' | '.join(map(str, COUNTS[1:]))} | limit | published: scales | agrees |")
    print("|---" * (len(COUNTS) + 4) + "|")
    agree = 0
    for name, (case, shared, published) in CASES.items():
        for fs in MODELS:
            run = replayed(fs, case)
            where = limit(run, shared, case in ("read", "reread"))
            same = (where == "-") == published
            agree += same
            cells = " | ".join(f"{each:.2f}" for each in speeds(run, shared))
            told = f"{'yes' if published else 'no'} | {'yes' if same else 'no'}"
            print(f"| {name} | {fs} | {cells} | {where} | {told} |", flush=True)
    print(f"{agree} of {len(CASES) * len(MODELS)} agree")
    print(f"| calls | file system | {' | '.join(map(str, COUNTS[1:]))} | limit |\n" + "|---" * (len(COUNTS) + 2) + "|")
    for name, (case, shared) in OTHERS.items():
        for fs in MODELS:
            run = replayed(fs, case)
            cells = " | ".join(f"{each:.2f}" for each in speeds(run, shared))
            print(f"| {name} | {fs} | {cells} | {limit(run, shared, False)} |", flush=True)
    print(
        f"| varmail, thousand calls/s | {' | '.join(map(str, COUNTS))} | limit |\n" + "|---" * (len(COUNTS) + 2) + "|"
    )
    for shared in ([], ["directory"]):
        for fs in MODELS:
            run = varmail(fs)
            cells = " | ".join(f"{1e6 * state.calls_per_ns:,.0f}" for state in under_load(run, COUNTS, shared))
            print(f"| {fs}{', one directory' * bool(shared)} | {cells} | {limit(run, shared, False)} |", flush=True)


if __name__ == "__main__":
    main()
