"""Write the accesses of a replay as a trace for other simulators; `writing` opens a writer for a format.

- `rows` makes the rows that a writer receives.
- `memory` writes requests to the device, for simulators of memory (Ramulator 2, DRAMsim3).
- `processor` writes virtual addresses, for simulators of processors and TLBs (ChampSim, `.u64`).
- `table` writes every row as Parquet, which `scmsim mmu` replays exactly.
"""

import contextlib
import gzip
import lzma
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import IO, Any, NamedTuple, Protocol

from scmsim.accesses.rows import Rows
from scmsim.core.atomic import whole
from scmsim.core.errors import UsageError, expect, unknown

FORMATS = {  # name -> description; a file's extension is the name of its format
    "ramulator": "Ramulator 2's LoadStoreTrace: LD or ST and the address in the device, a line of text for each 64 bytes",
    "dramsim3": "DRAMsim3's trace: address in the device, READ or WRITE, cycle; a line of text for each 64 bytes",
    "champsim": "ChampSim's binary instructions, with virtual addresses, one for each 64 bytes",
    "u64": "virtual addresses of data, 8 bytes each, one for each 64 bytes",
    "parquet": "every run with kind, addresses, size, page, mechanism and operation",
}
_EXTENSIONS = {**{f".{name}": name for name in FORMATS}, ".champsimtrace": "champsim"}
_COMPRESSED = (".gz", ".xz")
_XZ_PRESET = 1  # for repetitive records, preset 6 takes several times as long and yields files of about the same size


class Writer(Protocol):
    """Writer of one format; `counts` has the number of written items by kind."""

    counts: dict[str, int]

    def add(self, rows: Rows) -> None: ...


class Form(NamedTuple):
    """The format of a file, and its compression: a suffix of _COMPRESSED, or ""."""

    name: str
    compressed: str


def form_of(path: "str | os.PathLike[str]", name: str | None = None) -> Form:
    """Return the format and compression of a file by its name; `name`, if given, is the format.

    Raises UsageError for an unknown extension or format, and for a compressed Parquet file.
    """
    expect("accesses", path, (str, os.PathLike), "the name of a file")
    suffixes = [suffix.lower() for suffix in pathlib.Path(path).suffixes]
    compressed = suffixes.pop() if suffixes and suffixes[-1] in _COMPRESSED else ""
    if name is None:
        name = _EXTENSIONS.get(suffixes[-1] if suffixes else "")
        if name is None:
            raise UsageError(
                f"cannot tell the format of {os.fspath(path)!r} from its name; give --accesses-format, or end the name in "
                f"{', '.join(_EXTENSIONS)} (all but .parquet may be compressed: {', '.join(_COMPRESSED)})"
            )
    expect("accesses_format", name, str, f"one of {', '.join(FORMATS)}")
    if name not in FORMATS:
        raise unknown("format of accesses", name, FORMATS)
    if name == "parquet" and compressed:
        raise UsageError(
            f"{os.fspath(path)!r}: Parquet files are compressed internally; leave {compressed!r} out of the name"
        )
    return Form(name, compressed)


@contextlib.contextmanager
def writing(
    path: "str | os.PathLike[str]", form: Form, sites: Sequence[str], header: Mapping[str, Any]
) -> Iterator[Writer]:
    """Yield a writer; the complete file appears at the end of the block, or not at all if the block fails.

    `sites` are the names of the model's mechanisms; `header` is the provenance, which only a Parquet file stores.
    """
    with whole(path) as draft:
        if form.name == "parquet":
            from scmsim.accesses import table

            with table.Writer(draft, sites, header) as writer:
                yield writer
            return
        from scmsim.accesses import memory, processor

        writers: dict[str, Callable[[IO[bytes]], Writer]] = {
            "ramulator": memory.Ramulator,
            "dramsim3": memory.Dramsim3,
            "champsim": processor.Champsim,
            "u64": processor.Addresses,
        }
        with _opened(draft, form.compressed) as out:
            yield writers[form.name](out)


def _opened(path: pathlib.Path, compressed: str) -> IO[bytes]:
    openers: dict[str, Any] = {
        ".gz": partial(gzip.open, compresslevel=1),
        ".xz": partial(lzma.open, preset=_XZ_PRESET),
    }
    opened: IO[bytes] = openers.get(compressed, open)(path, "wb")
    return opened
