"""fio's random numbers and its map of blocks that are done; 32-bit words are kept in int64.

Source: fio 3.33, lib/rand.h (taus88 of L'Ecuyer 1996), lib/lfsr.c, lib/zipf.c, lib/axmap.c.
"""

import numpy as np

from scmsim.jit import subroutine

WORD = 0xFFFFFFFF
_GOLDEN = np.uint64(0x61C8864680B583EB)
LEVELS = 8  # levels of the map, enough for 32^8 blocks

# A zipf or pareto distribution over the blocks of a file (row of DISTRIBUTION).
ZIPF, PARETO = 1, 2
DISTRIBUTION = np.dtype(
    [
        ("kind", "i8"),
        ("ranges", "i8"),
        ("shift", "i8"),  # added to the hashed rank
        ("theta", "f8"),
        ("zetan", "f8"),
        ("power", "f8"),
        ("seeds", "i8", (3,)),
    ]
)
LFSR = np.dtype([("value", "i8"), ("drawn", "i8"), ("greatest", "i8"), ("top", "i8"), ("taps", "i8"), ("begun", "i8")])


@subroutine
def draw(seeds):
    """Draw the next 32-bit number of the combined Tausworthe generator; advance `seeds` (three words)."""
    a, b, c = seeds[0], seeds[1], seeds[2]
    a = ((a & 0xFFFFFFFE) << 12 & WORD) ^ ((a << 13 & WORD) ^ a) >> 19
    b = ((b & 0xFFFFFFF8) << 4 & WORD) ^ ((b << 2 & WORD) ^ b) >> 25
    c = ((c & 0xFFFFFFF0) << 17 & WORD) ^ ((c << 3 & WORD) ^ c) >> 11
    seeds[0], seeds[1], seeds[2] = a, b, c
    return a ^ b ^ c


@subroutine
def lfsr_next(lfsr):
    """Return the next number up to `greatest`, each exactly once per cycle; -1 once all were drawn."""
    lfsr["drawn"] += 1
    if lfsr["drawn"] - 1 > lfsr["greatest"]:
        return -1
    value = lfsr["value"]
    while True:
        value = (value >> 1 | lfsr["top"]) ^ (0 if value & 1 else lfsr["taps"])
        if not lfsr["begun"]:  # as in fio, the first draw advances the register twice
            lfsr["begun"] = 1
            continue
        if value <= lfsr["greatest"]:
            lfsr["value"] = value
            return value


@subroutine
def skewed_next(d):
    """Return the next block of a zipf (Gray et al. 1994) or pareto distribution: the rank, hashed and shifted."""
    uniform = draw(d["seeds"]) / 4294967295.0
    ranges = d["ranges"]
    if d["kind"] == PARETO:
        rank = np.int64((ranges - 1) * uniform ** d["power"])
    else:
        theta = d["theta"]
        scaled = uniform * d["zetan"]
        if scaled < 1.0:
            rank = np.int64(0)
        elif scaled < 1.0 + 0.5**theta:
            rank = np.int64(1)
        else:
            zeta2 = 1.0 + 0.5**theta
            eta = (1.0 - (2.0 / ranges) ** (1.0 - theta)) / (1.0 - zeta2 / d["zetan"])
            rank = np.int64(ranges * (eta * uniform - eta + 1.0) ** (1.0 / (1.0 - theta)))
    hashed = np.uint64(rank) * _GOLDEN + np.uint64(d["shift"])
    return np.int64(hashed % np.uint64(ranges))


@subroutine
def lowest(word):
    """Return the index of the lowest set bit of a 32-bit word that is not 0."""
    bit = 0
    for step in (16, 8, 4, 2, 1):
        if not word & (1 << step) - 1:
            word >>= step
            bit += step
    return bit


@subroutine
def is_done(words, block):
    """Return whether a block is marked."""
    return (np.int64(words[block >> 5]) >> (block & 31)) & 1 == 1


@subroutine
def mark(words, starts, block):
    """Mark a block; level n + 1 has a bit for each full word of level n.

    `starts` has the first word of each level, and the end.
    """
    level = 0
    while starts[level + 1] > starts[level]:  # the level after the last one is empty
        at = starts[level] + (block >> 5)
        word = np.int64(words[at]) | 1 << (block & 31)
        words[at] = word
        # only a full word sets a bit one level up (axmap)
        if word != WORD:
            return
        block >>= 5
        level += 1


@subroutine
def first_free(words, starts, block, blocks):
    """Return the first unmarked block from `block` on; -1 if all are marked."""
    level = 0
    while (block >> 5) < starts[level + 1] - starts[level]:
        free = ~np.int64(words[starts[level] + (block >> 5)]) & WORD & (WORD << (block & 31))
        # the rest of this 32-block word is done: look for a word with a free block one level up
        if not free:
            block = (block >> 5) + 1
            level += 1
            continue
        block = (block >> 5 << 5) + lowest(free)
        while level > 0:
            level -= 1
            if block >= starts[level + 1] - starts[level]:
                return -1
            block = (block << 5) + lowest(~np.int64(words[starts[level] + block]) & WORD)
        return block if block < blocks else -1
    return -1


@subroutine
def next_free(words, starts, block, blocks):
    """Return the next unmarked block after `block`, wrapping around at the end; -1 if all are marked."""
    after = block + 1 if block + 1 < blocks else 0
    found = first_free(words, starts, after, blocks)
    if found < 0 and after:
        found = first_free(words, starts, 0, blocks)
    return found
