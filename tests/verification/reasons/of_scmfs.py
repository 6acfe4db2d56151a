"""Experiments on the rows of the SCMFS paper."""

from collections.abc import Iterator

from scmsim.reproduce import scmfs
from scmsim.workload import postmark
from tests.verification.reasons.lines import Line


def of_sizes() -> Iterator[Line]:
    """SCMFS-3: the size of Postmark's files."""
    large = postmark.Workload(
        files=16, transactions=32, size_low=4 << 10, size_high=256 << 20, buffering=0, read=256 << 10, write=256 << 10
    )
    small, large_files = (scmfs._waste_percent(trace) for trace in (scmfs.mail(False)[0], large))
    yield Line("SCMFS-3, Postmark", "files of up to 256 MiB, not 8 MiB", (small,), (large_files,), "at most 1 %")


EXPERIMENTS = (of_sizes,)
