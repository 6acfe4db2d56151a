"""Plan the range that a fio job uses in each of its files, and the size of each file.

Source: fio 3.33, filesetup.c (setup_files, get_start_offset, get_rand_file_size).
"""

from scmsim.core.errors import UsageError
from scmsim.workload._fio_job import FOLDERS, Job, Ranges
from scmsim.workload._fio_state import drawn, seeded, seeds

MOST = 1 << 61  # limit of offsets and of a job's bytes


def plan(job: Job, held: list[int]) -> Ranges:
    """Return the ranges of a job whose files have `held` bytes before the job (0: the file does not exist)."""
    makes_none = job.engine in ("filecreate", *FOLDERS)
    if makes_none:
        held = [0] * job.nrfiles
    if job.engine in ("filecreate", "dircreate"):  # these engines treat each file as one block long
        held = [min(job.least)] * job.nrfiles
    if not (job.size or job.file_size[0] or any(held)):
        share = "size=N% is a share of the file, whose size is not given; add filesize=" if job.size_percent else ""
        raise UsageError(f"job {job.name!r}: {share or 'its size is not given; add size=, such as size=64m'}")
    starts = [start(job, size) for size in held]
    made, spans = _spans(job, held, starts), []
    for span, first in zip(made, starts, strict=True):
        if job.size_percent and job.size_percent != 100:
            whole = span + first
            span = min(whole * job.size_percent // 100, whole - first)
            span -= span % min(*job.least, 1 << 60)
        spans.append(span)
    total = sum(span * (job.io_size_percent or 100) // 100 for span in spans)
    ends = [max(size, first + span) for size, first, span in zip(held, starts, spans, strict=True)]
    fresh = [first + span > size and not makes_none for size, first, span in zip(held, starts, spans, strict=True)]
    size = total if not job.size or (total and job.size > total) else job.size
    if size < min(job.least):
        raise UsageError(f"job {job.name!r}: {size} bytes are smaller than a block; give a larger size or a smaller bs")
    if max(ends) >= MOST or max(job.io_size, size) * job.loops >= MOST:
        raise UsageError(f"job {job.name!r}: its offsets or bytes go beyond 2 EiB; lower size or offset")
    if job.random and max(spans) // min(job.least) > 0xFFFFFFFF:
        raise UsageError(
            f"job {job.name!r}: more than 2^32 blocks need random_generator=tausworthe64, which is not modelled"
        )
    return Ranges(starts, [start(job, end) for end in ends], spans, ends, fresh, size)


def start(job: Job, held: int) -> int:
    """Return the first byte of a job's range in a file of `held` bytes."""
    increment = job.increment_percent * held // 100 if job.increment_percent else job.offset_increment
    first = job.offset + job.clone * increment
    if job.offset_percent:
        first = held * job.offset_percent // 100 + job.clone * increment
    if job.offset_percent or job.increment_percent:
        unit = job.offset_align or min(job.least)
        first = -(-first // unit) * unit
    return first


def _spans(job: Job, held: list[int], starts: list[int]) -> list[int]:
    low, high = job.file_size
    if low:
        return _by_file_size(job, held, starts)
    block = min(job.least)
    part = job.size // job.nrfiles
    extra = (job.size - part * job.nrfiles) // block
    spans = [part + block if i < extra else part for i in range(job.nrfiles)]
    spans = [span or size - first for span, size, first in zip(spans, held, starts, strict=True)]
    if min(spans) < 0:
        raise UsageError(f"job {job.name!r}: its offset is beyond the end of its file; give a smaller offset or a size")
    return spans


def _by_file_size(job: Job, held: list[int], starts: list[int]) -> list[int]:
    low, high = job.file_size
    numbers, spans = seeded(seeds(job)["file size"]), []
    for size, first in zip(held, starts, strict=True):
        if low <= size <= high:
            spans.append(size - first)
            continue
        wanted = low
        if low != high:
            wanted += int(float(high - low) * (drawn(numbers) / 2**32))
            wanted -= wanted % min(job.least)
        spans.append(wanted - first)
        if first > low or wanted < first:
            raise UsageError(f"job {job.name!r}: its offset is beyond its filesize; give a smaller offset")
    return spans
