"""Damages the samples of tests/data and gives them to all importers until the time is over; prints what happened.

Run: python tests/fuzz/run.py --seconds 60 [--seed N]
Ends with 1 if an importer crashed, hung, lost a line silently or wrote a trace that breaks a rule; the input that did it is
kept in the current directory.
"""

import functools
import pathlib
import sys

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.fuzz.mutate import DATA, SAMPLES, Cases, fuzz, judge  # noqa: E402


def cases() -> Cases:
    """Return a case for each format."""
    return [
        (name, [(DATA / file).read_bytes() for file in files], functools.partial(judge, name, options=settings))
        for name, (files, settings) in SAMPLES.items()
    ]


if __name__ == "__main__":
    sys.exit(fuzz(__doc__, cases(), ("rows", "refused"), (1, 1, 2, 4, 16)))
