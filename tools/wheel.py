"""Build two wheels, one with compiled kernels, whose first replay starts as fast as later ones, and a pure one: `make wheel`.

    python tools/wheel.py [--fs 'nova*,ext4'] [--jobs 2] [-o dist]

The kernels are for this version of Python and numba and for any CPU of `shipped.CPU`.  The wheel's name has the version of Python,
by which `pip install --no-index --no-deps --find-links dist scmsim` chooses.  With another numba or an older CPU, the wheel
compiles its kernels as the pure one does.  One wheel can have the kernels of several versions: run this program on the same sources
in an environment of each version.  `--pure` builds the pure wheel alone and compiles nothing.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

from scmsim.jit import shipped


def compile_into(folder: pathlib.Path, fs: str, jobs: int) -> None:
    """Compile file systems and the stages after them for `shipped.CPU`, into a folder that is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(folder),
        "NUMBA_CPU_NAME": shipped.CPU,
        "NUMBA_CPU_FEATURES": shipped.NO_MORE,
    }
    command = [sys.executable, "-m", "scmsim", "warm", "--fs", fs, "--jobs", str(jobs)]
    subprocess.run(command, env=environment, check=True)
    (folder / shipped.SOURCES).write_text(shipped.contents())


def main() -> None:
    """Compile, then build the wheel."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fs", default="all", help="file systems whose kernels it brings (all)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes that compile at once")
    parser.add_argument(
        "-o", "--output", type=pathlib.Path, default=pathlib.Path("dist"), help="folder of the wheel (dist)"
    )
    parser.add_argument("--pure", action="store_true", help="build the pure wheel alone")
    given = parser.parse_args()
    build(given.output, pure=True)
    if not given.pure:
        compile_into(shipped.FOLDER, given.fs, given.jobs)
        build(given.output, pure=False)


def build(output: pathlib.Path, pure: bool) -> None:
    """Build one wheel of this checkout."""
    environment = {**os.environ, **({"SCMSIM_PURE_WHEEL": "1"} if pure else {})}
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    root = pathlib.Path(__file__).parents[1]
    subprocess.run([*pip, "--wheel-dir", str(output), str(root)], env=environment, check=True)


if __name__ == "__main__":
    main()
