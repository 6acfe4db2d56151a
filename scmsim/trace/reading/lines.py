"""Read text as blocks of lines in bounded memory, and parse numbers; lines and numbers beyond the limits are bad."""

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

from scmsim.core.errors import UsageError
from scmsim.trace.reading.input import Input

_BLOCK = 1 << 20
LONGEST = 1 << 20  # bytes; a longer line is cut into pieces of about this length, which become bad lines
MOST_TITLES = 20  # limit of title lines before the first row of a table
_DIGITS = 18  # limit of a number's digits, so that sums fit in 64 bits
_FAR_TIME = 1 << 62  # limit of a time stamp, ns
# a conversion stops after this many consecutive blank lines, because an importer spends microseconds on each
_BLANKS = 1 << 16
_USUAL_LINE = 16  # bytes: a block of shorter lines is split into pieces, because an importer needs memory for each line
_PIECES = 16
_NEWLINE = 10

Progress = Callable[[int, int], None]


class BadLine(ValueError):
    """Error of a line that an importer cannot understand, with the reason; `call` has the readable part of its call."""

    call = ""


def blocks(
    path: "str | os.PathLike[str] | Input", what: str, progress: Progress | None = None, size: int = _BLOCK
) -> Iterator[list[str]]:
    """Yield the lines of a text in lists, without line ends, decoded as latin-1 (one character per byte).

    Parameters
    ----------
    path : path-like or Input
    what : str
        Name of the format, for the error about binary data.
    progress : callable, optional
        Called after each block with (bytes of the file read so far, bytes of the file).
    size : int
        Approximate bytes of text per block.
    """
    for text in byte_blocks(path, what, progress, size):
        yield text.decode("latin-1").removesuffix("\n").split("\n")


def byte_blocks(
    path: "str | os.PathLike[str] | Input", what: str, progress: Progress | None = None, size: int = _BLOCK
) -> Iterator[bytes]:
    """Yield `blocks` as bytes; each ends with a line end, except perhaps the last one and pieces of a long line."""
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
            yield from _pieces(given, rest + block[:end], size)
            rest = block[end:]
        else:
            rest += block
            if len(rest) >= LONGEST:
                yield rest
                rest = b""
    if rest:
        yield from _pieces(given, rest, size)


def _pieces(given: Input, text: bytes, size: int) -> Iterator[bytes]:
    """Yield whole lines with Linux's line ends: all at once, or in pieces if the lines are very short."""
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
    if b"\n" * _BLANKS in text or (len(text) > _BLANKS and text.isspace()):
        raise UsageError(
            f"{given.path!r} has very many blank lines in a row; if it is not damaged, remove them with: grep -v '^ *$'"
        )
    start, step = 0, len(text)
    if line_ends(text) * _USUAL_LINE > size:
        step = size // _PIECES
    while start < len(text):
        end = text.find(b"\n", start + step - 1) + 1 or len(text)
        yield text[start:end]
        start = end


def line_ends(text: bytes) -> int:
    """Return the number of line ends; NumPy counts them five times as fast as `bytes.count`."""
    import numpy as np  # not above: a capture loads this module before the command starts

    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == _NEWLINE))


def is_title(line: str, delimiter: str) -> bool:
    """Return whether a line before the first row of a table is a title: blank, a comment, or without a number."""
    return line.startswith("#") or not any(cell.strip(' \t"')[:1].isdigit() for cell in line.split(delimiter))


def rows_of(head: bytes, delimiter: str) -> bytes:
    """Return the first row of a table after its titles, without quotes and without blanks around the cells."""
    lines = head.decode("latin-1").split("\n")
    first = next((i for i, line in enumerate(lines[:MOST_TITLES]) if not is_title(line, delimiter)), 0)
    cells = ((cell.strip(' \t"') for cell in line.split(delimiter)) for line in lines[first : first + 1])
    return (
        "\n".join(delimiter.join(filter(None, row) if delimiter == " " else row) for row in cells).encode("latin-1")
        + b"\n"
    )


def whole(text: str, what: str) -> int:
    """Return the whole number (0 or more) in a text; raise BadLine if the text is not a whole number."""
    if text.isdecimal() and text.isascii() and len(text) <= _DIGITS:
        return int(text)
    raise BadLine(f"{what} {clip(text)!r} is not a whole number below 10^{_DIGITS}")


def nanoseconds(text: str, unit_ns: int, what: str = "time") -> int:
    """Return a decimal number of `unit_ns` ns (a power of ten) as whole ns, rounded down; raise BadLine if invalid."""
    seconds, dot, fraction = text.partition(".")
    digits = len(str(unit_ns)) - 1
    if (seconds + fraction).isdecimal() and text.isascii() and seconds and len(seconds) <= _DIGITS + 1:
        ns = int(seconds) * unit_ns + int(f"{fraction[:digits]:0<{digits}}" or 0)
        if ns < _FAR_TIME:
            return ns
    raise BadLine(f"{what} {clip(text)!r} is not a time")


def json_object(text: str) -> dict[str, Any]:
    """Return the JSON object of a line, or raise BadLine."""
    try:
        found = json.loads(text.encode("latin-1").decode())
    except (ValueError, RecursionError):
        raise BadLine(f"no JSON: {clip(text)!r}") from None
    if not isinstance(found, dict):
        raise BadLine(f"no JSON object: {clip(text)!r}")
    return found


def clip(text: str) -> str:
    """Return the beginning of a text that may be long, for a message."""
    return text if len(text) <= 40 else f"{text[:40]}..."
