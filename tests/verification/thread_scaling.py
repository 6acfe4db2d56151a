"""Calls per second of 1 to 16 processes on a real machine, beside `replay --threads`.

Run: python3 tests/verification/thread_scaling.py measure FOLDER --fs NAME [--cpus 16] >> scaling.csv
     python -m tests.verification.thread_scaling compare [scaling.csv] [--times]

`measure` builds `scaling.c` and runs its cases in FOLDER, which is on the file system NAME; it needs gcc and no package of Python.
`compare` replays the same calls on the model NAME, and sets the speed of N processes, relative to one, beside the model's; with
`--times` the time of a call of one process.  Constants of the model were fitted to the rows of FITTED; the other rows test them.
"""

import argparse
import collections
import csv
import functools
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator

HERE = pathlib.Path(__file__).parent
MEASURED = HERE / "data/scaling_618.csv"
PLACES = ("private", "shared")
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16)
MACHINE, MEDIUM, KERNEL = "emerald-rapids", "nvdimm-6", "6.18"
BLOCK, BLOCKS = 4096, 256
CASES = ("read", "overwrite", "append", "stat", "open", "create", "mkdir", "rename", "mixed", "fsync", "mmap")
FITTED = {  # row: what was fitted to it; held_ns in fs/locks.toml and models.toml, CONTENDED in pipeline/load.py
    ("tmpfs", "overwrite", "shared"): "CONTENDED",
    ("tmpfs", "append", "shared"): "CONTENDED",
    ("tmpfs", "create", "shared"): "CONTENDED",
    ("tmpfs", "rename", "shared"): "CONTENDED",
    ("tmpfs", "mmap", "shared"): "CONTENDED",
    ("tmpfs", "rename", "private"): "rename",
    ("tmpfs", "create", "private"): "inodes",
    ("ext4", "create", "private"): "inodes",
    ("xfs", "create", "private"): "inodes",
    ("tmpfs", "stat", "shared"): "name",
    ("xfs", "read", "shared"): "readers",
}
TIMED = {("tmpfs", case) for case in ("read", "overwrite", "append", "create", "rename")}  # to which cpi was fitted


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = parser.add_subparsers(dest="part", required=True)
    measured = parts.add_parser("measure")
    measured.add_argument("folder", type=pathlib.Path)
    measured.add_argument("--fs", required=True)
    measured.add_argument("--cpus", type=int, default=16)
    measured.add_argument("--seconds", type=float, default=0.2)
    compared = parts.add_parser("compare")
    compared.add_argument("file", type=pathlib.Path, nargs="?", default=MEASURED)
    compared.add_argument("--times", action="store_true")
    options = parser.parse_args()
    if options.part == "measure":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(["fs", "case", "place", "processes", "calls", "seconds"])
        writer.writerows(measure(options.folder, options.fs, options.cpus, options.seconds))
    elif options.times:
        times(rates(options.file))
    else:
        speeds(rates(options.file))


def measure(folder: pathlib.Path, fs: str, cpus: int, seconds: float) -> Iterator[list[str]]:
    """Yield rows: file system, case, place, processes, calls, seconds."""
    with tempfile.TemporaryDirectory() as made:
        program = f"{made}/scaling"
        subprocess.run(["gcc", "-O2", "-pthread", "-o", program, HERE / "scaling.c"], check=True)
        for case in CASES:
            for place in PLACES:
                for count in (each for each in COUNTS if each <= cpus):
                    own = tempfile.mkdtemp(dir=folder)
                    words = [program, own, case, place, str(count), str(seconds)]
                    done = subprocess.run(words, capture_output=True, text=True, check=True)
                    shutil.rmtree(own)
                    yield [fs, case, place, str(count), *done.stdout.split()]


def rates(file: pathlib.Path) -> dict[tuple[str, str, str], dict[int, float]]:
    """Return calls per second by number of processes, the median of repeated measurements, for each (fs, case, place)."""
    found: dict[tuple[str, str, str], dict[int, list[float]]] = {}
    with file.open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            counts = found.setdefault((row["fs"], row["case"], row["place"]), collections.defaultdict(list))
            counts[int(row["processes"])].append(int(row["calls"]) / float(row["seconds"]))
    return {key: {count: statistics.median(each) for count, each in counts.items()} for key, counts in found.items()}


def calls(case: str) -> Iterator[str]:
    """Yield the lines of a trace (`ops-csv`) with a case's calls of one process, as scaling.c makes them."""
    yield "op,path,path2,offset,length"
    yield from ("mkdir,/d", "create,/d/file")
    yield from (f"write,/d/file,,{block * BLOCK},{BLOCK}" for block in range(BLOCKS))
    if case == "rename":
        yield "create,/d/n"
    for turn in range(80 if case == "append" else 5000):
        at = turn % BLOCKS * BLOCK
        over = f"write,/d/file,,{turn % 16 * BLOCK},{BLOCK}"
        yield from {
            "read": [f"read,/d/file,,{at},{BLOCK}"] * 4,
            "overwrite": [over] * 4,
            "append": [*(f"write,/d/file,,{k * BLOCK},{BLOCK}" for k in range(BLOCKS)), "truncate,/d/file,,0"],
            "stat": ["stat,/d/file"] * 4,
            "open": ["open,/d/file", "close,/d/file"],
            "create": ["create,/d/n", "close,/d/n", "unlink,/d/n"],
            "mkdir": ["mkdir,/d/n", "rmdir,/d/n"],
            "rename": ["rename,/d/n,/d/o", "rename,/d/o,/d/n"],
            "mixed": ["create,/d/n", *(f"{op},/d/n,,{k * BLOCK},{BLOCK}" for op in ("write", "read") for k in range(4)),
                      "close,/d/n", "unlink,/d/n"],
            "fsync": [over, "fsync,/d/file"],
            "mmap": ["mmap,/d/file,,0,65536", *(f"load,/d/file,,{k * BLOCK},1" for k in range(16)), "munmap,/d/file,,0,65536"],
        }[case]  # fmt: skip


def speeds(measured: dict[tuple[str, str, str], dict[int, float]]) -> None:
    """Print how many times as fast N processes are as one, measured / model, and the ratios of the rows that were not fitted."""
    from scmsim.pipeline.load import under_load

    shown = (2, 4, 8, 16)
    print(
        f"| file system | calls | files and directories | {' | '.join(map(str, shown))} | fitted |\n" + "|---" * 8 + "|"
    )
    ratios = []
    for (fs, case, place), counts in measured.items():
        one, *more = under_load(replayed(fs, case), [1, *shown], in_common(case, place))
        pairs = [
            (counts[count] / counts[1], state.calls_per_ns / one.calls_per_ns)
            for count, state in zip(shown, more, strict=True)
        ]
        why = FITTED.get((fs, case, place), "")
        cells = [f"{real:.2f} / {model:.2f}" for real, model in pairs]
        print(f"| {fs} | {case} | {place} | {' | '.join(cells)} | {why} |", flush=True)
        if not why:
            ratios += [(place, model / real) for real, model in pairs]
    for place in PLACES:
        some = [ratio for at, ratio in ratios if at == place]
        near = {limit: sum(1 / limit <= ratio <= limit for ratio in some) for limit in (1.25, 1.5, 2)}
        told = ", ".join(f"{count} within {limit}" for limit, count in near.items())
        print(f"{place}: {len(some)} values were not fitted: {told}; median ratio {statistics.median(some):.2f}")


def in_common(case: str, place: str) -> list[str]:
    """Return what the processes of a case share, as `--shared` names it."""
    if place == "private":
        return []
    return ["file", "directory", *(["process"] if case == "mmap" else [])]


def times(measured: dict[tuple[str, str, str], dict[int, float]]) -> None:
    """Print ns per call of one process, measured and estimated."""
    print("| file system | calls | measured, ns | estimated, ns | ratio | fitted |\n" + "|---" * 6 + "|")
    for (fs, case, place), counts in measured.items():
        if place == "private":
            run = replayed(fs, case)
            turns = run.operations - run.touches if case == "mmap" else run.calls
            real, model = 1e9 / counts[1], sum(run.time_ns.values()) / turns
            print(
                f"| {fs} | {case} | {real:,.0f} | {model:,.0f} | {model / real:.2f} | {'cpi' * ((fs, case) in TIMED)} |"
            )


@functools.cache
def replayed(fs: str, case: str):  # type: ignore[no-untyped-def]  # Run needs NumPy, which `measure` does without
    """Return the run of a case's calls on a model."""
    import scmsim
    from scmsim.trace import TraceWriter
    from scmsim.trace.formats.own import ops_csv

    with tempfile.TemporaryDirectory() as made:
        text, trace = pathlib.Path(made) / "calls.csv", pathlib.Path(made) / "calls.parquet"
        text.write_text("\n".join(calls(case)) + "\n", encoding="utf-8")
        with TraceWriter(trace, {}) as writer:
            ops_csv.convert(text, writer)
        return scmsim.replay(str(trace), fs=fs, machine=MACHINE, medium=MEDIUM, by="op", kernel=KERNEL).runs[0]


if __name__ == "__main__":
    main()
