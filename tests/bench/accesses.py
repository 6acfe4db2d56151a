"""Speed and size of `replay --accesses`: operations a second, and bytes an operation, of each format and without a file.

Run: python -m tests.bench.accesses [FS ...]
"""

import argparse
import os
import pathlib
import tempfile

import scmsim
from tests.bench.mix import Mix, least

_FEW, _MORE = 2_000, 20_000
_FILES = (None, "a.ramulator", "a.dramsim3", "a.champsim", "a.champsim.xz", "a.u64", "a.parquet")


def main() -> None:
    """Print a line for each model and format."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fs", nargs="*", default=["ext4-dax", "nova-cow"], help="file systems")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    few, more = Mix(_FEW), Mix(_FEW + _MORE)
    with tempfile.TemporaryDirectory() as folder:
        for fs in options.fs:
            for name in _FILES:
                path = None if name is None else pathlib.Path(folder, name)

                def run(source, fs=fs, path=path):
                    scmsim.replay(source, fs, footprints="none", accesses=path)

                run(few)  # compiles, or loads what is compiled
                start = least(options.runs, lambda run=run: run(few))
                size = os.path.getsize(path) if path else 0
                whole = least(options.runs, lambda run=run: run(more))
                size = (os.path.getsize(path) - size) / _MORE if path else 0
                speed = _MORE / (whole - start)
                print(f"{fs:10} {name or 'no file':14} {speed:12,.0f} operations/s {size:10,.0f} bytes/operation")


if __name__ == "__main__":
    main()
