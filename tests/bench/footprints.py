"""CPU microseconds a call of 4 KiB without and with footprints: 110,000 calls against 10,000, so that the start is left out.

Run: python -m tests.bench.footprints [FS ...]
"""

import argparse

import scmsim
from tests.bench.mix import Mix, least
from tests.bench.profile import Appends

_FEW, _MORE = 10_000, 100_000


def main() -> None:
    """Print a line for each model and trace."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fs", nargs="*", default=["ext4-dax", "nova-cow"], help="file systems")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    for fs in options.fs:
        for name, trace in (("mix", Mix), ("appends", Appends)):
            few, more = trace(_FEW), trace(_FEW + _MORE)
            took = []
            for footprints in ("none", None):
                scmsim.replay(few, fs, footprints=footprints)  # compiles, or loads what is compiled
                start, whole = (
                    least(options.runs, lambda source=source: scmsim.replay(source, fs, footprints=footprints))  # noqa: B023
                    for source in (few, more)
                )
                took.append((1e6 * (whole - start) / _MORE, start))
            (without, _), (touched, start) = took
            print(
                f"{fs}, {name}: {without:.2f} -> {touched:.2f} us a call ({touched / without:.2f}), {start:.3f} s for {_FEW:,}"
            )


if __name__ == "__main__":
    main()
