"""`--threads` beside a machine of 16 CPUs: rows of docs/validation/load.md to which nothing was fitted."""

import pytest

from scmsim.pipeline.load import under_load
from tests.verification import thread_scaling as scaling

MEASURED = scaling.rates(scaling.MEASURED)


@pytest.mark.parametrize(
    ("fs", "case", "place"),
    [("xfs", "overwrite", "shared"), ("xfs", "rename", "private"), ("ext4", "fsync", "shared"), ("ext4", "stat", "shared"),
     ("tmpfs", "mkdir", "private")],
)  # fmt: skip
def test_speeds_of_several_processes_are_within_a_half_of_the_machines(fs, case, place):
    assert (fs, case, place) not in scaling.FITTED
    counts = [2, 4, 8, 16]
    one, *more = under_load(scaling.replayed(fs, case), [1, *counts], scaling.in_common(case, place))
    real = MEASURED[fs, case, place]
    for count, state in zip(counts, more, strict=True):
        assert 1 / 1.5 < state.calls_per_ns / one.calls_per_ns / (real[count] / real[1]) < 1.5


def test_each_row_has_all_numbers_of_processes_and_is_of_a_case():
    assert {case for _, case, _ in MEASURED} == {*scaling.CASES} and len(MEASURED) == 64
    assert all(tuple(counts) == scaling.COUNTS for counts in MEASURED.values())
