"""Files of memory accesses -> arrays of event codes and addresses, streamed.

NumPy arrays (.npy) and raw little-endian 64-bit integers (.u64) are loads of byte addresses; Valgrind's lackey
(`valgrind --tool=lackey --trace-mem=yes`) writes one access per line; ChampSim's traces have 64 bytes per instruction
(inc/trace_instruction.h); `text_accesses` reads the text of other tools (.txt, .out, .din).  All but NumPy's may be compressed
(.gz, .xz).  `loads` and `is_access_file` also accept page runs and the Parquet of `scmsim.accesses`.
"""

import contextlib
import gzip
import lzma
import os
import pathlib
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from scmsim.accesses.processor import INSTRUCTION
from scmsim.core.errors import UsageError
from scmsim.core.records import FETCH, LOAD, STORE
from scmsim.mmu import page_runs, text_accesses

Batch = tuple[np.ndarray | None, np.ndarray]  # event codes (None: all loads), int64 addresses

KINDS = (".npy", ".u64", ".lackey", ".champsim", *text_accesses.ENDINGS)
_CHUNK = 1 << 17  # addresses read at once: they are still in the core's cache when they are looked up
_LACKEY = {b"I": (FETCH,), b"L": (LOAD,), b"S": (STORE,), b"M": (LOAD, STORE)}
_LONGEST = 1 << 12  # bytes of a line of text
_FOREIGN = 100  # at most one line in this many may be neither an access nor a message of valgrind


def is_access_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a file has memory accesses: by its name, or for Parquet by its metadata (traces are Parquet, too)."""
    return page_runs.is_page_runs(path) or _kind(pathlib.Path(path)) in KINDS or _has_table(path)


def read(path: str | os.PathLike[str]) -> Iterator[Batch]:
    """Yield batches of accesses.

    Raises UsageError for a file that is missing, of an unknown kind, damaged or without any access.
    """
    file = pathlib.Path(path)
    kind = _kind(file)
    readers = {".npy": _numpy, ".u64": _raw, ".lackey": _lackey, ".champsim": _champsim}
    readers |= dict.fromkeys(text_accesses.ENDINGS, _text)
    if kind not in readers:
        raise unknown_kind(path)
    found = False
    try:
        for codes, addresses in readers[kind](file):
            found = found or len(addresses) > 0
            yield codes, addresses
    except (OSError, EOFError, lzma.LZMAError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{str(path)!r} cannot be read: {reason}") from None
    if not found:
        raise UsageError(
            f"{str(path)!r} holds no access; record it again, or see the forms of FILE in 'scmsim mmu --help'"
        )


def unknown_kind(path: str | os.PathLike[str]) -> UsageError:
    """Return the error about a file whose name has none of the endings of files of accesses."""
    return UsageError(
        f"{str(path)!r} is not a file of memory accesses; use {', '.join(KINDS)}, all but .npy also .gz or .xz, or .parquet"
    )


def loads(path: str | os.PathLike[str]) -> Iterator[np.ndarray]:
    """Yield only the addresses of data accesses; a file of page runs or Parquet is accepted, too."""
    if page_runs.is_page_runs(path):
        yield from page_runs.addresses(path)
        return
    if is_table(path):
        from scmsim.mmu.data_addresses import addresses as pages_of

        for events, setup, _ in table_events(path):
            yield pages_of(events, setup.astype(np.int64), len(events), 1)
        return
    for codes, addresses in read(path):
        yield addresses if codes is None else addresses[codes != FETCH]


def is_table(path: str | os.PathLike[str]) -> bool:
    """Return whether the name ends in .parquet; only Parquet of `scmsim replay --accesses` can be read."""
    return pathlib.Path(path).suffix.lower() == ".parquet"


def _has_table(path: str | os.PathLike[str]) -> bool:
    """Return whether the file is Parquet of `scmsim replay --accesses`."""
    from scmsim.accesses import table

    return is_table(path) and table.is_table(path)


def table_events(path: str | os.PathLike[str]) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Yield the events of a Parquet file of accesses; see `scmsim.accesses.table.events`."""
    from scmsim.accesses import table

    return table.events(path)


def _kind(file: pathlib.Path) -> str:
    suffixes = [suffix.lower() for suffix in file.suffixes]
    if suffixes and suffixes[-1] in (".gz", ".xz"):
        suffixes.pop()
    return {".champsimtrace": ".champsim", ".trace": ".champsim"}.get(suffixes[-1], suffixes[-1]) if suffixes else ""


def _numpy(file: pathlib.Path) -> Iterator[Batch]:
    try:
        # copy-on-write copies nothing here; a read-only array would compile kernels for a second type
        array = np.load(file, mmap_mode="c", allow_pickle=False)
    except ValueError as error:
        raise UsageError(f"{str(file)!r} is not a NumPy array: {error}") from None
    if array.dtype.kind not in "iu":
        raise UsageError(f"{str(file)!r} holds {array.dtype}, not integers; save byte addresses")
    flat = array.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        part = np.ascontiguousarray(flat[start : start + _CHUNK])
        if part.dtype.kind == "i" and part.min() < 0:
            row = int(np.argmax(part < 0))
            raise UsageError(
                f"{str(file)!r}: entry {start + row} is {part[row]}, not an address; save kernel addresses as uint64"
            )
        yield None, part.view(np.int64) if part.dtype == np.uint64 else part.astype(np.int64)


def _raw(file: pathlib.Path) -> Iterator[Batch]:
    taken = 0
    with _open(file) as source:
        while got := _fill(source, block := np.empty(_CHUNK, "<i8")):
            taken += got
            yield None, block[: got // 8]
    if taken % 8:
        raise UsageError(f"{str(file)!r} has {taken} bytes, not a multiple of 8; give a complete .u64 file")


def _fill(source: IO[bytes], block: np.ndarray) -> int:
    """Read until the block is full or the file ends; return the number of bytes read."""
    room, got = block.data.cast("B"), 0
    while got < len(room) and (read := source.readinto(room[got:])):  # type: ignore[attr-defined]
        got += read
    return got


def _text(file: pathlib.Path) -> Iterator[Batch]:
    with _open(file) as source:
        yield from text_accesses.read(source, str(file))


def _lackey(file: pathlib.Path) -> Iterator[Batch]:
    from scmsim.mmu.lackey import FOUND, LINE, take_lines

    number = foreign = first = 0
    with _open(file) as source:
        while lines := source.readlines(1 << 22):
            text, at = np.frombuffer(b"".join(lines), np.uint8), np.zeros(3, np.int64)
            codes, addresses = np.empty(2 * len(lines), np.uint8), np.empty(2 * len(lines), np.int64)
            while True:
                take_lines(at, codes, addresses, text)
                if at[LINE] == len(lines):
                    break
                line = lines[at[LINE]]
                at += (len(line), 1, 0)
                access, address = _access(file, number + int(at[LINE]), line)
                if not access and line.strip() and not line.startswith(b"=="):  # "==" starts a message of valgrind
                    foreign, first = foreign + 1, first or number + int(at[LINE])
                for code in access:
                    codes[at[FOUND]], addresses.view(np.uint64)[at[FOUND]] = code, address
                    at[FOUND] += 1
            number += len(lines)
            if at[FOUND]:
                yield codes[: at[FOUND]], addresses[: at[FOUND]]
    if foreign * _FOREIGN > number:
        raise UsageError(
            f"{str(file)!r}: {foreign:,} of {number:,} lines are not accesses, the first is line {first}; let valgrind write to a "
            "file of its own with --log-file=F"
        )


def _access(file: pathlib.Path, number: int, line: bytes) -> tuple[tuple[int, ...], int]:
    """Return (event codes, address) of a line of lackey; the codes are empty if the line is not an access.

    Raises UsageError for an incomplete access.
    """
    access = _LACKEY.get(line[:2].strip())
    if access is None or line[2:3] != b" ":
        if len(line) > _LONGEST:
            raise UsageError(f"{str(file)!r}: line {number} is {len(line)} bytes long; this is not a lackey trace")
        return (), 0
    address, comma, size = line[3:].strip().partition(b",")
    try:
        value = int(address, 16)
        int(size)
    except ValueError:
        value = -1
    if not comma or not 0 <= value < 1 << 64:
        raise UsageError(
            f"{str(file)!r}: line {number}: {line[:40].decode('latin-1').strip()!r} is not an access; "
            "an access reads ' L 1ffefffe80,8'"
        )
    return access, value


def _champsim(file: pathlib.Path) -> Iterator[Batch]:
    with _open(file) as source:
        while block := source.read(INSTRUCTION.itemsize << 14):
            if len(block) % INSTRUCTION.itemsize:
                raise UsageError(f"{str(file)!r} ends within an instruction; it is cut short or not a ChampSim trace")
            table = np.frombuffer(block, INSTRUCTION)
            columns = [table["ip"][:, None], table["loads"], table["stores"]]
            every = np.concatenate(columns, axis=1)
            codes = np.repeat(np.array([FETCH, *[LOAD] * 4, *[STORE] * 2], np.uint8)[None], len(table), axis=0)
            there = every != 0
            yield codes[there], every[there].view(np.int64)


def _open(file: pathlib.Path) -> contextlib.AbstractContextManager[IO[bytes]]:
    openers: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
    opened: IO[bytes] = openers.get(file.suffix.lower(), open)(file, "rb")
    return opened
