"""fio's random map against a set of blocks, and the rest of a job that only long runs show."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.records import CLOSE, DATA_ONLY, FSYNC, OPEN, READ, SETUP, WRITE
from scmsim.workload import fio
from scmsim.workload._fio_file import parse
from scmsim.workload._fio_state import seeded, seeds, spans, start
from tests.conftest import NO_JIT
from tests.reference.fio_slow import Job, taus88


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


JOBS = [
    "rw=read bs=4k size=50k", "rw=write bs=4k size=50k fsync=3 fdatasync=2 nrfiles=3",
    "rw=rw bs=4k size=200k rwmixread=30 nrfiles=2",
    "rw=randrw bs=4k size=300k rwmixread=70 nrfiles=4 file_service_type=random:3", "rw=randwrite bsrange=1k-9k size=200k",
    "rw=randread bsrange=1k-4k size=200k norandommap",
    "rw=randrw bsrange=512-4k size=100k nrfiles=3 file_service_type=sequential",
    "rw=randwrite bs=4k size=80k io_size=300k offset=8k", "rw=randwrite bs=1k size=30k number_ios=7",
    "rw=randrw bs=2k,4k size=120k file_service_type=roundrobin:5 nrfiles=5", "rw=write bsrange=1k-8k size=70k fdatasync=4",
    "rw=randwrite bs=512 size=600k nrfiles=2", "rw=rw bs=4k,8k size=128k rwmixread=50 number_ios=20",
]  # fmt: skip


@pytest.mark.parametrize("options", JOBS)
def test_the_first_pass_of_a_job(options):
    (job,) = parse("[job]\n" + "\n".join(options.split()))
    work = fio.Workload(options=options)
    batch = np.concatenate(list(work.steps()))
    batch = batch[batch["flag"] & SETUP == 0]
    words = {name: seeded(seed) for name, seed in seeds(job).items()}
    files = [(start(job), span, end) for span, end in zip(spans(job), work.ends[0], strict=True)]
    ids = {file: number for number, file in enumerate(work.ids[0].tolist())}
    ops = {READ: "read", WRITE: "write", FSYNC: "fsync", OPEN: "open", CLOSE: "close"}
    found = [
        (
            "fdatasync" if step["flag"] & DATA_ONLY else ops[step["op"]],
            ids[int(step["file"])],
            int(step["offset"]),
            int(step["length"]),
        )
        for step in batch
    ]
    expected = list(Job(job, words, files).rows())
    assert len(expected) > 6 and found[: len(expected)] == expected
