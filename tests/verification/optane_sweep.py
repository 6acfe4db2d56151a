"""Six modules beside the Optane study's sweep: accesses at random places by 1 to 24 threads, unseen when the model was finished.

Run: python -m tests.verification.optane_sweep
Measured: tests/verification/data/optane_study/sweep-random.csv.  The model is that of figure 05 (`optane_study.sizes`), with
other numbers of threads.  The threads of figure 05 itself are left out.
"""

import csv
from collections.abc import Iterator

from scmsim import medium
from tests.verification import optane_study as study

OPERATIONS = {"Load": "reads", "NTStore": "non-temporal stores", "Store+Flush": "stores with clwb"}


def points(operation: str) -> Iterator[study.Point]:
    """Yield the points of an operation; stores crowd the modules as in figure 04."""
    table = medium.read("optane-6")
    index = 1 + list(OPERATIONS).index(operation)
    read, write = study.all_read("optane-6"), table["write_gb_s"]
    with (study.DATA / "sweep-random.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            many, size = int(row["threads"]), int(row["bytes"])
            if row["operation"] != operation or many == study.THREADS["optane-6"][index - 1]:
                continue
            slower = study.between([(speeds[0], speeds[2]) for speeds in table["crowd"]], many)
            best = (read, write * slower, study.both(write, read))[index - 1]
            yield study.Point(f"{many} x {size}", float(row["gb_s"]), study.meeting(index, size, best, many))


def main() -> None:
    """Print how many points are within 15 %."""
    print("| operation | compared | within 15 % | share, % | worst |\n|" + "---|" * 5)
    for operation, name in OPERATIONS.items():
        found = list(points(operation))
        worst = max(found, key=lambda point: abs(point.error))
        print(
            f"| {name} | {len(found)} | {study.near(found)} | {100 * study.near(found) / len(found):.0f} | "
            f"{worst.at}: {worst.measured:g}, modelled {worst.modelled:.4g} ({100 * worst.error:+.0f} %) |"
        )


if __name__ == "__main__":
    main()
