"""A text as blocks of lines in bounded memory, and the numbers in it: a line or a number beyond the limits is a bad one."""

import os
from collections.abc import Callable, Iterator

from scmsim.core.errors import UsageError
from scmsim.trace.reading.input import Input

_BLOCK = 1 << 20
LONGEST = 1 << 20  # bytes; a longer line is cut into pieces of about this length, which then are bad lines
_DIGITS = 18  # of the largest number, so that sums stay in 64 bits
_FAR_TIME = 1 << 62  # ns

Progress = Callable[[int, int], None]


class BadLine(ValueError):
    """A line that an importer cannot understand; the text says why, `call` is what could be read of its system call."""

    call = ""


def blocks(
    path: "str | os.PathLike[str] | Input", what: str, progress: Progress | None = None, size: int = _BLOCK
) -> Iterator[list[str]]:
    """Yield the lines of a text in lists, without line ends, decoded as latin-1 (one character a byte).

    Parameters
    ----------
    path : path-like or Input
    what : str
        What the text should be, for the error about binary data.
    progress : callable, optional
        Called after each block with (bytes of the file read so far, bytes of the file).
    size : int
        Bytes of text in a block, about.
    """
    for text in byte_blocks(path, what, progress, size):
        yield text.decode("latin-1").removesuffix("\n").split("\n")


def byte_blocks(
    path: "str | os.PathLike[str] | Input", what: str, progress: Progress | None = None, size: int = _BLOCK
) -> Iterator[bytes]:
    """As `blocks`, each block as bytes that end with a line end, except perhaps the last and pieces of a long line."""
    with Input.of(path) as given:
        for text in _whole_lines(given, what, size):
            yield text
            if progress is not None:
                progress(given.taken, given.total)


def _whole_lines(given: Input, what: str, size: int) -> Iterator[bytes]:
    rest = b""
    while block := given.read(size):
        if b"\0" in block:
            raise UsageError(f"{given.path!r} is not {what}: it holds binary data")
        end = block.rfind(b"\n") + 1
        if end:
            yield rest + block[:end]
            rest = block[end:]
        else:
            rest += block
            if len(rest) >= LONGEST:
                yield rest
                rest = b""
    if rest:
        yield rest


def whole(text: str, what: str) -> int:
    """A whole number of 0 or more; raises BadLine."""
    if text.isdecimal() and text.isascii() and len(text) <= _DIGITS:
        return int(text)
    raise BadLine(f"{what} {clip(text)!r} is not a whole number below 10^{_DIGITS}")


def nanoseconds(text: str, unit_ns: int, what: str = "time") -> int:
    """A decimal number of `unit_ns` nanoseconds (a power of ten) as whole nanoseconds, rounded down; raises BadLine."""
    seconds, dot, fraction = text.partition(".")
    digits = len(str(unit_ns)) - 1
    if (seconds + fraction).isdecimal() and text.isascii() and seconds and len(seconds) <= _DIGITS + 1:
        ns = int(seconds) * unit_ns + int(f"{fraction[:digits]:0<{digits}}" or 0)
        if ns < _FAR_TIME:
            return ns
    raise BadLine(f"{what} {clip(text)!r} is not a time")


def clip(text: str) -> str:
    """The beginning of a text that may be long, for a message."""
    return text if len(text) <= 40 else f"{text[:40]}..."
