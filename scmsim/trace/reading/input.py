"""Read an importer's input: a file or standard input, once from its start, decompressed by its magic number."""

import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Iterator
from typing import Any

from scmsim.core.atomic import protect
from scmsim.core.errors import UsageError

HEAD = 1 << 14  # bytes that a sniffer gets
STDIN = "-"
_BOM = b"\xef\xbb\xbf"
_GZIP, _XZ, _ZSTD = b"\x1f\x8b", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"
_LONGEST_MAGIC = 6
_PACKED = 1 << 14  # bytes of compressed data read ahead; small, because `taken` measures the progress


class _Raw(io.RawIOBase):
    """The bytes of an open file whose first bytes were read already; works on a pipe, which cannot seek.

    The file is unbuffered: a buffered file reads a pipe repeatedly until the buffer is full, and handles a signal only
    if it interrupts a read, so a signal between two reads would wait for the pipe.
    """

    def __init__(self, first: bytes, file: Any) -> None:
        self._first = memoryview(first)
        self._file = file
        self.taken = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if len(self._first):
            count = min(len(buffer), len(self._first))
            buffer[:count], self._first = self._first[:count], self._first[count:]
        else:
            count = self._file.readinto(buffer)
        self.taken += count
        return count


def _stdin() -> Any:
    return getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)


class Input:
    """A file to convert, a context manager; `head` has its first bytes, decompressed.

    Text loses its byte-order mark; line ends in `head` are `\\n` (`byte_blocks` converts the line ends of the rest).

    Attributes
    ----------
    path : str
        The path as given; "-" is standard input.
    name : str
        The name without directories, for the header of a trace.
    total : int
        Bytes of the file as stored, 0 if unknown (a pipe).
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.name = "standard input" if self.path == STDIN else os.path.basename(self.path)
        try:
            self._file: Any = _stdin() if self.path == STDIN else open(path, "rb", buffering=0)
        except FileNotFoundError:
            raise UsageError(f"no file {self.path!r} to convert") from None
        except IsADirectoryError:
            raise UsageError(f"{self.path!r} is a directory; name a trace file in it") from None
        if self.path != STDIN:
            protect(path)
        self.total = 0 if self.path == STDIN else os.fstat(self._file.fileno()).st_size
        first = b""
        while len(first) < _LONGEST_MAGIC and (part := self._file.read(_LONGEST_MAGIC - len(first))):
            first += part
        self._raw = _Raw(first, self._file)
        self._stream = self._decompressed(first)
        start = self._read_all(HEAD)
        is_text = b"\0" not in start
        self._rest = start.removeprefix(_BOM) if is_text else start
        self.head = self._rest.replace(b"\r\n", b"\n") if is_text else start

    @classmethod
    def of(cls, given: "str | os.PathLike[str] | Input") -> "Input":
        """Return an input unchanged, or open the file of a path."""
        return given if isinstance(given, Input) else cls(given)

    def __enter__(self) -> "Input":
        return self

    def __exit__(self, *error: object) -> None:
        if self.path != STDIN:
            self._file.close()

    @property
    def taken(self) -> int:
        """Return how many bytes of the stored file were read so far."""
        return self._raw.taken

    def read(self, count: int) -> bytes:
        """Return at most `count` bytes, b"" at the end; raise UsageError for damaged compressed data."""
        if self._rest:
            out, self._rest = self._rest[:count], self._rest[count:]
            return out
        try:
            return self._stream.read(count) or b""
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise UsageError(
                f"{self.path!r}: damaged or cut {self._kind} data ({error}); create the file again"
            ) from None

    def skip_line(self) -> None:
        """Skip the first line, which must end within `head`."""
        self._rest = self._rest.partition(b"\n")[2]

    def blocks(self, count: int) -> Iterator[bytes]:
        """Yield blocks of exactly `count` bytes; the last may be shorter."""
        while block := self._read_all(count):
            yield block

    def _read_all(self, count: int) -> bytes:
        parts, missing = [], count
        while missing and (part := self.read(missing)):
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def _decompressed(self, first: bytes) -> Any:
        self._rest, self._kind = b"", "gzip"
        is_packed = first.startswith((_GZIP, _XZ, _ZSTD))
        buffered = io.BufferedReader(self._raw, _PACKED if is_packed else 1 << 20)
        if first.startswith(_GZIP):
            return gzip.GzipFile(fileobj=buffered)
        if first.startswith(_XZ):
            self._kind = "xz"
            return lzma.LZMAFile(buffered)
        if first.startswith(_ZSTD):
            import pyarrow as pa

            self._kind = "zstd"
            return pa.CompressedInputStream(pa.PythonFile(buffered, mode="r"), "zstd")
        return buffered
