"""tmpfs and ramfs against what real kernels did per call."""

import pytest

from tests.conftest import NO_JIT
from tests.verification import cells, validate_names

pytestmark = pytest.mark.slow

ROWS = cells.measured("tmpfs", "6.1:tmpfs", "6.1:ramfs")


@pytest.mark.parametrize(
    "row", ROWS, ids=[f"{r['fs']} {r.get('kernel', '5.13')} {r['op']} {int(r['unit'])}" for r in ROWS]
)
def test_a_measured_cell(row):
    """Nothing persistent; loads + stores within 4 %."""
    found = cells.totals(row["fs"], cells.workload(row), **cells.kernel(row))
    assert found["pmst"] == found["flush"] == found["fence"] == found["ntst"] == row["pmstB_call"] == 0
    assert found["ld"] + found["st"] == pytest.approx(row["ld_norep_call"] + row["st_norep_call"], rel=0.04)


@pytest.mark.skipif(NO_JIT, reason="20,000 operations")
@pytest.mark.parametrize("fs", ["tmpfs", "ramfs"])
def test_all_measured_names(fs):
    """Loads + stores within 8 %; what was not fitted is cwrite64k and create_fsync."""
    rows = validate_names.compare(fs, f"6.1:{fs}")
    assert len(rows) == 21
    for row in rows:
        assert row["stored B"] == (0, 0)
        measured, replayed = row["loads + stores"]
        assert replayed == pytest.approx(measured, rel=0.08), row["op"]
