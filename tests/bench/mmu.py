"""Speed of the MMU engine, beside a peer in the same run."""

import pathlib
import tempfile
import time
from collections.abc import Iterator

import numpy as np

from tests.bench.address_traces import traces

_PEER_ACCESSES = 500_000  # the peer is slow


def lines(accesses: int) -> Iterator[tuple[str, str]]:
    """Accesses per CPU second on the traces mix, rand and line, the best of three runs."""
    from scmsim.mmu import mrc, plain_misses, presets, simulate

    two_levels, coffee_lake = presets.plain("64x4", "1536x12"), presets.read("i7-8700k")
    flat = {key: value for key, value in coffee_lake.items() if key != "walk_memory"}
    flat["tlb"] = [{**entry, "policy": "lru"} for entry in flat["tlb"]]
    flat["walk"] = {"levels": 4, "largest_page": "1GiB", "ref_cycles": 12}
    ways = {
        "two levels, misses only": lambda trace: plain_misses(trace),
        "two levels, walks and counters": lambda trace: simulate(trace, two_levels),
        "split sizes, walk caches, flat cost": lambda trace: simulate(trace, flat),
        "i7-8700k as shipped": lambda trace: simulate(trace, coffee_lake),
        "fully associative, 72 entries": lambda trace: plain_misses(trace, "72x72", None),
        "zen4 as shipped": lambda trace: simulate(trace, "zen4"),
        "192 geometries in one pass": lambda trace: mrc.geometries([trace.view(np.int64)]),
    }
    every = traces(accesses)
    for way, run in ways.items():
        run(every["mix"][:1000])  # compiles, or loads what is compiled
        rates = {name: accesses / _best(lambda run=run, trace=trace: run(trace)) / 1e6 for name, trace in every.items()}
        yield f"mmu: {way}", _shown(rates)
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("u64", "npy"):
            yield f"mmu: two levels, misses only, from a .{kind} file", _shown(_from_files(every, folder, kind))
    curve = mrc.Curve(12)
    curve.add(every["mix"][:1000].view(np.int64))
    rates = {
        name: accesses / _best(lambda trace=trace: mrc.Curve(12).add(trace.view(np.int64))) / 1e6
        for name, trace in every.items()
    }
    yield "mmu: every capacity (stack distances)", _shown(rates)
    few = {name: trace[:_PEER_ACCESSES] for name, trace in every.items()}
    try:
        from tests.verification.mmu_peers import two_levels as peer
    except ImportError:
        yield "mmu: pycachesim, libCacheSim", "not installed"
        return
    yield (
        "mmu: pycachesim, two levels",
        _shown({name: len(trace) / _best(lambda trace=trace: peer(trace), 1) / 1e6 for name, trace in few.items()}),
    )
    with tempfile.TemporaryDirectory() as folder:
        rates = {name: len(trace) / _lru_by_libcachesim(trace, folder) / 1e6 for name, trace in few.items()}
    yield "mmu: libCacheSim, one fully associative LRU of 1536 entries", _shown(rates)


def _lru_by_libcachesim(trace: np.ndarray, folder: str) -> float:
    """CPU seconds of libCacheSim's own loop over a file of the trace's pages."""
    import libcachesim

    record = np.dtype([("time", "<u4"), ("page", "<u8"), ("length", "<u4"), ("next", "<i8")])
    rows = np.zeros(len(trace), record)
    rows["page"], rows["length"], rows["next"] = trace >> np.uint64(12), 1, -1
    path = pathlib.Path(folder, "trace.oracleGeneral")
    rows.tofile(path)
    reader = libcachesim.TraceReader(str(path), libcachesim.TraceType.ORACLE_GENERAL_TRACE)
    return _best(lambda: libcachesim.LRU(cache_size=1536).process_trace(reader), 1)


def _from_files(every: dict[str, np.ndarray], folder: str, kind: str) -> dict[str, float]:
    """As `lines`, of a file that lies in the page cache."""
    from scmsim.mmu import accesses, plain_misses

    rates = {}
    for name, trace in every.items():
        path = pathlib.Path(folder, f"{name}.{kind}")
        if kind == "npy":
            np.save(path, trace)
        else:
            trace.tofile(path)
        rates[name] = len(trace) / _best(lambda path=path: plain_misses(accesses.loads(path))) / 1e6
        path.unlink()
    return rates


def _best(action, times: int = 3) -> float:
    """Least CPU seconds of some runs."""
    found = []
    for _ in range(times):
        start = time.process_time()
        action()
        found.append(time.process_time() - start)
    return max(min(found), 1e-9)


def _shown(rates: dict[str, float]) -> str:
    return "  ".join(f"{name} {rate:>6.1f}" for name, rate in rates.items()) + "  M accesses/s"
