"""How well drawn requests of `kvcache` reuse their blocks as a published trace does: hit ratio of an LRU cache by capacity.

    python -m tests.verification.kvcache_reuse conversation_trace.jsonl [--seeds 8] [--prompt 5900 --again 43 --gap 480]

The trace is cut into halves that each meet an empty cache.  The constants of the workload were fitted to the first half; the
second half is the test.  Exit code 0.
"""

import argparse
import itertools

import numpy as np

from scmsim.workload import _kvcache

CAPACITIES = (300, 1_000, 2_000, 3_000, 5_000, 10_000, 20_000, 30_000, 1 << 40)  # blocks


def hit_ratios(requests: list[list[int]]) -> list[float]:
    """Return the share of blocks that are found, for each of CAPACITIES."""
    asked = sum(map(len, requests))
    caches = [_kvcache.Cache(slots) for slots in CAPACITIES]
    return [sum(len(cache.serve(blocks).read) for blocks in requests) / asked for cache in caches]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=512)
    for name, value in (("prompt", 5900), ("again", 43), ("gap", 480)):
        parser.add_argument(f"--{name}", type=int, default=value)
    asked = parser.parse_args()
    trace = list(_kvcache.recorded(asked.trace, asked.tokens))
    half = len(trace) // 2
    drawn = [
        list(_kvcache.conversations(half, asked.tokens, asked.prompt, asked.again, asked.gap, seed))
        for seed in range(1, asked.seeds + 1)
    ]
    sides = {"first": [trace[:half]], "second": [trace[half:]], "drawn": drawn}
    ratios = {name: np.array([hit_ratios(requests) for requests in side]) for name, side in sides.items()}
    for name, side in sides.items():
        blocks = [sum(map(len, requests)) for requests in side]
        print(f"{name}: {len(side[0]):,} requests, {np.mean(blocks):,.0f} blocks of {asked.tokens} tokens")
    print(f"{'blocks':>15} {'first':>7} {'drawn':>7} {'spread':>7} {'second':>7} {'error':>7}")
    for i, slots in enumerate(CAPACITIES):
        first, second = ratios["first"][0, i], ratios["second"][0, i]
        mean, spread = ratios["drawn"][:, i].mean(), ratios["drawn"][:, i].std(ddof=min(1, asked.seeds - 1))
        name = f"{slots:,}" if slots < 1 << 40 else "no limit"
        print(f"{name:>15} {first:7.1%} {mean:7.1%} {spread:7.1%} {second:7.1%} {mean - second:+7.1%}")
    whole = list(itertools.chain.from_iterable(trace))
    print(f"the whole trace: {len(trace):,} requests, {1 - len(set(whole)) / len(whole):.1%} of the blocks seen before")


if __name__ == "__main__":
    main()
