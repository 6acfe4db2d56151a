"""What large folios of the page cache do to the TLB, through a whole replay."""

import numpy as np
import pytest

import scmsim
from scmsim.core import records as r
from tests.fs import drive

MIB = 1 << 20


def walks(machine, unit, folios):
    """Data walks, faults and faults of 2 MiB of 1,000 random loads through a mapping of 4 MiB that were written in units."""
    rows = [("create", 1, 0, 0, 0), *(("write", 1, at, unit) for at in range(0, 4 * MIB, unit))]
    rows += [("mmap", 1, 0, 4 * MIB, -1, r.WRITABLE_SHARED)]
    rows += [("load", 1, int(at) * 8, 8) for at in np.random.default_rng(5).integers(0, 4 * MIB // 8, 1000)]
    source = drive.source(drive.files(0, -1, dirs=[0]), drive.ops(*rows))
    run = scmsim.replay(source, "ext4", machine=machine, params={"ext4": {"folios": folios}}).runs[0]
    counts = run.counters
    site = run.sites["mapped access"]
    return (
        site["dtlb_load_misses_walk_completed"],
        counts["page_faults_pte"] + counts["page_faults_pmd"],
        counts["page_faults_pmd"],
    )


@pytest.mark.parametrize(
    ("machine", "unit", "expected"),
    [
        ("i7-8700k", 64 << 10, "equal"),  # no array holds 64 KiB in an entry
        ("neoverse-n1", 64 << 10, "fewer"),
        ("i7-8700k", 2 * MIB, "two"),
    ],
)
def test_what_large_folios_save_depends_on_the_tlb(machine, unit, expected):
    (before, faults, large), (after, faults_after, large_after) = (
        walks(machine, unit, which) for which in ("never", "always")
    )
    print(machine, unit, before, faults, after, faults_after)
    assert large == 0 and large_after == (2 if expected == "two" else 0)
    if expected == "equal":
        assert (after, faults_after) == (before, faults)
    elif expected == "fewer":
        assert faults_after == faults and after <= before / 3
    else:
        assert faults_after == 2 and after <= 2
