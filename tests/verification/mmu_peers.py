"""The MMU engine beside two cache simulators that are not ours, on three traces of 20 million accesses: miss by miss.

Run: python -m tests.verification.mmu_peers [ACCESSES]      about three minutes
pycachesim counts a two-level set-associative LRU TLB, libcachesim a fully associative LRU; both are in the extra `dev`.
"""

import sys
import time

import cachesim
import libcachesim
import numpy as np

from scmsim.mmu import mrc, plain_misses, presets, simulate
from tests.bench.address_traces import ACCESSES, DIGESTS, digest, traces


def two_levels(trace: np.ndarray) -> tuple[int, int]:
    """First- and second-level misses of 64 x 4 and 1536 x 12 entries by pycachesim."""
    memory = cachesim.MainMemory()
    far = cachesim.Cache("far", 128, 12, 4096, "LRU")
    near = cachesim.Cache("near", 16, 4, 4096, "LRU", store_to=far, load_from=far)
    memory.load_to(far)
    memory.store_from(far)
    simulator = cachesim.CacheSimulator(near, memory)
    for start in range(0, len(trace), 1 << 20):
        simulator.load(trace[start : start + (1 << 20)].tolist())
    return near.backend.MISS_count, far.backend.MISS_count


def fully_associative(trace: np.ndarray, entries: int) -> int:
    """Misses of a fully associative LRU by libcachesim."""
    cache, request, misses = libcachesim.LRU(cache_size=entries), libcachesim.Request(), 0
    request.obj_size = 1
    for page in (trace >> np.uint64(12)).tolist():
        request.obj_id = page
        misses += not cache.get(request)
    return misses


def main() -> None:
    accesses = int(sys.argv[1]) if len(sys.argv) > 1 else ACCESSES
    bad = 0
    for name, trace in traces(accesses).items():
        if accesses == ACCESSES and digest(trace) != DIGESTS[name]:
            sys.exit(f"{name}: the trace is not the known one")
        start = time.process_time()
        peer = two_levels(trace)
        seconds = time.process_time() - start
        ours = tuple(plain_misses(trace).values())[1:]
        whole = simulate(trace, presets.plain("64x4", "1536x12"))
        walks = whole["dtlb_load_misses_walk_completed"]
        full = (whole["dtlb_load_misses_stlb_hit"] + walks, walks)
        bad += not peer == ours == full
        print(f"{name}: pycachesim {peer} ({accesses / seconds / 1e6:.0f} M/s), plain {ours}, whole MMU {full}")
        part = trace[: accesses // 10]
        curve = mrc.Curve(12)
        curve.add(part.view(np.int64))
        for entries in (64, 1536):
            theirs, mine = fully_associative(part, entries), int(curve.misses([entries])[0])
            bad += theirs != mine
            print(
                f"{name}: fully associative, {entries} entries, {len(part)} accesses: libcachesim {theirs}, curve {mine}"
            )
    sys.exit("they differ" if bad else 0)


if __name__ == "__main__":
    main()
