"""Page faults of the models beside those of a real kernel, but where its allocator aligned only some extents."""

import csv
import pathlib

import pytest

from scmsim.core import records as r
from scmsim.core.units import parse_bytes
from tests.fs import drive

BYTES = 66_064_384
TABLE = pathlib.Path(__file__).parent / "measured_513.csv"
PARAMS = {"aligned": {"data_alignment": "2MiB"}, "huge": {"huge": "always"}}
ROWS = [row for row in csv.DictReader(line for line in TABLE.open() if line[0] != "#") if row["blocks"] != "partly"]


def made(fs, row):
    """A model with the file 1, written as `row` says and synced."""
    capacity = {} if fs == "tmpfs" else {"capacity": "2GiB"}
    model = drive.Model(fs, drive.files(0, -1, dirs=[0]), 1 << 14, **capacity, **PARAMS.get(row["blocks"], {}))
    how, _, unit = row["made"].partition(" ")
    step = parse_bytes(unit) if unit else BYTES
    model.feed(
        drive.ops(
            ("create", 1, 0, 0, 0), *((how, 1, at, min(step, BYTES - at)) for at in range(0, BYTES, step)), ("fsync", 1)
        )
    )
    return model


def faults(model, *rows):
    """Page faults of some operations."""
    events = model.feed(drive.ops(*rows))
    return int(((events.code == r.MAP) & (events.space == r.USER)).sum())


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row[name] for name in ("fs", "made", "from")))
def test_faults_are_those_of_linux(row):
    start = int(row["from"])
    span = (1, start, BYTES - start)
    first = ("mmap", *span, -1, r.WRITABLE_SHARED)
    assert faults(made(row["fs"], row), first, ("load", *span)) == int(row["load"])
    if row["store"]:
        model = made(row["fs"], row)
        assert faults(model, first, ("store", *span)) == int(row["store"])
        assert faults(model, ("msync", *span), ("store", *span)) == int(row["store_after_msync"])


def test_the_rows_without_a_model_are_few():
    lines = [line for line in TABLE.open() if line[0] not in "#f"]
    assert len(lines) - len(ROWS) == 2
