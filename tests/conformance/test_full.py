"""On a device that fills up, a write that a model shortens is done with that length: it is not refused afterwards."""

from collections.abc import Iterator

import numpy as np
import pytest

from scmsim.core.records import WRITE
from tests.conformance.test_fs import SYSTEMS
from tests.conftest import NO_JIT
from tests.fs import drive, laws
from tests.golden.options import LARGER, OTHERWISE, SMALL, THIRD

FILES = 7
KINDS = ["write"] * 12 + ["close"] * 4 + ["fallocate", "truncate", "unlink", "create"]


def rows(seed: int) -> Iterator[tuple]:
    """Calls that fill a small device, many of them on a file that was closed, and many across a boundary of 2 MiB."""
    random = np.random.default_rng(seed)
    yield from (("create", file, 0, 0, 0) for file in range(1, FILES))
    for _ in range(60):
        kind, file = str(random.choice(KINDS)), int(random.integers(1, FILES))
        piece, before = int(random.integers(0, 3)) << 21, int(random.choice([0, 10, 5000, 1 << 20]))
        length = int(random.choice([100, 9000, 300_000, 1 << 21, 3 << 20, 1 << 24]))
        if kind in ("write", "fallocate"):
            yield kind, file, max(piece - before, 0), length
        elif kind == "truncate":
            yield kind, file, piece + before
        else:
            yield kind, file, 0, 0, -1 if kind == "close" else 0


@pytest.mark.parametrize("fs", [fs for fs in SYSTEMS if fs in SMALL])
def test_a_shortened_write_is_done(fs: str) -> None:
    """`failed_bytes` counts the bytes of refused writes, and those that short writes did not write."""
    for seed in range(5 if NO_JIT else 60):
        capacity, params = (SMALL, LARGER)[seed & 1].get(fs, SMALL[fs]), ({}, OTHERWISE, THIRD)[seed % 3].get(fs, {})
        model = drive.Model(fs, drive.files(0, *[-1] * (FILES - 1), dirs=[0]), **{"capacity": capacity, **params})
        batch = drive.ops(*rows(seed))
        model.feed(batch)
        assert not set(model.short) & set(model.refused), seed
        assert all(0 < length < batch[row].length for row, length in model.short.items()), seed
        refused = sum(int(batch[row].length) for row in model.refused if batch[row].op == WRITE)
        cut = sum(int(batch[row].length) - length for row, length in model.short.items())
        assert int(model.record.failed_bytes) == refused + cut, seed
        laws.space(model.space())
