"""Media beside the microbenchmarks of the Optane study: as near as docs/validation/times.md says."""

import pytest

from scmsim import medium
from tests.verification import optane_study as study
from tests.verification import optane_sweep

# points within 15 %, of those that were not fitted
NEAR = {
    "02 idle latency": 8,
    "04 threads, DRAM": 68,
    "04 threads, Optane, six modules": 67,
    "04 threads, Optane, one module": 67,
    "05 size of an access, DRAM": 48,
    "05 size of an access, Optane, six modules": 81,
    "05 size of an access, Optane, one module": 47,
    "06 latency under load": 56,
    "06 mixes of readers and writers": 17,
    "09 write amplification by region": 34,
    "12 instructions, bandwidth": 14,
    "12 instructions, latency": 12,
    "13 interval of fences": 59,
}


@pytest.mark.parametrize("figure", study.FIGURES)
def test_a_figure_is_as_near_as_documented(figure):
    points = list(study.FIGURES[figure]())
    assert set(study.USED.get(figure, ())) <= {point.at for point in points}  # what was fitted is left out by its name
    assert study.near(study.compared(figure)) == NEAR[figure]


@pytest.mark.parametrize("name", study.FITTED)
def test_at_most_four_values_of_a_device_are_fitted_and_its_file_has_them(name):
    table, fitted = medium.read(name), study.FITTED[name]
    assert len(fitted) <= 4
    assert {key: table[key] for key in fitted if key in table} == {key: fitted[key] for key in fitted if key in table}
    column = {"reads": 1, "non-temporal stores": 2}
    for key, speed in fitted.items():
        if key.startswith("crowd, "):
            what, _, many = key.removeprefix("crowd, ").removesuffix(" threads").rpartition(" by ")
            assert {row[0]: row[column[what]] for row in table["crowd"]}[int(many)] == speed


def test_non_temporal_stores_of_the_sweep_are_as_near_as_documented():
    found = list(optane_sweep.points("NTStore"))
    assert (study.near(found), len(found)) == (177, 182)
