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
from numba import types
from numba.core.compiler import Compiler
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


# The way that `_linking` compiles leans on numba's inside, so a numba that it has not been tested with compiles as it always does:
# with the same results, but twice as long.
LINKS = (0, 60) <= numba.version_info[:2] <= (0, 68) and not numba.config.DISABLE_JIT
if LINKS:
    from scmsim import _linking

    _KERNEL, _PART, _OPTIMIZED = _linking.KernelCompiler, _linking.PartCompiler, _linking.OptimizedPartCompiler
else:
    _KERNEL = _PART = _OPTIMIZED = Compiler
_COMMON = {"nogil": True, "error_model": "numpy", "_nrt": False}
_INSIDE = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "cache": not LINKS, **_COMMON}
# Replays are a fifth slower if the MMU's parts are not optimised before they are compiled into their kernel; others gain nothing.
_OPTIMIZED_FIRST = "scmsim.mmu."


def kernel(function):
    """A function that Python calls; a kernel that calls it takes it as a part."""
    made = numba.njit(cache=True, pipeline_class=_KERNEL, **_COMMON)(function)
    if LINKS:
        inside = part(function)
        made.get_call_template, made.get_overload = inside.get_call_template, inside.get_overload
    return made


def part(function, **options):
    """A function that only kernels call."""
    compiler = _OPTIMIZED if function.__module__.startswith(_OPTIMIZED_FIRST) else _PART
    made = numba.njit(pipeline_class=compiler, **_INSIDE, **options)(function)
    if not numba.config.DISABLE_JIT:
        # compiled for `int`, not once more for each literal that it is called with
        template = made.get_call_template
        made.get_call_template = lambda args, kws: template(
            tuple(map(types.unliteral, args)), {name: types.unliteral(arg) for name, arg in kws.items()}
        )
    return made


def inlined(function):
    """A small part that is always compiled into its callers: passing it three arrays costs more than what it does."""
    return part(function, forceinline=True)
