"""fio's random map against a set of blocks, and the rest of a job that only long runs show."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.records import SETUP, WRITE
from scmsim.workload import fio
from scmsim.workload._fio_state import seeded
from tests.conftest import NO_JIT


def taus88(words):
    """L'Ecuyer's generator with Python's integers, from its recurrences."""
    while True:
        for i, (k, q, s, keep) in enumerate(((13, 19, 12, ~1), (2, 25, 4, ~7), (3, 11, 17, ~15))):
            z = words[i]
            mixed = ((z << k & 0xFFFFFFFF) ^ z) >> q
            words[i] = ((z & keep & 0xFFFFFFFF) << s & 0xFFFFFFFF) ^ mixed
        yield words[0] ^ words[1] ^ words[2]


def slow_order(blocks):
    """Each block once: where the drawn one is taken, the next free one upwards, round the end."""
    numbers, done = taus88(seeded(0xB1899BED)), set()
    for _ in range(blocks):
        block = int(blocks * (next(numbers) / 2**32))
        while block in done:
            block = (block + 1) % blocks
        done.add(block)
        yield block


@settings(max_examples=3 if NO_JIT else 40)
@given(st.one_of(st.integers(1, 200), st.integers(1000, 1100), st.integers(1, 5000)))
def test_random_map(blocks):
    work = fio.Workload(options=f"rw=randwrite bs=512 size={512 * blocks}")
    batch = np.concatenate(list(work.batches()))
    batch = batch[(batch["flag"] & SETUP == 0) & (batch["op"] == WRITE)]
    assert (batch["offset"] // 512).tolist() == list(slow_order(blocks))
