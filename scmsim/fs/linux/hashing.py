"""Hash of a name: the half MD4 that ext4's directory index and Orlov's allocator use.

Source: Linux 6.1 fs/ext4/hash.c (half_md4_transform, str2hashbuf_signed, ext4fs_dirhash).
"""

# mke2fs draws a seed for each file system; the models use the seed that `scmsim lab` sets by mke2fs's option hash_seed
SEED = (0x00003D5C, 0x00400000, 0x00000080, 0x02000000)
_MASK = (1 << 32) - 1
_MAX = _MASK - 3  # largest hash; the next even number marks the end of a directory (EXT4_HTREE_EOF)
_CHUNK = 32  # bytes of the name that one transform hashes
_WORDS = (tuple(range(8)), (1, 3, 5, 7, 0, 2, 4, 6), (3, 7, 2, 6, 1, 5, 0, 4))  # indices, by round
_TURNS = ((3, 7, 11, 19), (3, 5, 9, 13), (3, 9, 11, 15))
_ADDED = (0, 0x5A827999, 0x6ED9EBA1)


def half_md4(name: bytes) -> int:
    """Return the hash of a name."""
    state: tuple[int, ...] = SEED
    for at in range(0, len(name), _CHUNK):
        state = _mixed(state, _numbers(name[at:]))
    return min(state[1] & ~1, _MAX)


def _numbers(rest: bytes) -> list[int]:
    """Return the next 32 characters (signed) as eight numbers, a short rest padded with its length (str2hashbuf_signed)."""
    pad = len(rest) * 0x01010101
    found = []
    for at in range(0, _CHUNK, 4):
        number = pad
        for character in rest[at : min(at + 4, _CHUNK)]:
            number = (number << 8) + character - (character >> 7 << 8)
        found.append(number & _MASK)
    return found


def _mixed(state: tuple[int, ...], numbers: list[int]) -> tuple[int, ...]:
    a, b, c, d = state
    for step in range(24):
        number, k = divmod(step, 8)
        mixes = (d ^ (b & (c ^ d)), (b & c) + ((b ^ c) & d), b ^ c ^ d)
        total = (a + mixes[number] + numbers[_WORDS[number][k]] + _ADDED[number]) & _MASK
        turn = _TURNS[number][k % 4]
        a, b, c, d = d, (total << turn | total >> (32 - turn)) & _MASK, b, c
    return tuple((old + new) & _MASK for old, new in zip(state, (a, b, c, d), strict=True))
