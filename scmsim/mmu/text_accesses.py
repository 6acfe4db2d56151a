"""Read text of memory accesses, one line per access, as tracers and other simulators print it.

Forms, recognised by the first lines: Pin's pinatrace (`IP: R|W ADDRESS`), the text of drmemtrace's view tool (DynamoRIO),
dinero's din and extended din (`LABEL ADDRESS [SIZE]`), gem5's decoded packets of a CommMonitor (util/decode_packet_trace.py), and
lines of a hexadecimal address alone, as `perf script -F addr` or `-F event,addr` prints them.
"""

import re
from collections.abc import Iterator
from typing import IO, NamedTuple

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import FETCH, LOAD, STORE

ENDINGS = (".txt", ".out", ".din")
_BLOCK = 1 << 22  # bytes of lines that are read at once
_SNIFFED = 50  # lines from which the form is recognised
_FOREIGN = 100  # at most one line in this many may be something else than an access
_HEX = rb"(?:0x)?([0-9a-fA-F]{1,16})"
_LESS = re.compile(rb"[ \t]*(?:#.*)?\r?", re.MULTILINE)  # blank lines and comments, such as pinatrace's "#eof"


class _Form(NamedTuple):
    """One form of lines: the groups of `access` are the kind and the address; `beside` matches lines without an access."""

    name: str
    access: re.Pattern[bytes]
    kinds: dict[bytes, int | None]  # None: not an access of memory
    base: int = 16
    bare: bool = False  # whether addresses may lack 0x, so that decimal ones look like hexadecimal ones
    beside: re.Pattern[bytes] | None = None


def _pattern(text: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"^[ \t]*" + text + rb"[ \t]*\r?$", re.MULTILINE)


_DIN: dict[bytes, int | None] = {
    **dict.fromkeys((b"0", b"r", b"R"), LOAD),
    **dict.fromkeys((b"1", b"w", b"W"), STORE),
    **dict.fromkeys((b"2", b"i", b"I", b"f", b"F"), FETCH),
    **dict.fromkeys((b"3", b"4", b"m", b"M", b"x", b"X", b"c", b"C"), None),  # misc, copy back, invalidate
}
# with the event of perf script, as in `COMM TID TIME: EVENT: ADDRESS`
_PLAIN = _Form("hexadecimal addresses", _pattern(rb"(?:(?:.*[ \t])?(\S+):[ \t]+)?" + _HEX), {}, bare=True)
_RECORD = rb"(?:\d+[ ]+)?(?:\d+:[ ]+)?T?\d+[ ]+"  # numbers of the record and the instruction, and the thread
_LETTER = re.compile(rb"[a-fA-F]").search
_FORMS = (
    # Pin's SimpleExamples/pinatrace adds the size and the value; other tools add a thread
    _Form("pinatrace", _pattern(rb"0x[0-9a-f]+: ([RW]) 0x([0-9a-f]{1,16})\b(?:[ \t;,].*)?"), {b"R": LOAD, b"W": STORE}),
    _Form(
        "drmemtrace's view tool",
        _pattern(_RECORD + rb"(?:(ifetch|read|write)[ ]+\d+ byte\(s\) @ )?0x([0-9a-f]{1,16})\b.*"),
        {b"ifetch": FETCH, b"read": LOAD, b"write": STORE, b"": FETCH},  # until 2021 fetches had no name
        beside=re.compile(
            rb"^(?:[ \t]*" + _RECORD + rb"(?:<.*>|[0-9a-f]{2}(?: [0-9a-f]{2})*[ ]*|[\w-]+[ ]+\d+ byte\(s\) @ .*)"
            rb"|Output format:.*|<-*record#.*|-+|View tool results:.*|.* : total instructions.*)\r?$",
            re.MULTILINE,
        ),
    ),
    _Form(
        "gem5's packets",
        _pattern(rb"([rwu]),(\d{1,19}),\d+(?:,\d+)*"),
        {b"r": LOAD, b"w": STORE, b"u": None},
        base=10,
    ),
    _Form("dinero", _pattern(rb"([0-4rwifmxcRWIFMXC])[ \t]+" + _HEX + rb"(?:[ \t]+[0-9a-fA-F]+)?"), _DIN, bare=True),
    _PLAIN,
)


def read(source: IO[bytes], name: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield event codes and int64 addresses of the lines of a text.

    Raises UsageError for a text in none of the forms, for a text with more than 1 % of lines that are not accesses, and for a
    text whose addresses may be decimal because none has a letter or 0x.
    """
    form: _Form | None = None
    lines = foreign = first = 0
    is_hex = False
    while block := source.readlines(_BLOCK):
        text = b"".join(block)
        form = form or _form(block, name)
        found = form.access.findall(text)
        if len(found) < len(block):
            others = [number for number, line in enumerate(block, lines + 1) if not _is_known(form, line)]
            foreign, first = foreign + len(others), first or next(iter(others), 0)
        is_hex = is_hex or not form.bare or b"0x" in text or any(map(_LETTER, (address for _, address in found)))
        lines += len(block)
        yield _batch(form, found)
    if foreign * _FOREIGN > lines:
        raise UsageError(
            f"{name!r}: {foreign:,} of {lines:,} lines are not of {form.name if form else ''}, the first is line {first}; "
            "remove the lines that are not accesses"
        )
    if form and not is_hex:
        raise UsageError(
            f"{name!r}: no address has a letter, so they may be decimal; write hexadecimal ones with 0x, or save a .npy"
        )


def _form(block: list[bytes], name: str) -> _Form:
    head = [line for line in block[:_SNIFFED] if not _LESS.fullmatch(line.rstrip(b"\n"))]
    for form in _FORMS:
        if any(form.access.match(line) for line in head) and all(_is_known(form, line) for line in head):
            return form
    shown = next(iter(head), b"").decode("latin-1").strip()[:60]
    raise UsageError(
        f"{name!r} begins with {shown!r}, no memory access in text; known: {', '.join(form.name for form in _FORMS)}"
    )


def _is_known(form: _Form, line: bytes) -> bool:
    """Return whether a line is an access, is known to have no access, is blank or is a comment."""
    patterns = (form.access, form.beside) if form.beside else (form.access,)
    return any(pattern.match(line) for pattern in patterns) or bool(_LESS.fullmatch(line.rstrip(b"\n")))


def _batch(form: _Form, found: list[tuple[bytes, bytes]]) -> tuple[np.ndarray, np.ndarray]:
    if not form.kinds:
        codes = np.array([STORE if b"store" in kind else LOAD for kind, _ in found], np.uint8)
    else:
        known = [(form.kinds[kind], address) for kind, address in found]
        found = [(b"", address) for code, address in known if code is not None]
        codes = np.array([code for code, _ in known if code is not None], np.uint8)
    addresses = np.fromiter((int(address, form.base) for _, address in found), np.uint64, len(found))
    there = addresses != 0  # perf prints 0 for a sample without an address
    return codes[there], addresses[there].view(np.int64)
