"""fio's random map against a set of blocks, and the rest of a job that only long runs show."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scmsim.core.records import CLOSE, DATA_ONLY, FSYNC, OPEN, READ, SETUP, WRITE, joined
from scmsim.workload import fio
from scmsim.workload._fio_file import parse
from scmsim.workload._fio_state import State, jhash, seeded, seeds, spans, start
from scmsim.workload.kernels import fio_job
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
@example(1)
@example(32)
@example(33)
@example(1024)
@example(1025)
def test_random_map(blocks):
    work = fio.Workload(options=f"rw=randwrite bs=512 size={512 * blocks}")
    batch = joined(list(work.batches()))
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
    "rw=read bs=4k size=48k offset=8k io_size=100k", "rw=rw bs=4k size=96k offset=4k nrfiles=2 io_size=200k",
    "rw=randread bsrange=1k-4k size=100k offset=12k norandommap", "rw=write bsrange=3k-8k size=70k io_size=150k",
    "rw=randwrite bsrange=3k-8k size=70k io_size=150k offset=4k nrfiles=2",
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


def skewed(kind, number, ranges, words, center):
    """Ranks by Gray et al., or by Pareto's distribution; hashed with the golden ratio and shifted."""
    numbers = taus88(list(words))
    first = next(numbers)
    shift = first if center is None else int(ranges * center)
    total = sum(1 / rank**number for rank in range(1, ranges + 1)) if kind == "zipf" else 0
    while True:
        part = next(numbers) / (2**32 - 1)
        if kind == "pareto":
            rank = int((ranges - 1) * part ** (math.log(number) / math.log(1 - number)))
        elif part * total < 1:
            rank = 0
        elif part * total < 1 + 0.5**number:
            rank = 1
        else:
            slope = (1 - (2 / ranges) ** (1 - number)) / (1 - (1 + 0.5**number) / total)
            rank = int(ranges * (slope * part - slope + 1) ** (1 / (1 - number)))
        yield (rank * 0x61C8864680B583EB + shift) % 2**64 % ranges


@pytest.mark.parametrize("center", [None, 0.25])
@pytest.mark.parametrize(("kind", "number"), [("zipf", 0.6), ("zipf", 1.4), ("pareto", 0.2), ("pareto", 0.7)])
def test_skewed_blocks(kind, number, center):
    where = f"{kind}:{number}" + (f":{center}" if center else "")
    options = f"rw=randread bs=4k size=1000k io_size=2m offset=8k random_distribution={where}"
    (job,) = parse("[job]\n" + "\n".join(options.split()))
    batch = np.concatenate(list(fio.Workload(options=options).steps()))
    found = batch["offset"][(batch["flag"] & SETUP == 0) & (batch["op"] == READ)].tolist()
    blocks = skewed(kind, number, 250, seeded(jhash(job.paths()[0].encode())), center)
    assert len(found) == 512 and found == [8192 + 4096 * next(blocks) for _ in found]


def test_an_lfsr_that_has_drawn_all_ends_the_file():
    work = fio.Workload(options="rw=randread bs=1k size=40k nrfiles=2 io_size=100k random_generator=lfsr")
    batch = np.concatenate(list(work.steps()))
    batch = batch[batch["flag"] & SETUP == 0]
    for file in set(batch["file"].tolist()):
        mine = batch[batch["file"] == file]
        parts = np.split(mine, np.flatnonzero(mine["op"] == OPEN)[1:])
        offsets = [sorted(part["offset"][part["op"] == READ].tolist()) for part in parts]
        assert offsets[:2] == [list(range(0, 20 << 10, 1024))] * 2 and len(set(offsets[2])) == len(offsets[2]) == 10


@pytest.mark.parametrize("options", JOBS)
def test_how_many_rows_are_made_at_once_does_not_matter(options):
    (job,) = parse("[job]\n" + "\n".join(options.split()))
    found = []
    for room in (1000, 5, fio_job.ROOM):
        state, rows = State(job, [start(job) + span for span in spans(job)]), []
        for _ in range(3000):
            out = np.zeros((room, 4), np.int64)
            count, ended = fio_job.fill(state.job, state.files, state.maps, out)
            assert ended or room - fio_job.ROOM < count <= room
            rows += out[:count].tolist()
            if ended:
                break
        found.append(rows)
    assert found[0] == found[1] == found[2] and 6 < len(found[0]) < 3000
