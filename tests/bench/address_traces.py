"""Three long address traces with known miss counts, the same on every machine: NumPy's PCG64 with a fixed seed.

A footprint of 2**20 small pages from 64 GiB up.  `mix`: blocks of 256 accesses, each with equal odds a run over consecutive
pages or draws from a Zipf distribution (exponent 0.99, ranks scattered by a fixed permutation); `rand`: uniform; `line`: runs
over the 64 lines of Zipf-drawn pages.  The first 16 hex digits of their SHA-256 are in `DIGESTS` (20 million accesses).
"""

import hashlib

import numpy as np

ACCESSES = 20_000_000
DIGESTS = {"mix": "03104522b645949b", "rand": "3cfcd55210de0ed7", "line": "1884fbff7346b7c0"}
_PAGES, _START, _SEED, _BLOCK, _LINES = 1 << 20, 1 << 36, 20240607, 256, 64


def traces(accesses: int = ACCESSES) -> dict[str, np.ndarray]:
    """uint64 byte addresses of each trace."""
    rng = np.random.Generator(np.random.PCG64(_SEED))
    scattered = rng.permutation(_PAGES).astype(np.uint64)
    weights = 1 / np.arange(1, _PAGES + 1, dtype=np.float64) ** 0.99
    distribution = np.cumsum(weights)
    distribution /= distribution[-1]

    def zipf(count: int) -> np.ndarray:
        return scattered[np.searchsorted(distribution, rng.random(count), side="right").astype(np.uint64)]

    blocks = accesses // _BLOCK + 1
    runs = rng.random(blocks) < 0.5
    starts = rng.integers(0, _PAGES, blocks, dtype=np.uint64)
    drawn = zipf(blocks * _BLOCK).reshape(blocks, _BLOCK)
    steps = np.arange(_BLOCK, dtype=np.uint64)
    mix = np.where(runs[:, None], (starts[:, None] + steps) % np.uint64(_PAGES), drawn).reshape(-1)[:accesses]
    rand = rng.integers(0, _PAGES, accesses, dtype=np.uint64)
    pages = zipf(accesses // _LINES + 1)
    lines = pages[:, None] * np.uint64(4096) + np.arange(_LINES, dtype=np.uint64) * np.uint64(64)
    start, page = np.uint64(_START), np.uint64(4096)
    return {"mix": mix * page + start, "rand": rand * page + start, "line": lines.reshape(-1)[:accesses] + start}


def digest(trace: np.ndarray) -> str:
    """As in `DIGESTS`."""
    return hashlib.sha256(np.ascontiguousarray(trace, "<u8").tobytes()).hexdigest()[:16]
