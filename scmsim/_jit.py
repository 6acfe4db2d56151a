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
from numba.core.types import unliteral

from scmsim._linking import KernelCompiler, PartCompiler

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


_COMMON = {"nogil": True, "error_model": "numpy", "_nrt": False}
_compile_kernel = numba.njit(cache=True, pipeline_class=KernelCompiler, **_COMMON)
_compile_part = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=PartCompiler, **_COMMON)
_compile_inlined = numba.njit(
    no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=PartCompiler, forceinline=True, **_COMMON
)


def _as_part(dispatcher):
    """`dispatcher` as kernels are to call it: compiled for `int`, not once more for each literal that it is called with."""
    if not numba.config.DISABLE_JIT:
        template = dispatcher.get_call_template
        dispatcher.get_call_template = lambda args, kws: template(
            tuple(map(unliteral, args)), {name: unliteral(arg) for name, arg in kws.items()}
        )
    return dispatcher


def kernel(function):
    """A function that Python calls; a kernel that calls it takes it as a part."""
    made = _compile_kernel(function)
    if not numba.config.DISABLE_JIT:
        inside = part(function)
        made.get_call_template, made.get_overload = inside.get_call_template, inside.get_overload
    return made


def part(function):
    """A function that only kernels call."""
    return _as_part(_compile_part(function))


def inlined(function):
    """A small part that is always compiled into its callers: passing it three arrays costs more than what it does."""
    return _as_part(_compile_inlined(function))
