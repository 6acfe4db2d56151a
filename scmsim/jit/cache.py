"""Compiled kernels on disk: read where they can be read, kept where they can be kept, never a reason to stop.

numba writes into a function's folder before it reads from it, stops if no folder is writable, and takes what it finds for whole.
A folder that others can write to is not used, as the index is a pickle, which can run anything (`core.private`).
Here a read-only folder is read, one that cannot be written is told once, and a file that a power cut or a full disk left in
pieces counts as missing and is written anew.  What is not there may be among the kernels that a wheel brings (`shipped`).
"""

import functools
import hashlib
import os
import pickle

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile

from scmsim.core import compiling, private
from scmsim.jit import shipped

_DIGEST = 16  # bytes before the data of a file


def _digest(data):
    return hashlib.blake2b(data, digest_size=_DIGEST).digest()


class _Folder:
    """Where the kernels of a source file are kept, below `numba.config.CACHE_DIR`; what numba calls a locator."""

    def __init__(self, py_func, py_file):
        self._py_file, self._line = os.path.abspath(py_file), py_func.__code__.co_firstlineno

    @classmethod
    def from_function(cls, py_func, py_file):
        """The folder, which is made when there is something to keep."""
        return cls(py_func, py_file)

    def ensure_cache_path(self):
        """Make the folder; that it is not writable is found by writing."""
        private.make(self.get_cache_path())

    def get_cache_path(self):
        """One folder for the source files of a folder."""
        return os.path.join(numba.config.CACHE_DIR, shipped.subfolder(os.path.dirname(self._py_file)))

    def get_source_stamp(self):
        """The state of the source file: numba drops what another state was compiled to."""
        stat = os.stat(self._py_file)
        return stat.st_size, stat.st_mtime_ns

    def get_disambiguator(self):
        """Tells functions of one name apart."""
        return str(self._line)


class _Kernels(CompileResultCacheImpl):
    _locator_classes = [_Folder]  # no other: numba would fall back to the package's own __pycache__


class _Files(IndexDataCacheFile):
    """numba's two kinds of files, each with a digest in front."""

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
            raise OSError(str(error)) from None  # `load` takes it as missing


class _Shipped(_Files):
    """The files of a wheel: when their source was written is of no matter, since its contents were compared.

    Who can write them can write the package (`shipped.fits`).
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
    """Return why nothing in a folder may be loaded, "" if it may; warn at the first that may not."""
    fault = private.fault(folder)
    if fault and KernelCache._keeps:
        KernelCache._keeps = False
        compiling.watcher.not_kept(folder, fault)
    return fault


def is_folder_writable(path):
    """Return whether files of the user alone can be made in a folder that may have to be made first."""
    try:
        private.make(path)
    except OSError:
        return False
    return os.access(path, os.W_OK) and not private.fault(path)


class KernelCache(FunctionCache):
    """The cache of one kernel; after the first file that cannot be written no kernel of this process is kept."""

    _impl_class = _Kernels
    _keeps = True

    def __init__(self, py_func):
        super().__init__(py_func)
        impl = self._impl
        self._cache_file = _Files(self._cache_path, impl.filename_base, impl.locator.get_source_stamp())

    def is_kept(self):
        """Whether the kernel is on disk, compiled for some arguments by this numba from this source."""
        return bool(self._cache_file._load_index() or (self._shipped and self._shipped._load_index()))

    @property
    def _shipped(self):
        """The kernel's files of the wheel; None where they do not fit."""
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
        """Keep a compiled kernel if that is possible."""
        if not KernelCache._keeps or _fault(self._cache_path):
            return
        try:
            super().save_overload(sig, data)
        except OSError as error:
            KernelCache._keeps = False
            why = os.strerror(error.errno).lower() if error.errno else str(error)
            compiling.watcher.not_kept(self._cache_path, why)
