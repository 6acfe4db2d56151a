"""The hash of a name that ext4's directory index and Orlov's allocator use: half MD4.

Linux 6.1, fs/ext4/hash.c; MD4's rounds: RFC 1320, cut to 8 steps each.
"""

_DEFAULT_SEED = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476)
_MASK = 0xFFFFFFFF
_ROUNDS = [  # (constant, words in order, rotations)
    (0, (0, 1, 2, 3, 4, 5, 6, 7), (3, 7, 11, 19)),
    (0x5A827999, (1, 3, 5, 7, 0, 2, 4, 6), (3, 5, 9, 13)),
    (0x6ED9EBA1, (3, 7, 2, 6, 1, 5, 0, 4), (3, 9, 11, 15)),
]


def half_md4(name: bytes, seed: tuple[int, ...]) -> tuple[int, int]:
    """Return a name's (hash, minor hash), with characters as signed."""
    state = list(seed if any(seed) else _DEFAULT_SEED)
    for at in range(0, len(name), 32):
        _transform(state, _words(name[at:]))
    found = state[1] & ~1
    return (0xFFFFFFFC if found == 0xFFFFFFFE else found), state[2]


def seed_of(identifier: str) -> tuple[int, ...]:
    """Return the seed that mke2fs -E hash_seed=UUID stores."""
    raw = bytes.fromhex(identifier.replace("-", ""))
    return tuple(int.from_bytes(raw[at : at + 4], "little") for at in range(0, 16, 4))


def _words(rest: bytes) -> list[int]:
    """Return up to 32 characters as 8 words, each filled up with the length of the rest."""
    pad = (len(rest) | len(rest) << 8) & _MASK
    pad = (pad | pad << 16) & _MASK
    words = []
    for at in range(0, 32, 4):
        value = pad
        for character in rest[at : min(at + 4, 32)]:
            value = ((character if character < 128 else character - 256) + (value << 8)) & _MASK
        words.append(value)
    return words


def _transform(state: list[int], words: list[int]) -> None:
    a, b, c, d = state
    for number, (constant, order, rotations) in enumerate(_ROUNDS):
        for step, word in enumerate(order):
            mixed = (a + _mix(number, b, c, d) + words[word] + constant) & _MASK
            turn = rotations[step % 4]
            a, b, c, d = d, (mixed << turn | mixed >> 32 - turn) & _MASK, b, c
    for i, value in enumerate((a, b, c, d)):
        state[i] = (state[i] + value) & _MASK


def _mix(number: int, x: int, y: int, z: int) -> int:
    if number == 0:
        return z ^ (x & (y ^ z))
    if number == 1:
        return ((x & y) + ((x ^ y) & z)) & _MASK
    return x ^ y ^ z
