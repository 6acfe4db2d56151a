"""What importers read, and the account of it."""

import gzip
from pathlib import Path

import numpy as np

from scmsim.trace.reading.input import Input
from scmsim.trace.reading.report import Report


def test_progress_of_compressed_input_is_that_of_what_is_stored(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(gzip.compress(np.random.default_rng(1).bytes(300_000), 0))
    with Input(tmp_path / "in") as given:
        shares = []
        while given.read(1 << 16):
            shares.append(100 * given.taken // given.total)
    assert shares[0] < 40 and shares[-1] == 100 and len(set(shares)) >= 4


def test_what_makes_a_conversion_incomplete() -> None:
    """Rows lost and uncertain count together, and bytes by themselves; how many lines they come from does not matter."""
    assert not Report(rows=990, lost_rows=5, unpaired=5).is_incomplete()
    assert (
        Report(rows=990, lost_rows=5, uncertain_rows=6).is_incomplete()
        and Report(rows=990, lost_events=1).is_incomplete()
    )
    some = Report(rows=85, bad=1, lost_rows=3, unpaired=2, lost_events=10)
    assert some.is_incomplete(0.149) and not some.is_incomplete(0.15)
    assert (
        Report(rows=1000, bytes=98, lost_bytes=2).is_incomplete()
        and Report(rows=9, bytes=100, uncertain_bytes=2).is_incomplete()
    )
    assert not Report(lines=10, bad=10, rows=10).is_incomplete()
