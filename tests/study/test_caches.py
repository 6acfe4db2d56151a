"""The replay that is compared with a guest's stream of cache lines."""

import numpy as np

from scmsim import footprint
from scmsim.core.records import SETUP, SYNC, WRITE
from scmsim.pipeline.arguments import open_source
from scmsim.study.caches.replay import Filled


def test_first_files_are_written_and_synced_before_the_first_call() -> None:
    source, _ = open_source("traces/compile.parquet")
    first, *rest = Filled(source).batches()
    there = np.flatnonzero((source.files.first_size > 0) & ~source.files.is_dir)
    assert first.file.tolist() == [*there.tolist(), -1] and (first.flag == SETUP).all()
    assert first.op.tolist() == [WRITE] * len(there) + [SYNC] and len(there) == 38
    assert first.length[:-1].tolist() == source.files.first_size[there].tolist() and not first.offset[:-1].any()
    assert sum(map(len, rest)) == source.rows


def test_a_trace_without_first_files_stays_unchanged() -> None:
    source, _ = open_source("traces/postmark.parquet")
    assert sum(map(len, Filled(source).batches())) == source.rows


def test_only_footprints_with_lines_choose_calls_by_the_nearest_amount() -> None:
    assert [footprint.load(kernel, "tmpfs", []).state.nearest[0] for kernel in ("6.1-lines", "6.1", "5.10")] == [
        1,
        0,
        0,
    ]
