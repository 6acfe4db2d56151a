"""Damages the samples of tests/data and gives them to all importers until the time is over; prints what happened.

Run: python tests/fuzz/run.py --seconds 60 [--seed N]
Ends with 1 if an importer crashed, hung, lost a line silently or wrote a trace that breaks a rule; the input that did it is
kept in the current directory.
"""

import argparse
import pathlib
import random
import sys
import time
import traceback
from collections import Counter

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.fuzz.mutate import DATA, SAMPLES, judge, mutated  # noqa: E402


def main() -> int:
    """Fuzz; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    seen: Counter[tuple[str, str]] = Counter()
    end, number, failed = time.monotonic() + options.seconds, 0, 0
    while time.monotonic() < end:
        for name, (files, settings) in SAMPLES.items():
            number += 1
            draw = random.Random(f"{options.seed}:{number}")
            data = mutated((DATA / draw.choice(files)).read_bytes(), draw, draw.choice((1, 1, 2, 4, 16)))
            try:
                seen[name, judge(name, data, settings)] += 1
            except Exception:
                seen[name, "FAILED"] += 1
                failed += 1
                kept = pathlib.Path(f"fuzz-{name}-{options.seed}-{number}.bin")
                kept.write_bytes(data)
                print(f"{name}: input kept as {kept}\n{traceback.format_exc()}", file=sys.stderr)
        if failed > 10:
            break
    for name in SAMPLES:
        print(f"{name:16}" + "".join(f"{seen[name, how]:>8} {how}" for how in ("rows", "refused", "FAILED")))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
