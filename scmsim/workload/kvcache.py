"""The cache of keys and values (KV) of a language-model server: blocks of tokens are put, got and evicted.

A request gets the cached blocks of its text up to the first missing block, and puts its other full blocks; a full
cache gives the slot of the least recently used block to a new one (see _kvcache for the sources).  Requests are those of a
trace in Mooncake's format, or conversations drawn with the statistics of its conversation trace.

The blocks are slots of one file, as in LMCache's backend for /dev/dax (lmcache/v1/storage_backend/dax/core.py, commit
50b60c03: one arena, a memmove for each block), moved through a mapping or by calls; or a file each, as in its local_disk
backend (local_disk_backend.py, commit 005121ac).  A block is one transfer.  The copy to and from the GPU is not modelled.
"""

from collections.abc import Iterator

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import (
    CLOSE,
    CREATE,
    MMAP,
    MUNMAP,
    NON_TEMPORAL,
    OPEN,
    READ,
    ULOAD,
    UNLINK,
    USTORE,
    WRITABLE_SHARED,
    WRITE,
)
from scmsim.workload import _kvcache, _steps, _stream
from scmsim.workload._stream import ops

SUMMARY = "the KV cache of a language-model server: put, get and evict token blocks; requests from a trace or drawn"
PARAMS = {
    "file": ("", "file", "trace of requests in Mooncake's format (JSON lines); without it, requests are drawn"),
    "model": ("llama-3.1-8b", "text", "name of a model, or the elements per token as factors, such as 2x32x8x128"),
    "element": ("2", "bytes", "bytes per element: 2 for fp16 and bf16, 1 for fp8"),
    "tokens": ("256", "tokens", "tokens per block (LMCache: 256, vLLM: 16)"),
    "capacity": ("16GiB", "bytes", "size of the cache"),
    "by": (
        "map",
        "map|calls|files",
        "blocks are slots of one mapped file, slots of one file (read and write), or files",
    ),
    "requests": ("200", "requests", "drawn: total number of requests"),
    "prompt": ("5900", "tokens", "drawn: median length of a conversation's first prompt"),
    "again": ("43", "per cent", "drawn: share of requests that continue a conversation, in the long run"),
    "gap": (
        "10",
        "requests",
        "drawn: median number of requests between two turns of a conversation (all of Mooncake's trace: 480)",
    ),
    "seed": ("1", "seed", "drawn: seed of the requests"),
    "interval": ("1us", "time", "trace time between two operations"),
}
FOLDER, FIRST = 0, 1  # object ids: the directory, the arena or the first block's file
MOST_FILES = 1 << 20
LARGEST = 1 << 44  # maximum bytes of the arena: the models' largest file
# bytes from which memmove stores past the caches: 3/4 of a thread's share of the last-level cache; here for an unknown cache
# (glibc 2.36, sysdeps/x86/dl-cacheinfo.h)
PAST_CACHES = 3 << 18


class Workload(_stream.Stream):
    """Stream of the transfers of one cache (a records.Source); see PARAMS.

    `found`, `stored` and `evicted` count the blocks that all requests got and put, and the blocks that lost their slot; `asked` is
    the number of full blocks of all requests.

    Raises UsageError for an unknown model, a cache smaller than a block, or a trace that cannot be read.
    """

    fresh = True

    @_stream.declared(PARAMS)
    def __init__(self, p: _stream.Params) -> None:
        _stream.choose("by of kvcache", p.by, ("map", "calls", "files"))
        p.at_least(1, "element", "tokens", "requests", "prompt", "gap")
        if not 0 <= p.again <= 95:
            raise UsageError(f"again = {p.again}; it must be 0 to 95 per cent")
        if max(p.prompt, p.tokens) > _kvcache.MOST_TOKENS or p.gap > 1 << 40:
            raise UsageError(
                f"prompt = {p.prompt:,}, tokens = {p.tokens:,}, gap = {p.gap:,}; prompt and tokens must be at most "
                f"{_kvcache.MOST_TOKENS:,}, gap at most {1 << 40:,}"
            )
        self.unit = _kvcache.elements(p.model) * p.element * p.tokens
        if not self.unit <= p.capacity <= LARGEST:
            raise UsageError(
                f"capacity {p.capacity:,} does not hold a block of {self.unit:,} bytes, or is above 16 TiB; give another"
            )
        self.file, self.tokens, self.by, self.slots = p.file, p.tokens, p.by, p.capacity // self.unit
        self.drawn = (p.requests, p.tokens, p.prompt, p.again, p.gap, p.seed)
        self._count()
        _steps.check_times(self.rows, p.interval)
        paths, sizes = ["/kvcache/arena"], [self.slots * self.unit]
        if p.by == "files":
            paths, sizes = [f"/kvcache/{slot}.pt" for slot in range(self.used)], [-1] * self.used
        self.files = _stream.table(["/kvcache", *paths], [0, *sizes], [True] + [False] * len(paths))

    def _count(self) -> None:
        """Run the cache once to set the figures, and the number of rows that follows from them."""
        requests = self.asked = self.found = self.stored = self.evicted = 0
        for blocks, served in self._served():
            requests += 1
            self.asked += len(blocks)
            self.found += len(served.read)
            self.stored += len(served.written)
            self.evicted += served.evicted
        if not requests:
            raise UsageError(f"{self.file!r} has no requests; give a trace of one JSON object a line")
        self.used = self.stored - self.evicted  # number of slots that ever hold a block
        if self.by == "files":
            if self.used > MOST_FILES:
                raise UsageError(
                    f"{self.used:,} blocks need over {MOST_FILES:,} files; lower capacity, or give by=map or by=calls"
                )
            self.rows = 3 * (self.found + self.stored) + self.evicted
        else:
            self.rows = self.found + self.stored + (4 if self.by == "map" else 2)
        share = f" ({100 * self.found / self.asked:.1f} %)" if self.asked else ""
        self.header["notes"] = [
            f"{requests:,} requests with {self.asked:,} blocks of {self.unit:,} bytes: {self.found:,} found{share}, "
            f"{self.stored:,} stored, {self.evicted:,} evicted from {self.slots:,} slots"
        ]

    def _served(self) -> Iterator[tuple[list[int], _kvcache.Served]]:
        """Yield (blocks, result of the cache) for each request."""
        asked = _kvcache.recorded(self.file, self.tokens) if self.file else _kvcache.conversations(*self.drawn)
        cache = _kvcache.Cache(self.slots)
        for blocks in asked:
            yield blocks, cache.serve(blocks)

    def pieces(self) -> Iterator[np.ndarray]:
        """Yield the operations, a request at a time."""
        if self.by == "files":
            for _, served in self._served():
                yield self._files(served)
            return
        whole = {"file": FIRST, "offset": 0, "length": self.slots * self.unit}
        yield ops(OPEN, FIRST)
        if self.by == "map":
            yield ops(MMAP, **whole, flag=WRITABLE_SHARED)
        for _, served in self._served():
            yield self._transfers(served)
        if self.by == "map":
            yield ops(MUNMAP, **whole)
        yield ops(CLOSE, FIRST)

    def _transfers(self, served: _kvcache.Served) -> np.ndarray:
        """Return a request's transfers from and to slots of the arena."""
        get, put = (ULOAD, USTORE) if self.by == "map" else (READ, WRITE)
        past = NON_TEMPORAL if self.by == "map" and self.unit >= PAST_CACHES else 0
        counts = (len(served.read), len(served.written))
        slots = np.array([*served.read, *served.written], np.int64)
        return ops(
            np.repeat([get, put], counts), FIRST, slots * self.unit, self.unit, flag=np.repeat([0, past], counts)
        )

    def _files(self, served: _kvcache.Served) -> np.ndarray:
        """Return a request's calls on the files of its blocks: a file is removed before its slot gets a new file."""
        read, written = (FIRST + np.array(slots, np.int64) for slots in (served.read, served.written))
        fresh = len(written) - served.evicted
        order = len(read) + np.arange(len(written))
        return _stream.weave(
            (np.arange(len(read)), ops(OPEN, read)),
            (np.arange(len(read)), ops(READ, read, 0, self.unit)),
            (np.arange(len(read)), ops(CLOSE, read)),
            (order[fresh:], ops(UNLINK, written[fresh:], parent=FOLDER)),
            (order, ops(CREATE, written, parent=FOLDER)),
            (order, ops(WRITE, written, 0, self.unit)),
            (order, ops(CLOSE, written)),
        )
