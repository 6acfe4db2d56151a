"""Keep compiled kernels on disk, and load them; a failure of the cache never stops the program.

Without this module numba writes into a function's folder before reading it, stops if no folder is writable, and trusts every file
to be complete.  Here a read-only folder is read, an unwritable folder is reported once, and a file damaged by a power cut or a
full disk counts as missing and is written again.  A folder that others can write to is not used: the index is a pickle, which can
run any code (`core.private`).  Kernels that are not in the folder may come with the wheel (`shipped`).
"""

import functools
import hashlib
import os
import pickle

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile

from scmsim.core import compiling, private
from scmsim.jit import shipped

_DIGEST = 16  # bytes of the digest before a file's data


def _digest(data):
    return hashlib.blake2b(data, digest_size=_DIGEST).digest()


class _Folder:
    """The folder of a source file's kernels, below `numba.config.CACHE_DIR`; numba calls such a class a locator."""

    def __init__(self, py_func, py_file):
        self._py_file, self._line = os.path.abspath(py_file), py_func.__code__.co_firstlineno

    @classmethod
    def from_function(cls, py_func, py_file):
        """Return the locator; the folder is created when there is a kernel to keep."""
        return cls(py_func, py_file)

    def ensure_cache_path(self):
        """Create the folder; a later write finds out whether it is writable."""
        private.make(self.get_cache_path())

    def get_cache_path(self):
        """Return the path: one cache folder per folder of source files."""
        return os.path.join(numba.config.CACHE_DIR, shipped.subfolder(os.path.dirname(self._py_file)))

    def get_source_stamp(self):
        """Return the state of the source file: numba discards kernels compiled from another state."""
        stat = os.stat(self._py_file)
        return stat.st_size, stat.st_mtime_ns

    def get_disambiguator(self):
        """Return the line number, which tells functions of the same name apart."""
        return str(self._line)


class _Kernels(CompileResultCacheImpl):
    _locator_classes = [_Folder]  # no other locator: numba would fall back to the package's __pycache__


class _Files(IndexDataCacheFile):
    """The two kinds of files of numba's cache, each with a digest at the start."""

    _trusted = False

    def _dump(self, obj):
        data = super()._dump(obj)
        return _digest(data) + data

    def _save_index(self, overloads):
        with self._open_for_write(self._index_path) as file:
            file.write(self._dump((self._version, self._source_stamp, overloads)))

    def _load_index(self):
        try:
            if _fault(os.path.dirname(self._index_path)):
                return {}
            version, stamp, overloads = _read(self._index_path)
        except Exception:  # unpickling what another numba wrote may raise anything
            return {}
        return overloads if (version, stamp) == (self._version, self._source_stamp) else {}

    def _load_data(self, name):
        try:
            return _read(self._data_path(name), self._trusted)
        except Exception as error:
            raise OSError(str(error)) from None  # `load` treats OSError as a missing file


class _Shipped(_Files):
    """Cache files from a wheel; timestamps of sources do not matter, because `shipped.fits` compared the contents.

    The files are trusted: only users who can write to the package can write to them (`shipped.fits`).
    """

    _trusted = True

    def _load_index(self):
        try:
            version, _, overloads = _read(self._index_path, trusted=True)
        except Exception:
            return {}
        return overloads if version == self._version else {}


def _read(path, trusted=False):
    with open(path, "rb") as file:
        if not trusted and private.foreign(file.fileno()):
            raise PermissionError(f"{path} could be written by others")
        digest, data = file.read(_DIGEST), file.read()
    if digest != _digest(data):
        raise ValueError(f"{path} is damaged")
    return pickle.loads(data)


@functools.cache
def _fault(folder):
    """Return why files of a folder must not be loaded, or "" if they may; warn about the first unsafe folder."""
    fault = private.fault(folder)
    if fault and KernelCache._keeps:
        KernelCache._keeps = False
        compiling.watcher.not_kept(folder, fault)
    return fault


def is_folder_writable(path):
    """Return whether the user, and no one else, can write files in a folder; create the folder if needed."""
    try:
        private.make(path)
    except OSError:
        return False
    return os.access(path, os.W_OK) and not private.fault(path)


class KernelCache(FunctionCache):
    """The cache of one kernel; after the first failed write, this process keeps no more kernels."""

    _impl_class = _Kernels
    _keeps = True

    def __init__(self, py_func):
        super().__init__(py_func)
        impl = self._impl
        self._cache_file = _Files(self._cache_path, impl.filename_base, impl.locator.get_source_stamp())

    def is_kept(self):
        """Return whether the kernel is on disk, compiled for some arguments by this numba from this source."""
        return bool(self._cache_file._load_index() or (self._shipped and self._shipped._load_index()))

    @property
    def _shipped(self):
        """Cache files of the kernel from the wheel; None if the files do not fit this installation."""
        if not shipped.fits():
            return None
        folder = os.path.join(shipped.FOLDER, os.path.basename(self._cache_path))
        return _Shipped(folder, self._impl.filename_base, None)

    def _load_overload(self, sig, target_context):
        found = super()._load_overload(sig, target_context)
        if found is not None or not self._shipped:
            return found
        sig, (triple, *_), code = self._index_key(sig, target_context.codegen())
        data = self._shipped.load((sig, (triple, shipped.CPU, shipped.NO_MORE), code))
        return None if data is None else self._impl.rebuild(target_context, data)

    def save_overload(self, sig, data):
        """Keep a compiled kernel if possible."""
        if not KernelCache._keeps or _fault(self._cache_path):
            return
        try:
            super().save_overload(sig, data)
        except OSError as error:
            KernelCache._keeps = False
            why = os.strerror(error.errno).lower() if error.errno else str(error)
            compiling.watcher.not_kept(self._cache_path, why)
