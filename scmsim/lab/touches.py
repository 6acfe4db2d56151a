"""Record the pages that each call touches, in the order of first touches: the input of footprints.

Recording the first touch of each page in every 1,000 page runs (a page run: consecutive accesses to one page) is enough to
compute the TLB misses within a few percent (docs/validation/tlb.md).  A touch records the function that made it, the slab cache
of its page at the end of the guest's run, and, for data caches, which lines of the page were touched in these 1,000 page runs
(docs/validation/caches.md).
"""

import json
import os
import pathlib
from typing import Any

import numpy as np

from scmsim.core.atomic import whole
from scmsim.core.errors import UsageError
from scmsim.lab import counts, pagetable, regions, slab
from scmsim.lab.measured import Measured
from scmsim.lab.plan import Plan

SUFFIX = ".touches.parquet"
FORMAT = 1
WITHIN = 1000  # page runs per stretch
_LINE = np.dtype([("address", "<u8"), ("code", "<u8"), ("kind", "<u8")])  # struct touch of plugin.c
RECORD = np.dtype([*_LINE.descr, ("lines", "<u8")])  # lines: a bit for each line of the page
_KIND = np.uint64((1 << 32) - 1)
_MARK = (1 << 64) - 1
_PAGE = ~np.uint64(4095)


def read(path: str | os.PathLike[str]) -> np.ndarray:
    """Return the plugin's records by page: each page's first touch in a stretch of page runs, with the lines touched there."""
    return by_page(np.fromfile(path, _LINE))


def by_page(found: np.ndarray) -> np.ndarray:
    """Merge the touches of a page's lines that have the same kind and stretch into the first of them (RECORD)."""
    page = np.where(found["address"] == _MARK, np.arange(len(found), dtype=np.uint64), found["address"] & _PAGE)
    order = np.lexsort((page, found["kind"]))
    page, kind = page[order], found["kind"][order]
    starts = np.flatnonzero(np.append(True, (page[1:] != page[:-1]) | (kind[1:] != kind[:-1]))) if len(found) else order
    bit = np.uint64(1) << (found["address"] >> np.uint64(6) & np.uint64(63))
    out = np.zeros(len(starts), RECORD)
    for name in _LINE.names or ():
        out[name] = found[name][order[starts]]
    out["lines"] = np.bitwise_or.reduceat(bit[order], starts) if len(starts) else 0
    out["kind"] &= _KIND
    made: np.ndarray = out[np.argsort(order[starts])]
    return made


def caches(ram: pathlib.Path, symbols: bytes, records: np.ndarray) -> dict[int, slab.Page]:
    """Return the slab caches of the pages that were touched in the direct map."""
    pages = np.unique(records["address"][records["address"] != _MARK] & _PAGE)
    return slab.caches(ram, symbols, pages[regions.layout().of(pages) == regions.DIRECT_MAP])


def keep(path: str | os.PathLike[str], fs: str, plan: Plan, measured: Measured, kernel: str) -> None:
    """Write the touches of a run (Parquet).

    Columns: `call` (number of the call), `kind` (of operation), `address`, `order` (log2 of the page's bytes), `store` (whether
    it is a store), `region` (of the address space), `cache` (slab cache of the page; empty if none), `function`, `lines` (a bit
    for each touched line of the 4 KiB), `object` (bytes of an object of the slab), `start` (bytes from the slab's beginning to
    the 4 KiB).
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    header = {"format": FORMAT, "fs": fs, "kernel": kernel}
    schema = {"scmsim": json.dumps(header)}
    table = pa.table(columns(plan, measured)).replace_schema_metadata(schema)
    with whole(path) as draft:
        pq.write_table(table, draft, compression="zstd")


def columns(plan: Plan, measured: Measured) -> dict[str, Any]:
    """Return the columns of `keep` as arrays."""
    import pyarrow as pa

    records = measured.touches if measured.touches is not None else np.zeros(0, RECORD)
    marks = records["address"] == _MARK
    call = (np.cumsum(marks) - 1)[~marks]
    found = records[~marks]
    address, kind = found["address"], (found["kind"] >> np.uint64(1)).astype(np.int64) - 1
    end = counts.symbol_address(measured.symbols, "_end") or regions.IMAGE_END
    pages, which = np.unique(address & _PAGE, return_inverse=True)
    slabs = [measured.caches.get(int(page), slab.NO_PAGE) for page in pages]
    return {
        "call": call.astype(np.int32),
        "kind": _words([region.label for region in plan.regions], kind),
        "address": address,
        "order": pagetable.orders(address, measured.ranges),
        "store": pa.array((found["kind"] & np.uint64(1)).astype(bool)),
        "region": _words(regions.REGIONS, regions.layout(end).of(address)),
        "cache": _words([page.cache for page in slabs], which),
        "function": _functions(found["code"], measured.symbols),
        "lines": found["lines"],
        "object": np.array([page.size for page in slabs], np.int32)[which],
        "start": np.array([page.start for page in slabs], np.int32)[which],
    }


def _functions(code: np.ndarray, symbols: bytes) -> Any:
    table = counts.symbols(symbols)
    at = np.where(code >> np.uint64(63), table.at(code) + 2, 0)
    return _words([counts.USER, counts.UNKNOWN, *table.names], at)


def _words(names: Any, index: np.ndarray) -> Any:
    """Return a column of words: the distinct words, and a number for each row."""
    import pyarrow as pa

    used, number = np.unique(index, return_inverse=True)
    words = [names[k] for k in used]
    return pa.DictionaryArray.from_arrays(
        pa.array(number.astype(np.int32)), pa.array(words, pa.string())
    ).dictionary_encode()


def load(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Any]:
    """Return (header, table) of a file that `keep` wrote; raises UsageError for any other file."""
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        header: dict[str, Any] = json.loads(table.schema.metadata[b"scmsim"])
        if header["format"] != FORMAT or table.schema.names[:3] != ["call", "kind", "address"]:
            raise ValueError("another version of the format")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{str(path)!r} has no touches ({str(error)[:80]}); make it with scmsim lab touches") from None
    return header, table


def sums(path: str | os.PathLike[str]) -> list[tuple[str, str, float, int]]:
    """Return (region, slab cache, touches per call, distinct pages of 4 KiB), the most touches first."""
    _, table = load(path)
    (region, regions_), (cache, caches_) = (coded(table, name) for name in ("region", "cache"))
    pages = table.column("address").to_numpy() & _PAGE
    calls = max(1, len(np.unique(table.column("call").to_numpy())))
    found = []
    both = region * len(caches_) + cache
    for each in np.unique(both).tolist():
        rows, (r, c) = both == each, divmod(each, len(caches_))
        found.append((regions_[r], caches_[c], float(rows.sum() / calls), len(np.unique(pages[rows]))))
    return sorted(found, key=lambda row: (-row[2], row[:2]))


def coded(table: Any, name: str) -> tuple[np.ndarray, list[str]]:
    """Return a column of words as numbers, and the words."""
    column = table.column(name).combine_chunks()
    column = column if hasattr(column, "dictionary") else column.dictionary_encode()
    return column.indices.to_numpy(), column.dictionary.to_pylist()
