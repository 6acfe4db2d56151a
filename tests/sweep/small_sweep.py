"""Write, run and read small sweeps."""

import pathlib

import pyarrow.parquet
from click.testing import CliRunner

from scmsim import cli

SMALL = """
[fixed.workload]
kind = "ageing"
capacity = "1MiB"
utilisation = 60
turnover = 1
dirs = 1
[axes]
policy = ["two-zone", "one-zone", "tps", "pages-4k"]
"set.two-zone.threshold" = ["64KiB", "256KiB"]
"workload.seed" = { from = 1, to = 6, step = 1 }
"""
POINTS = 5 * 6  # of SMALL


def write(folder, text, name="sweep-t.toml"):
    """Write a file of a sweep; return its path."""
    path = folder / name
    path.write_text(text)
    return path


def invoke(*args):
    """Run `scmsim sweep` with these arguments."""
    return CliRunner().invoke(cli.main, ["sweep", *map(str, args)])


def table(folder):
    """Return the table of a sweep's results."""
    return pyarrow.parquet.read_table(pathlib.Path(folder) / "results.parquet")
