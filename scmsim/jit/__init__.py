"""Decorators that compile kernels and their parts with numba.

numba's disk cache notices a change in the decorated function's own file, but not in a function that it calls in another
file.  So the name of the cache folder has a digest of all sources of kernels: editing one of them starts a new folder.
"""

import contextlib
import ctypes
import functools
import hashlib
import logging
import os
import warnings

import numba
from llvmlite.binding import add_symbol
from numba import types
from numba.core import event
from numba.core.compiler import Compiler
from numba.core.errors import NumbaExperimentalFeatureWarning

from scmsim.core import compiling
from scmsim.jit import shipped
from scmsim.jit.cache import KernelCache, is_folder_writable

_LOG = logging.getLogger("scmsim")

# Numba warns when a model that extends another model's state record passes the longer record to the other model's kernels.
# This is safe: the fields that those kernels know come first.
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
    """A listener that reports what numba compiles; loading a function from disk is not reported."""

    def on_start(self, event):
        function = event.data["dispatcher"].py_func
        _LOG.debug("compiling %s of %s: not in %s", function.__qualname__, function.__module__, cache_folder())
        compiling.watcher.begins(function.__module__)

    def on_end(self, event):
        compiling.watcher.ends()


event.register("numba:compile", _Teller())

# LLVM replaces a counting loop with a closed formula that may need a 128-bit division, which is a call of a libgcc function.  numba
# does not register these functions, and a kernel that calls an unregistered function has the address 0.
with contextlib.suppress(OSError, AttributeError):
    _library = ctypes.CDLL("libgcc_s.so.1")
    for _name in ("__divti3", "__modti3", "__udivti3", "__umodti3"):
        add_symbol(_name, ctypes.cast(_library[_name], ctypes.c_void_p).value)

# `linking` depends on numba's internals, so an untested version of numba compiles in its usual way: with the same results, but in
# twice the time.
LINKS = (0, 60) <= numba.version_info[:2] <= (0, 68) and not numba.config.DISABLE_JIT
if LINKS:
    from scmsim.jit import linking

    _KERNEL, _PART, _OPTIMIZED = linking.KernelCompiler, linking.PartCompiler, linking.OptimizedPartCompiler
    _OUTLINED = linking.OutlinedCompiler
else:
    _KERNEL = _PART = _OPTIMIZED = _OUTLINED = Compiler
_COMMON = {"nogil": True, "error_model": "numpy", "_nrt": False}
_INSIDE = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **_COMMON}
# Replays are a fifth slower if the MMU's parts are not optimised before they are compiled into their kernel; other parts gain
# nothing.
_OPTIMIZED_FIRST = "scmsim.mmu."


def kernel(function):
    """Compile a function that Python calls; a kernel that calls the function includes it as a part."""
    made = _kept(numba.njit(pipeline_class=_KERNEL, **_COMMON)(function))
    if LINKS:
        inside = subroutine(function)
        made.get_call_template, made.get_overload = inside.get_call_template, inside.get_overload
    made.made_by = kernel
    return made


def _kept(made):
    """Return the function with a cache on disk."""
    if not numba.config.DISABLE_JIT:
        made._cache = KernelCache(made.py_func)
    return made


def subroutine(function, compiler=None, forceinline=False):
    """Compile a function that only kernels call."""
    # `forceinline` is passed even if False: otherwise callees inherit the caller's flag
    compiler = compiler or (_OPTIMIZED if function.__module__.startswith(_OPTIMIZED_FIRST) else _PART)
    made = numba.njit(pipeline_class=compiler, forceinline=forceinline, **_INSIDE)(function)
    if not LINKS:
        _kept(made)
    if not numba.config.DISABLE_JIT:
        # compile once for `int`, not again for each literal argument
        template = made.get_call_template
        made.get_call_template = lambda args, kws: template(
            tuple(map(types.unliteral, args)), {name: types.unliteral(arg) for name, arg in kws.items()}
        )
    made.made_by = functools.partial(subroutine, compiler=compiler, forceinline=forceinline)
    return made


def inlined(function):
    """Compile a small part and always inline it: passing three arrays costs more than the part's work."""
    return subroutine(function, forceinline=True)


def outlined(function):
    """Compile a part and never inline it: rarely executed code need not be compiled again at each call site."""
    return subroutine(function, _OUTLINED)


def hook(function):
    """Declare a subroutine that every family binds: its name, its arguments and, in its docstring, what it does.

    It has no code, and is not compiled: `scmsim.jit.binding.bind` refuses a family that leaves it unbound.
    """
    function.is_hook = True
    return function


def is_kept(kernel):
    """Return whether a kernel is on disk, compiled for any arguments; True for a function that is never kept."""
    cache = getattr(kernel, "_cache", None)
    return not isinstance(cache, KernelCache) or cache.is_kept()


def calling(*kernels):
    """Decorate a Python function that calls `kernels`; the first of `kernels` must be the kernel that it needs first."""

    def marked(function):
        function.kernels = kernels
        return function

    return marked


def kernels_of(function):
    """Return the kernels that a function runs: those given to `calling`, else the function itself."""
    return getattr(function, "kernels", (function,))


def compile_for(kernel, *arguments):
    """Compile a kernel for the types of `arguments`, without running it."""
    kernel.compile(tuple(map(numba.typeof, arguments)))


def keeps():
    """Return whether compiled kernels can be kept on disk, where other processes find them."""
    return not numba.config.DISABLE_JIT and is_folder_writable(cache_folder())


def cache_folder():
    """Return the folder of this installation's compiled kernels."""
    return numba.config.CACHE_DIR


def decorator_of(value):
    """Return the decorator of this module that made a function, or None."""
    return getattr(value, "__dict__", {}).get("made_by")
