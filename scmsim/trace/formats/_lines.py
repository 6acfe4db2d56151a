"""A text file as blocks of lines: bounded memory, gzip undone by its magic number, damaged input as one clear error."""

import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from scmsim.errors import UsageError

_BLOCK = 1 << 20
LONGEST = 1 << 20  # bytes; a longer line is cut into pieces of this length, which then are bad lines

Progress = Callable[[int, int], None]


def blocks(path: str | os.PathLike[str], what: str, progress: Progress | None = None) -> Iterator[list[str]]:
    """Yield the lines of a file in lists, without line ends, decoded as latin-1 (one character a byte).

    Parameters
    ----------
    path : path-like
    what : str
        What the file should be, for the error about binary data.
    progress : callable, optional
        Called after each block with (bytes of the file read so far, bytes of the file).
    """
    try:
        with open(path, "rb") as raw:
            total = os.fstat(raw.fileno()).st_size
            zipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            for lines in _split(gzip.GzipFile(fileobj=raw) if zipped else raw, path, what):
                if progress is not None:
                    progress(raw.tell(), total)
                yield lines
    except FileNotFoundError:
        raise UsageError(f"no file {str(path)!r} to convert") from None
    except IsADirectoryError:
        raise UsageError(f"{str(path)!r} is a directory; name a file of {what} in it") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UsageError(f"{str(path)!r}: damaged or cut gzip data ({error}); make the file again") from None


def _split(file: Any, path: str | os.PathLike[str], what: str) -> Iterator[list[str]]:
    rest = b""
    while block := file.read(_BLOCK):
        if b"\0" in block:
            raise UsageError(f"{str(path)!r} is not {what}: it holds binary data")
        rest += block
        end = rest.rfind(b"\n") + 1
        if end == 0 and len(rest) >= LONGEST:
            end = len(rest)
        if end:
            yield rest[:end].decode("latin-1").removesuffix("\n").split("\n")
            rest = rest[end:]
    if rest:
        yield rest.decode("latin-1").split("\n")
