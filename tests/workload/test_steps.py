"""Runs of equal operations and glibc's streams, against one operation at a time."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scmsim.core.records import READ
from scmsim.workload._stdio import sizes
from scmsim.workload._steps import FIELDS, Stream, from_rows, pieces

step = st.tuples(st.integers(0, 99), st.integers(0, 40), st.integers(0, 7), st.integers(-5, 9), st.integers(0, 3))


class Given(Stream):
    """A stream of given STEPs: (offset, length, unit, stride, buffer_stride)."""

    interval = 10

    def __init__(self, parts):
        self.parts = parts

    def steps(self):
        for part in self.parts:
            yield from_rows(
                [n for o, size, unit, d, b in part for n in (READ, 1, -1, 0, 0, o + 500, size, unit, d, 7, b)]
            )


def one_by_one(parts):
    for part in parts:
        for offset, length, unit, stride, buffer_stride in part:
            offset, buffer = offset + 500, 7
            while True:
                yield offset, min(length, unit) if unit else length, buffer
                length -= unit
                if not unit or length <= 0:
                    break
                offset, buffer = offset + stride, buffer + buffer_stride


@given(st.lists(st.lists(step, max_size=8), max_size=5), st.integers(1, 20))
def test_expansion(parts, chunk):
    work = Given(parts)
    batches = list(work.batches(chunk))
    found = [(int(r.offset), int(r.length), int(r.buffer)) for batch in batches for r in batch]
    assert found == list(one_by_one(parts)) and len(found) == work.rows
    assert [int(t) for batch in batches for t in batch.time_ns] == [10 * i for i in range(len(found))]


def test_every_run_is_at_least_one_operation():
    rows = from_rows([0] * 3 * len(FIELDS))
    rows["unit"], rows["length"] = [0, 4, 4], [9, 0, 9]
    assert pieces(rows).tolist() == [1, 1, 3]


@given(st.integers(0, 100_000), st.integers(1, 40_000))
def test_streams_move_every_byte_once_in_whole_buffers(length, block):
    cut = sizes(length, block)
    assert sum(cut) == length and all(size % 4096 == 0 for size in cut[:-1]) and all(cut)
    assert max(cut, default=0) <= max(4096, block)


def test_streams_as_strace_showed_them():
    """29,612 bytes in fread and fwrite calls of 10,000, and in small ones."""
    assert sizes(29_612, 10_000) == [8192, 4096, 4096, 4096, 8192, 940]
    assert sizes(9_000, 700) == [4096, 4096, 808] and sizes(4096, 4096) == [4096]
    assert np.sum(sizes(0, 512)) == 0
