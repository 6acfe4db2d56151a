"""The one decorator for kernels.

numba's disk cache notices a change of the decorated function's own file but not of a function that it calls in another
file, so the cache folder carries a digest of the sources that kernels can come from: editing one of them starts a fresh
folder.
"""

import hashlib
import os
import pathlib
import warnings

import numba
from numba.core.errors import NumbaExperimentalFeatureWarning

# A model that extends another's state record passes it to the other's kernels: the fields that they know come first.
warnings.filterwarnings("ignore", category=NumbaExperimentalFeatureWarning, message="Record")

_ROOT = pathlib.Path(__file__).parent
# the folders with kernels, beside the package's own files
_ROOMS = ("advise", "alloc", "crash", "fs", "medium", "mmu", "paging", "trace/kernels", "workload/kernels")


def _digest() -> str:
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
    for path in sorted([*_ROOT.glob("*.py"), *(path for room in _ROOMS for path in (_ROOT / room).rglob("*.py"))]):
        stat = path.stat()
        digest.update(f"{path.relative_to(_ROOT)}:{stat.st_size}:{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


if "NUMBA_CACHE_DIR" not in os.environ:
    _base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    numba.config.CACHE_DIR = os.path.join(_base, "scmsim", _digest())


def is_cold() -> bool:
    """Whether nothing has been compiled yet for these sources (the first replay after an installation or a change)."""
    return not numba.config.DISABLE_JIT and not os.path.isdir(numba.config.CACHE_DIR)


# A kernel that Python calls.
kernel = numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
# A kernel that only kernels call: without the wrappers for Python it compiles a third faster.  Arguments that are literals
# (`f(s, 1)`) would compile it once more for each value: pass a variable or a module's constant.
part = numba.njit(
    cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False
)
# A small part of a kernel that is always compiled into its callers: passing it three arrays costs more than what it does.
inlined = numba.njit(
    cache=True,
    nogil=True,
    error_model="numpy",
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
    _nrt=False,
    forceinline=True,
)
