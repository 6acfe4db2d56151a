"""Build a wheel with compiled kernels, so that its first replay starts as fast as later ones: `make wheel`.

    python tools/wheel.py [--fs 'nova*,ext4'] [--jobs 2] [-o dist]

The kernels are for this version of Python and numba and for any CPU of `shipped.CPU`.  With other versions, an installed wheel
compiles its kernels as a checkout does.  One wheel can have the kernels of several versions: run this program on the same
sources in an environment of each version.
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
    given = parser.parse_args()
    compile_into(shipped.FOLDER, given.fs, given.jobs)
    root = pathlib.Path(__file__).parents[1]
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", str(given.output), str(root)], check=True)


if __name__ == "__main__":
    main()
