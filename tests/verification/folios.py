"""Large folios of the page cache on whole calls that no cost was fitted to: tables of docs/validation/kernels.md.

    python -m tests.verification.folios FOLDER [--kernel 6.18] [--fs ext4]

Runs two traces in the lab, unless FOLDER has the results, and on the model, and prints the instructions per call of both.
"""

import argparse
import pathlib

import scmsim
from scmsim.core.records import CLOSE, CREATE, FSYNC, READ, SETUP, UNLINK, WRITE
from scmsim.trace import open_trace
from tests.verification import lab_card as card

MIB = 1 << 20
TRACES = {
    # Overwrites of 1 KiB all over a file that was written in folios of 2 MiB.
    "overwrites": [
        (CREATE, 1, 0, 0, SETUP),
        *[(WRITE, 1, at * 2 * MIB, 2 * MIB, SETUP) for at in range(8)],
        *[(WRITE, 1, (at * 4099 % 16384) << 10, 1024, 0) for at in range(2048)],
        (FSYNC, 1, 0, 0, 0),
        *[(READ, 1, at << 16, 1 << 16, 0) for at in range(256)],
    ],
    # Appends of 10,000 bytes: folios of one and of two pages, and pages that two calls write.
    "appends": [
        (CREATE, 1, 0, 0, SETUP),
        *[(WRITE, 1, at * 10000, 10000, 0) for at in range(400)],
        (FSYNC, 1, 0, 0, 0),
        *[(READ, 1, at * 10000, 10000, 0) for at in range(400)],
        (CLOSE, 1, 0, 0, SETUP),
        (UNLINK, 1, 0, 0, 0),
    ],
}


def main():
    """Run what is missing, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--kernel", default="6.18")
    parser.add_argument("--fs", default="ext4")
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    paths = {name: given.folder / f"{name}.parquet" for name in TRACES}
    for name, path in paths.items():
        card.store(TRACES[name], 2, path)
    measured = card.measure(paths, [given.fs], given.folder, given.kernel)
    print("| trace | call | instructions per call | costs per folio | with `folios=never` |\n|---|---|---|---|---|")
    for name, path in paths.items():
        lab = measured[name].runs[0]
        params = card.params(given.fs, path, lab)
        runs = [
            scmsim.replay(open_trace(path), given.fs, by="op", params=params | {given.fs: params[given.fs] | own}).runs[
                0
            ]
            for own in ({"kernel": given.kernel}, {"kernel": given.kernel, "folios": "never"})
        ]
        for call, counters in lab.groups.items():
            real = counters["instructions"]
            errors = (f"{100 * (run.groups[call]['instructions'] / real - 1):+.1f} %" for run in runs)
            print(f"| {name} | {call} | {real / lab.params[f'calls_{call}']:,.0f} | {' | '.join(errors)} |")


if __name__ == "__main__":
    main()
