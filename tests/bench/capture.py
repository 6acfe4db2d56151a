"""What capture costs the captured program: 200,000 random pwrite of 4 KiB in C, alone and under each back end."""

import pathlib
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator

PROGRAM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **words)
{
    static char unit[4096];
    int file = open(words[1], O_RDWR | O_CREAT, 0600), calls = atoi(words[2]);
    unsigned place = 1;
    for (long i = 0; i < 16384; i++)
        pwrite(file, unit, 4096, i * 4096);
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < calls; i++) {
        place = place * 1664525 + 1013904223;
        pwrite(file, unit, 4096, (long)(place >> 18) * 4096);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    FILE *out = fopen(words[3], "w");
    fprintf(out, "%ld\n", (end.tv_sec - start.tv_sec) * 1000000000L + end.tv_nsec - start.tv_nsec);
    return fclose(out);
}
"""


def slowdowns(calls: int, repeats: int) -> Iterator[tuple[str, str]]:
    """(what, figure): ns of a call and slow-down of the loop, medians of runs in turns; the file lies in memory."""
    from scmsim import registry
    from scmsim.errors import EnvironmentProblem

    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        yield "capture: slow-down", "no C compiler here"
        return
    took: dict[str, list[float]] = {name: [] for name in ("", *registry.names("capture"))}
    problems: dict[str, str] = {}
    with tempfile.TemporaryDirectory(dir="/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None) as folder:
        root = pathlib.Path(folder)
        (root / "loop.c").write_text(PROGRAM)
        subprocess.run([compiler, "-O2", "-w", "-o", root / "loop", root / "loop.c"], check=True)
        argv = [str(root / "loop"), str(root / "data"), str(calls), str(root / "took")]
        for _ in range(repeats):
            for name in took:
                try:
                    if name:
                        registry.load("capture", name).capture(argv, root / "trace.parquet", under=folder)
                    else:
                        subprocess.run(argv, check=True)
                    took[name].append(int((root / "took").read_text()) / calls)
                except EnvironmentProblem as problem:
                    problems[name] = str(problem)
    base = statistics.median(took[""])
    for name, values in took.items():
        what = f"capture: {calls:,} pwrite of 4 KiB, {name or 'not captured'}"
        if name in problems:
            yield what, problems[name]
        else:
            one = statistics.median(values)
            yield what, f"{one:>14,.0f} ns a call, {one / base:.1f} times"


if __name__ == "__main__":
    import sys

    sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
    for what, figure in slowdowns(200_000, 5):
        print(f"{what:<62}{figure}", flush=True)
