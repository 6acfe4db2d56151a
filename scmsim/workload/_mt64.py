"""MT19937-64, the 64-bit Mersenne Twister: NumPy has only the 32-bit one."""

from collections.abc import Iterator

import numpy as np

_N, _M = 312, 156
_MATRIX = np.uint64(0xB5026F5AA96619E9)
_UPPER, _LOWER = np.uint64(0xFFFFFFFF80000000), np.uint64(0x7FFFFFFF)
_WORD = (1 << 64) - 1


def numbers(key: list[int]) -> Iterator[np.ndarray]:
    """Yield the numbers drawn after seeding with `key`, 312 at a time, as uint64."""
    state = np.array(_seeded(key), np.uint64)
    while True:
        _twist(state)
        yield _tempered(state)


def permutation(count: int, key: list[int]) -> list[int]:
    """Return 0 to count - 1, shuffled from the end downwards: i is swapped with (draw % (i + 1))."""
    order, i = list(range(count)), count
    for drawn in numbers(key):
        block = drawn[:i] % np.arange(i, max(i - _N, 0), -1, dtype=np.uint64)
        for j in block.tolist():
            i -= 1
            order[i], order[j] = order[j], order[i]
        if not i:
            return order
    raise AssertionError("the generator never ends")


def _seeded(key: list[int]) -> list[int]:
    state = [19650218]
    for i in range(1, _N):
        state.append((6364136223846793005 * (state[-1] ^ state[-1] >> 62) + i) & _WORD)
    i, j = 1, 0
    for _ in range(max(_N, len(key))):
        mixed = state[i] ^ (state[i - 1] ^ state[i - 1] >> 62) * 3935559000370003845
        state[i] = (mixed + key[j] + j) & _WORD
        i, j = i + 1, (j + 1) % len(key)
        if i == _N:
            state[0], i = state[-1], 1
    for _ in range(_N - 1):
        state[i] = ((state[i] ^ (state[i - 1] ^ state[i - 1] >> 62) * 2862933555777941757) - i) & _WORD
        i += 1
        if i == _N:
            state[0], i = state[-1], 1
    state[0] = 1 << 63
    return state


def _twist(state: np.ndarray) -> None:
    """Advance the state by 312 words, in three parts whose inputs are already known."""
    for low, high, other in ((0, _N - _M, _M), (_N - _M, _N - 1, 0)):
        after = state[low + 1 : high + 1]
        state[low:high] = _mixed(state[low:high], after, state[other : other + high - low])
    state[_N - 1 :] = _mixed(state[_N - 1 :], state[:1], state[_M - 1 : _M])


def _mixed(word: np.ndarray, after: np.ndarray, other: np.ndarray) -> np.ndarray:
    joined = (word & _UPPER) | (after & _LOWER)
    return other ^ (joined >> np.uint64(1)) ^ (joined & np.uint64(1)) * _MATRIX


def _tempered(state: np.ndarray) -> np.ndarray:
    word = state ^ (state >> np.uint64(29) & np.uint64(0x5555555555555555))
    word ^= word << np.uint64(17) & np.uint64(0x71D67FFFEDA60000)
    word ^= word << np.uint64(37) & np.uint64(0xFFF7EEE000000000)
    return word ^ word >> np.uint64(43)
