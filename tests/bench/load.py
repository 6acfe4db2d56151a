"""CPU time of `scmsim replay --threads N`, with and without data caches: `python -m tests.bench.load [TRACE ...] [--runs N]`.

Each figure is the least user CPU time of several runs of the command, with kernels that are already compiled, and includes the
start.  Without a TRACE: a synthesized postmark of 1.1 million calls.
"""

import argparse
import pathlib
import resource
import subprocess
import sys
import tempfile

SYSTEMS = ("ext4", "ext4-dax", "nova-cow")
COUNTS = (1, 2, 4, 8, 16)
COMMAND = [sys.executable, "-m", "scmsim"]


def user_s(*words: str) -> float:
    """Return the user CPU time of a command of scmsim, in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([*COMMAND, *words], check=True, capture_output=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def main() -> None:
    """Print a row for each trace, file system and setting of the caches."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="*")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    print(f"| trace | fs | caches | {' | '.join(f'{count} threads, s' for count in COUNTS)} |")
    print("|---" * (len(COUNTS) + 3) + "|")
    with tempfile.TemporaryDirectory() as made:
        traces = options.traces
        if not traces:
            long = f"{made}/postmark-long.parquet"
            user_s("synth", "postmark", "--transactions", "150000", "-o", long)
            traces = [long]
        for trace in traces:
            for fs in SYSTEMS:
                for caches in ("off", "on"):
                    words = ["replay", trace, "--fs", fs, "--caches", caches, "--jobs", "1", "--threads"]
                    user_s(*words, "1")  # compile
                    found = {count: min(user_s(*words, str(count)) for _ in range(options.runs)) for count in COUNTS}
                    cells = " | ".join(f"{seconds:.2f}" for seconds in found.values())
                    print(f"| {pathlib.Path(trace).stem} | {fs} | {caches} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
