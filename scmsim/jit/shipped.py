"""Compiled kernels that a wheel contains, so that the first replay need not wait for the compiler.

FOLDER has the layout of any cache on disk.  Its machine code is for every CPU with the features of CPU, and was compiled by one
version of Python and one of numba.  If a version, the CPU or a source file differs, FOLDER is ignored and kernels are compiled as
usual.  `tools/wheel.py` fills FOLDER.
"""

import functools
import hashlib
import pathlib
import sys
from collections.abc import Iterator

import numba
from llvmlite import binding as llvm

from scmsim.core import private

ROOT = pathlib.Path(__file__).parents[1]
# the folders with kernels, and with the constants that they use
_ROOMS = (
    "alloc",
    "cache",
    "core",
    "footprint",
    "fs",
    "jit",
    "medium",
    "mmu",
    "paging",
    "pipeline",
    "study/advise",
    "system",
    "trace/kernels",
    "workload/kernels",
)
# LLVM's name of the x86-64 psABI level that Intel's CPUs support since Haswell (2013) and AMD's since Excavator (2015).
CPU = "x86-64-v3"
# features that `CPU` has in addition to plain x86-64
FEATURES = "avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3".split()
NO_MORE = ""  # no features in addition to those of `CPU`, in numba's notation
FOLDER = ROOT / "jit" / "compiled" / f"{sys.implementation.cache_tag}-numba{numba.__version__}-{CPU}"
SOURCES = "sources"  # the file in FOLDER with the digest of the compiled sources


def source_files() -> Iterator[pathlib.Path]:
    """Return the source files of kernels, in a fixed order."""
    return iter(sorted(path for room in _ROOMS for path in (ROOT / room).rglob("*.py")))


def contents() -> str:
    """Return a digest of the contents of the source files (takes 12 ms)."""
    digest = hashlib.blake2b(digest_size=16)
    for path in source_files():
        text = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT).as_posix()}:{len(text)}\n".encode() + text)
    return digest.hexdigest()


def has_features() -> bool:
    """Return whether this machine's CPU has all features of `CPU`."""
    found = llvm.get_host_cpu_features()
    return all(found.get(name) for name in FEATURES)


@functools.cache
def fits() -> bool:
    """Return whether FOLDER has kernels for this Python, numba, CPU and these sources."""
    try:
        made_of = (FOLDER / SOURCES).read_text()
        if private.wider(FOLDER, ROOT):
            return False
    except OSError:
        return False
    return has_features() and made_of == contents()


def subfolder(folder: str) -> str:
    """Return the name of a source folder's cache folder; the name does not depend on where the package is installed."""
    path = pathlib.Path(folder)
    place = path.relative_to(ROOT.parent).as_posix() if path.is_relative_to(ROOT) else folder
    return f"{path.name}_{hashlib.blake2b(place.encode(), digest_size=16).hexdigest()}"
