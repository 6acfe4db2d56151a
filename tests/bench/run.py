"""Speed and memory of the simulator on this machine, as a table; shows, never judges.

Run: python tests/bench/run.py            everything, about three minutes
     python tests/bench/run.py --smoke    a small version for continuous integration, under 90 s
     python tests/bench/run.py --full     with 50 million operations too
Times are CPU seconds (user and system) of the process that does the work, so a busy machine changes them little.
"""

import argparse
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

from capture import slowdowns

ROOT = pathlib.Path(__file__).parents[2]
TRACE = ROOT / "traces" / "sqlite-load.parquet"
EXPERIMENT = "quickstart"

REWRITES = r"""
import re, sys, scmsim
from scmsim.workload.microbench import Workload
scmsim.replay(Workload("rewrite", 4096, 16 << 20, passes=max(1, int(sys.argv[1]) >> 12)), "nova-cow", footprints="none")
# not ru_maxrss: what the parent had when it started this process counts there
print(re.search(r"VmHWM:\s*(\d+)", open("/proc/self/status").read())[1])
"""
Line = tuple[str, str]


def cpu(action: Callable[[], object]) -> float:
    """CPU seconds of an action in this process."""
    start = time.process_time()
    action()
    return time.process_time() - start


def command(*argv: str, **env: str) -> tuple[float, str]:
    """(CPU seconds, stdout) of a Python process and its children; `env` is added to the environment."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    done = subprocess.run([sys.executable, *argv], capture_output=True, text=True, env=environment, cwd=ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        return float("nan"), f"exit status {done.returncode}: {last}"
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, done.stdout


def rate(count: float, seconds: float, what: str) -> str:
    return f"{count / max(seconds, 1e-9):>14,.0f} {what}/s"


def replays(operations: int) -> Iterator[Line]:
    """Operations per second of whole replays (file system, paging, MMU, medium)."""
    import scmsim
    from scmsim.workload.microbench import Workload

    cells = (
        ("nova-cow", "append", 4096), ("nova-cow", "append", 1024), ("nova-cow", "rewrite", 4096),
        ("nova-cow", "read", 4096), ("nova-inplace", "rewrite", 4096), ("nova-fast16", "append", 4096),
        ("ext4-dax", "append", 4096), ("ext4-dax", "rewrite", 4096), ("ext4", "append", 4096),
    )  # fmt: skip
    for fs, op, unit in cells:
        work = Workload(op, unit, unit * operations)
        for footprints, told in (("none", ""), *([(None, ", with footprints")] if op == "append" else [])):
            scmsim.replay(
                Workload(op, unit, unit * 100), fs, footprints=footprints
            )  # compiles, or loads what is compiled
            seconds = cpu(lambda work=work, fs=fs, given=footprints: scmsim.replay(work, fs, footprints=given))
            yield f"replay {fs} {op} {unit}{told}", rate(work.rows, seconds, "operations")


def workloads(operations: int) -> Iterator[Line]:
    """Operations per second of the generators alone."""
    from scmsim.workload import filebench, fio, iozone, postmark

    cases = (
        ("postmark", lambda n: postmark.Workload(transactions=n // 7)),
        ("iozone, one file", lambda n: iozone.Workload(512 * n, 512 * n, 4096, 4096, 0)),
        ("fio randrw", lambda n: fio.Workload(options=f"rw=randrw bs=4k size={4096 * n}")),
        (
            "fio zipf",
            lambda n: fio.Workload(options=f"rw=randwrite bs=4k size={4096 * n} random_distribution=zipf:1.2"),
        ),
        ("filebench varmail", lambda n: filebench.Workload(personality="varmail", flowops=n)),
    )
    for name, make in cases:
        for _ in make(1000).batches():  # compiles, or loads what is compiled
            pass
        work = make(operations)
        seconds = cpu(lambda work=work: sum(len(batch) for batch in work.batches()))
        yield f"generate {name}", rate(work.rows, seconds, "operations")


def starts(systems: str, cold: bool) -> Iterator[Line]:
    """CPU time of starting, least of three; and of a small replay with and without compiled kernels."""
    cases = (
        ("python -c pass", ("-c", "pass")),
        ("import scmsim", ("-c", "import scmsim")),
        ("scmsim --help", ("-m", "scmsim", "--help")),
        ("scmsim list", ("-m", "scmsim", "list")),
        ("scmsim check", ("-m", "scmsim", "check", EXPERIMENT)),
    )
    for name, argv in cases:
        yield f"start: {name}", f"{1000 * min(command(*argv)[0] for _ in range(3)):>14,.0f} ms CPU"
    replay = ("-m", "scmsim", "replay", str(TRACE), "--fs", systems)
    if cold:
        with tempfile.TemporaryDirectory() as folder:
            environment = {"XDG_CACHE_HOME": folder}
            yield (
                f"start: replay of {TRACE.name} on {systems}, cold",
                f"{command(*replay, **environment)[0]:>14,.1f} s CPU",
            )
            warm, _ = command(*replay, **environment)
    else:
        command(*replay)
        warm, _ = command(*replay)
    yield f"start: replay of {TRACE.name} on {systems}, warm", f"{warm:>14,.1f} s CPU"


def memory(counts: tuple[int, ...]) -> Iterator[Line]:
    """Peak memory of replaying many operations: it must not follow their number."""
    first = None
    for count in counts:
        seconds, told = command("-c", REWRITES, str(count))
        if seconds != seconds:
            yield f"memory: {count:,} rewrites", told
            return
        peak = int(told) / 1024
        first = first or peak
        yield (
            f"memory: {count:,} rewrites",
            f"{peak:>14,.0f} MiB peak, {peak / first:.2f} of the first, {seconds:.1f} s CPU",
        )


def scaling(operations: int) -> Iterator[Line]:
    """Cost of an operation in passes 4 to 9 over that in passes 2 and 3 (1 = it does not grow with the trace)."""
    import scmsim
    from scmsim.workload.microbench import Workload

    for fs, op in (("nova-cow", "rewrite"), ("nova-cow", "read"), ("ext4-dax", "rewrite"), ("ext4", "read")):
        took = {}
        for passes in (1, 3, 9):
            work = Workload(op, 4096, 4096 * operations, passes=passes)
            took[passes] = min(
                cpu(lambda work=work, fs=fs: scmsim.replay(work, fs, footprints="none")) for _ in range(3)
            )
        ratio = (took[9] - took[3]) / 3 / max(took[3] - took[1], 1e-9)
        yield f"scaling: {fs} {op}, late passes over early ones", f"{ratio:>14.2f} times the CPU time an operation"


def main() -> None:
    """Print the table, line by line as the figures come."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="small and quick, for continuous integration")
    parser.add_argument("--full", action="store_true", help="also 50 million operations")
    options = parser.parse_args()
    small = options.smoke
    counts = (1 << 18, 1 << 20) if small else (1_000_000, 10_000_000, *((50_000_000,) if options.full else ()))
    sys.path.insert(0, str(ROOT))
    from tests.bench import mmu
    from tests.bench.importers import rates, stored

    start = time.monotonic()
    groups = (
        starts("nova-cow", cold=False) if small else starts("ext4,ext4-dax,nova-cow", cold=True),
        replays(1 << 17 if small else 1 << 19),
        scaling(1 << 15 if small else 1 << 17),
        workloads(1 << 17 if small else 1 << 20),
        mmu.lines(1 << 21 if small else 20_000_000),
        rates(60_000 if small else 1_000_000),
        stored(600_000 if small else 10_000_000),
        memory(counts),
        slowdowns(20_000 if small else 200_000, 1 if small else 3),
    )
    for group in groups:
        for name, value in group:
            print(f"{name:<62}{value}", flush=True)
    print(f"{'all of this':<62}{time.monotonic() - start:>14,.0f} s")


if __name__ == "__main__":
    main()
