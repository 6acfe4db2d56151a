"""The classic benchmarks against the programs on this machine, where they are installed: postmark and fio under strace."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from scmsim.core.records import OFFSET_UNKNOWN, OPS, SETUP, joined
from scmsim.trace import open_trace
from scmsim.workload import fio, postmark


def needs(*programs):
    """Skip where a program is missing or strace may not trace."""
    for program in (*programs, "strace"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    if subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True).returncode:
        pytest.skip("strace may not trace here")


def rows_of(batch, files, wanted):
    return [
        (
            OPS[r["op"]],
            wanted(files.path[r["file"]]),
            int(r["offset"]),
            int(r["length"]),
            int(r["flag"]) & ~(OFFSET_UNKNOWN | SETUP),
        )
        for r in batch
        if r["file"] >= 0 and wanted(files.path[r["file"]]) is not None
    ]


def traced(folder: pathlib.Path, command, wanted):
    """What a command asked of the files that `wanted` names, through the strace importer."""
    text, trace = folder / "t.strace", folder / "t.parquet"
    subprocess.run(["strace", "-f", "-s", "0", "-y", "-o", text, *command], check=True, capture_output=True, cwd=folder)
    subprocess.run(
        [sys.executable, "-m", "scmsim", "trace", "convert", text, trace], check=True, capture_output=True, cwd=folder
    )
    stored = open_trace(trace)
    return rows_of(joined(list(stored.batches())), stored.files, wanted)


def generated(work, wanted):
    return rows_of(joined(list(work.batches())), work.files, wanted)


@pytest.mark.parametrize("transactions", [500, pytest.param(20_000, marks=pytest.mark.slow)])
def test_postmark(tmp_path, transactions):
    needs("postmark")
    pool = tmp_path / "pool"
    pool.mkdir()
    (tmp_path / "cfg").write_text(f"set location {pool}\nset transactions {transactions}\nrun\nquit\n")

    def below(top):
        return lambda path: path.removeprefix(top) if path.startswith(f"{top}/") else None

    real = traced(tmp_path, ["postmark", "cfg"], below(str(pool)))
    assert generated(postmark.Workload(transactions=transactions), below("/postmark")) == real


@pytest.mark.parametrize(
    "options",
    [
        "rw=randrw size=1m bs=4k fsync=7 nrfiles=3",
        "rw=randwrite size=2m bs=1k random_distribution=zipf:1.1",
        "rw=randread size=1000k bsrange=1k-32k loops=2",
    ],
)
def test_fio(tmp_path, options):
    needs("fio")
    version = subprocess.run(["fio", "--version"], capture_output=True, text=True).stdout
    if not version.startswith("fio-3.3"):
        pytest.skip(f"the model is fio 3.33, here is {version.strip()}")

    def own(path):
        return os.path.basename(path) if os.path.basename(path).startswith("job.") else None

    command = ["fio", "--name=job", "--thread", *[f"--{option}" for option in options.split()]]
    real = [row for row in traced(tmp_path, command, own) if row[0] != "stat"]  # it looks at its files in between
    assert generated(fio.Workload(options=options), own) == real
