"""Kernels that a wheel brings compiled, so that no first replay waits for them.

They lie in FOLDER as in any cache on disk: machine code for every CPU that has CPU's features, made by one version of Python and of
numba.  Where one of these differs, or a source file, they are left alone and kernels are compiled as always.  `tools/wheel.py`
makes them.
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
# the folders with kernels, and with what they know
_ROOMS = (
    "alloc",
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
# The level of the x86-64 psABI that Intel's CPUs have since Haswell (2013) and AMD's since Excavator (2015), as LLVM calls it.
CPU = "x86-64-v3"
# what it has beyond x86-64
FEATURES = "avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3".split()
NO_MORE = ""  # features beside those of CPU, as numba tells them
FOLDER = ROOT / "jit" / "compiled" / f"{sys.implementation.cache_tag}-numba{numba.__version__}-{CPU}"
SOURCES = "sources"  # the file in FOLDER with the digest of what was compiled


def source_files() -> Iterator[pathlib.Path]:
    """The files that kernels can come from, in a fixed order."""
    return iter(sorted(path for room in _ROOMS for path in (ROOT / room).rglob("*.py")))


def contents() -> str:
    """A digest of what the source files say (12 ms)."""
    digest = hashlib.blake2b(digest_size=16)
    for path in source_files():
        text = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT).as_posix()}:{len(text)}\n".encode() + text)
    return digest.hexdigest()


def has_features() -> bool:
    """Whether this CPU has all features of CPU."""
    found = llvm.get_host_cpu_features()
    return all(found.get(name) for name in FEATURES)


@functools.cache
def fits() -> bool:
    """Whether there are kernels for this Python, numba, CPU and these sources."""
    try:
        made_of = (FOLDER / SOURCES).read_text()
        if private.wider(FOLDER, ROOT):
            return False
    except OSError:
        return False
    return has_features() and made_of == contents()


def subfolder(folder: str) -> str:
    """Below a cache's folder, the one for the kernels of a folder of sources: the same for the package wherever it lies."""
    path = pathlib.Path(folder)
    place = path.relative_to(ROOT.parent).as_posix() if path.is_relative_to(ROOT) else folder
    return f"{path.name}_{hashlib.blake2b(place.encode(), digest_size=16).hexdigest()}"
