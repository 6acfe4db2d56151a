"""How often a rough trace has exactly the order that was counted: drawn sequences of calls, counted as Darshan counts.

python -m tests.verification.rough_patterns [SEQUENCES] [SEED]
"""

import random
import sys
from collections import Counter

import numpy as np

from scmsim.trace.formats.files._rough_offsets import Order, offsets
from tests.reference import darshan_slow

KINDS = ("in order", "in steps", "several passes", "random", "descending", "mixed")
FIELDS = {"ascending": "SEQ_READS", "consecutive": "CONSEC_READS", "furthest byte": "MAX_BYTE_READ"}


def drawn(kind: str, draw: random.Random) -> list[tuple[int, int]]:
    """Offsets and lengths."""
    count, size = draw.randrange(1, 80), draw.choice([1, 100, 512, 4096])
    file = size * draw.choice([count, 4 * count, max(count // 3, 3), 100 * count])
    calls, position = [], 0
    for k in range(count):
        length = size * draw.choice([1, 1, 1, 3])
        if kind == "random":
            position = draw.randrange(max(file - length, 1) + 1) // size * size
        elif kind == "several passes" and draw.random() < 0.1:
            position = 0
        elif kind == "in steps":
            position += size * draw.choice([1, 5])
        elif kind == "mixed" and draw.random() < 0.3:
            position = draw.randrange(max(file - length, 1))
        elif kind == "descending":
            position = (count - k) * size * 4
        calls.append((position, length))
        position += length
    return calls


def main() -> None:
    """Print for each kind how many sequences have each number right."""
    sequences, seed = (int(text) for text in [*sys.argv[1:], "4000", "1"][:2])
    draw, right = random.Random(seed), Counter()
    for k in range(sequences):
        kind = KINDS[k % len(KINDS)]
        calls = drawn(kind, draw)
        wanted = darshan_slow.counters([("read", *call) for call in calls])
        lengths = np.array([length for _, length in calls])
        order = Order(wanted["SEQ_READS"], wanted["CONSEC_READS"], wanted["MAX_BYTE_READ"] + 1)
        made = offsets(lengths, order, k).tolist()
        found = darshan_slow.counters([("read", *call) for call in zip(made, lengths.tolist(), strict=True)])
        right.update([kind, *((kind, name) for name, field in FIELDS.items() if found[field] == wanted[field])])
        right.update(name for name, field in FIELDS.items() if found[field] == wanted[field])
    for kind in KINDS:
        print(f"{kind:16} {right[kind]:>6} sequences" + "".join(f", {name} {right[kind, name]}" for name in FIELDS))
    print(f"{'all':16} {sequences:>6} sequences" + "".join(f", {name} {right[name]}" for name in FIELDS))


if __name__ == "__main__":
    main()
