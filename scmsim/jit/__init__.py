"""The one decorator for kernels.

numba's disk cache notices a change of the decorated function's own file but not of a function that it calls in another
file, so the cache folder carries a digest of the sources that kernels can come from: editing one of them starts a fresh
folder.
"""

import functools
import hashlib
import os
import warnings

import numba
from numba import types
from numba.core import event
from numba.core.compiler import Compiler
from numba.core.errors import NumbaExperimentalFeatureWarning

from scmsim.core import compiling
from scmsim.jit import shipped
from scmsim.jit.cache import KernelCache, is_folder_writable

# A model that extends another's state record passes it to the other's kernels: the fields that they know come first.
warnings.filterwarnings("ignore", category=NumbaExperimentalFeatureWarning, message="Record")


def _digest() -> str:
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
    for path in shipped.source_files():
        stat = path.stat()
        digest.update(f"{path.relative_to(shipped.ROOT)}:{stat.st_size}:{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


if not os.environ.get("NUMBA_CACHE_DIR"):
    _base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    numba.config.CACHE_DIR = os.path.join(_base, "scmsim", _digest())


class _Teller(event.Listener):
    """Passes on what numba compiles; a function that it finds on disk is no such event."""

    def on_start(self, event):
        compiling.watcher.begins(event.data["dispatcher"].py_func.__module__)

    def on_end(self, event):
        compiling.watcher.ends()


event.register("numba:compile", _Teller())

# The way that `linking` compiles leans on numba's inside, so a numba that it has not been tested with compiles as it always does:
# with the same results, but twice as long.
LINKS = (0, 60) <= numba.version_info[:2] <= (0, 68) and not numba.config.DISABLE_JIT
if LINKS:
    from scmsim.jit import linking

    _KERNEL, _PART, _OPTIMIZED = linking.KernelCompiler, linking.PartCompiler, linking.OptimizedPartCompiler
    _OUTLINED = linking.OutlinedCompiler
else:
    _KERNEL = _PART = _OPTIMIZED = _OUTLINED = Compiler
_COMMON = {"nogil": True, "error_model": "numpy", "_nrt": False}
_INSIDE = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **_COMMON}
# Replays are a fifth slower if the MMU's parts are not optimised before they are compiled into their kernel; others gain nothing.
_OPTIMIZED_FIRST = "scmsim.mmu."


def kernel(function):
    """A function that Python calls; a kernel that calls it takes it as a part."""
    made = _kept(numba.njit(pipeline_class=_KERNEL, **_COMMON)(function))
    if LINKS:
        inside = subroutine(function)
        made.get_call_template, made.get_overload = inside.get_call_template, inside.get_overload
    made.made_by = kernel
    return made


def _kept(made):
    """The function with a cache on disk."""
    if not numba.config.DISABLE_JIT:
        made._cache = KernelCache(made.py_func)
    return made


def subroutine(function, compiler=None, forceinline=False):
    """A function that only kernels call."""
    # said in either case: numba has what a function calls inherit it
    compiler = compiler or (_OPTIMIZED if function.__module__.startswith(_OPTIMIZED_FIRST) else _PART)
    made = numba.njit(pipeline_class=compiler, forceinline=forceinline, **_INSIDE)(function)
    if not LINKS:
        _kept(made)
    if not numba.config.DISABLE_JIT:
        # compiled for `int`, not once more for each literal that it is called with
        template = made.get_call_template
        made.get_call_template = lambda args, kws: template(
            tuple(map(types.unliteral, args)), {name: types.unliteral(arg) for name, arg in kws.items()}
        )
    made.made_by = functools.partial(subroutine, compiler=compiler, forceinline=forceinline)
    return made


def inlined(function):
    """A small part that is always compiled into its callers: passing it three arrays costs more than what it does."""
    return subroutine(function, forceinline=True)


def outlined(function):
    """A part that is never compiled into its callers: what is seldom needed need not be compiled anew at each place."""
    return subroutine(function, _OUTLINED)


def is_kept(kernel):
    """Whether a kernel is on disk, compiled for whatever arguments; True of what is never kept."""
    cache = getattr(kernel, "_cache", None)
    return not isinstance(cache, KernelCache) or cache.is_kept()


def calling(*kernels):
    """Decorator for a function in Python that stands for a kernel: which ones it calls, the one that is needed first in front."""

    def marked(function):
        function.kernels = kernels
        return function

    return marked


def kernels_of(function):
    """The kernels that Python calls by a function: it itself, or those of `calling`."""
    return getattr(function, "kernels", (function,))


def compile_for(kernel, *arguments):
    """Compile a kernel for arguments like these, without running it."""
    kernel.compile(tuple(map(numba.typeof, arguments)))


def keeps():
    """Whether compiled kernels can be kept on disk, so that other processes find them."""
    return not numba.config.DISABLE_JIT and is_folder_writable(cache_folder())


def cache_folder():
    """The folder of the compiled kernels of this installation."""
    return numba.config.CACHE_DIR


def decorator_of(value):
    """Which of the decorators above made a function; None if none of them did."""
    return getattr(value, "__dict__", {}).get("made_by")
