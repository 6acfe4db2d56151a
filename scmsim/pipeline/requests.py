"""Convert the requests of a block or object trace to memory accesses, without a replay.

A request of a block trace touches the pages of 4 KiB from its first to its last byte; each device has its own range of
addresses.  A request of an object trace touches its object, which has one page whatever its size.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import LOAD, READ, SETUP, STORE, WRITE, Source

BLOCK, OBJECT, FILE = "block", "object", "file"  # granularity of a trace: the thing that a row refers to
_PAGE = 12  # log2 of the bytes of a page
_BITS = 57  # of an address
_CHUNK = 1 << 17  # accesses at a time


def granularity(header: Mapping[str, Any]) -> str:
    """Return the granularity of a trace (BLOCK, OBJECT or FILE); a derived trace has the granularity of its inputs."""
    if isinstance(own := header.get("granularity"), str):
        return own
    inputs = header.get("inputs")
    kinds = {granularity(one) for one in inputs if isinstance(one, dict)} if isinstance(inputs, list) else set()
    return kinds.pop() if len(kinds) == 1 else FILE


def accesses(source: Source) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield event codes and addresses of the reads and writes of a block or object trace; SETUP rows are left out."""
    whole = granularity(source.header) == OBJECT
    shift = _BITS - max(len(source.files) - 1, 0).bit_length()
    for batch in source.batches(_CHUNK):
        rows = batch[np.isin(batch["op"], (READ, WRITE)) & (batch["flag"] & SETUP == 0)]
        codes = np.where(rows["op"] == READ, LOAD, STORE).astype(np.uint8)
        if whole:
            yield codes, rows["file"].astype(np.int64) << _PAGE
            continue
        end = int((rows["offset"] + rows["length"]).max(initial=0))
        if end > 1 << shift:
            raise UsageError(
                f"a request ends at byte {end} of its device, and {len(source.files)} devices have 2^{shift} bytes each; "
                "convert one device of the trace (--under)"
            )
        first = (rows["file"].astype(np.int64) << shift) + rows["offset"] >> _PAGE
        count = np.where(
            rows["length"] > 0, (rows["offset"] + rows["length"] - 1 >> _PAGE) - (rows["offset"] >> _PAGE) + 1, 0
        )
        yield from _pages(codes, first, count)


def _pages(codes: np.ndarray, first: np.ndarray, count: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield, in chunks, a code and an address for each page of requests: `count` pages from page `first` on."""
    ends = np.cumsum(count)
    total = int(ends[-1]) if len(ends) else 0
    for start in range(0, total, _CHUNK):
        place = np.arange(start, min(start + _CHUNK, total))
        request = np.searchsorted(ends, place, side="right")
        yield codes[request], first[request] + place - (ends - count)[request] << _PAGE
