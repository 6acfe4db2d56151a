"""Buddy allocator: blocks of 2**k units, split in halves when allocated and joined with their buddy when freed.

A chunk is the largest block, 128 KiB; the smallest is 32 bytes (SCM manager paper, section 4.2).  A chunk's blocks are the nodes
of a binary heap: node 1 is the chunk, node i splits into 2i and 2i + 1, and its buddy is i ^ 1.  Each node has one bit: 1 = the
whole block is free.  An allocation takes the lowest of the smallest sufficient blocks (Linux takes the one freed last).  Only
chunks that were ever in use (`touched`) have bits, so the state grows with the used part of the device.  Units: bytes, orders.
"""

import numpy as np

from scmsim.alloc.bitmap import lowest_bit
from scmsim.jit import kernel

SMALLEST_SHIFT, LARGEST_SHIFT = 5, 17  # log2 of the bytes of the smallest and the largest block
ORDERS = LARGEST_SHIFT - SMALLEST_SHIFT + 1
TOP = ORDERS - 1  # order of a chunk
LEAVES = 1 << TOP  # number of smallest blocks in a chunk
WORDS = 2 * LEAVES // 64  # words of a chunk's bitmap
AT_ONCE = 64  # chunks for which bitmaps are reserved from the start

_ONE = np.int64(1)  # not int: in kernels run as plain Python, the int 1 << 63 does not fit an int64

FIELDS = [
    ("nodes", "i8"),  # arena offset of the chunks' bitmaps
    ("having", "i8"),  # arena offset of one bitmap per order: bit k is 1 if chunk k has a free block of that order
    ("span", "i8"),  # words of one of the bitmaps at `having`
    ("chunks", "i8"),
    ("held", "i8"),  # capacity of the bitmaps, chunks
    ("touched", "i8"),  # chunks that were ever in use; all chunks after them are free
    ("origin", "i8"),  # device offset of the first chunk
    ("free_of", "i8", (ORDERS,)),  # number of free blocks by order, including chunks that were never in use
    ("lowest", "i8", (ORDERS,)),  # by order: all words of its bitmap in `having` before this one are 0
    ("splits", "i8"),
    ("joins", "i8"),
]


def arena_words(chunks: int) -> int:
    """Return the number of arena words in the bitmaps of `chunks` chunks."""
    return chunks * WORDS + ORDERS * -(-chunks // 64)


def attach(state, origin: int, length: int) -> None:
    """Manage the device's bytes [origin, origin + length), a whole number of chunks; reserve bitmaps at the arena's top."""
    record = state.record[0]
    record.origin, record.chunks, record.touched, record.held = origin, length >> LARGEST_SHIFT, 0, 0
    record.free_of[TOP] = record.chunks
    _hold(record, state.arena, min(int(record.chunks), AT_ONCE))


@kernel
def _hold(s, arena, target):
    """Move the bitmaps to the arena's top, and size them for `target` chunks."""
    nodes, span = s.arena_top, (target + 63) >> 6
    having = nodes + target * WORDS
    s.arena_top = having + ORDERS * span
    for w in range(s.touched * WORDS):
        arena[nodes + w] = arena[s.nodes + w]
    for order in range(ORDERS):
        for w in range((s.touched + 63) >> 6):
            arena[having + order * span + w] = arena[s.having + order * s.span + w]
    s.nodes, s.having, s.span, s.held = nodes, having, span, target


@kernel
def ready(s, arena, chunks):
    """Grow the bitmaps for `chunks` more touched chunks; return False, with `need_words` set, if the arena is too small."""
    if s.held >= min(s.chunks, s.touched + chunks):
        return True
    target = min(s.chunks, max(2 * s.held, s.touched + chunks))
    words = target * WORDS + ORDERS * ((target + 63) >> 6)
    if s.arena_top + words > arena.size:
        s.need_words = words
        return False
    _hold(s, arena, target)
    return True


@kernel
def order_for(length):
    """Return the order of the smallest block of at least `length` bytes; at least ORDERS if no block is large enough."""
    order = 0
    while (1 << (SMALLEST_SHIFT + order)) < length:
        order += 1
    return order


@kernel
def room(s, order):
    """Return how many blocks of an order are free, counting the parts of larger free blocks."""
    blocks = 0
    for larger in range(order, ORDERS):
        blocks += s.free_of[larger] << (larger - order)
    return blocks


@kernel
def _set(s, arena, chunk, node, order):
    """Mark a node as free."""
    arena[s.nodes + chunk * WORDS + (node >> 6)] |= _ONE << (node & 63)
    w = chunk >> 6
    arena[s.having + order * s.span + w] |= _ONE << (chunk & 63)
    s.lowest[order] = min(s.lowest[order], w)
    s.free_of[order] += 1


@kernel
def _clear(s, arena, chunk, node, order):
    """Mark a node as no longer a free block."""
    at = s.nodes + chunk * WORDS
    arena[at + (node >> 6)] &= ~(_ONE << (node & 63))
    s.free_of[order] -= 1
    if _first(s, arena, chunk, order) == 0:
        arena[s.having + order * s.span + (chunk >> 6)] &= ~(_ONE << (chunk & 63))


@kernel
def _first(s, arena, chunk, order):
    """Return the lowest free node of an order in a chunk, 0 if there is none."""
    at, first = s.nodes + chunk * WORDS, LEAVES >> order
    for w in range(first >> 6, ((2 * first - 1) >> 6) + 1):
        word = arena[at + w]
        if first < 64:  # the nodes of several orders share this word
            word &= ((_ONE << first) - 1) << first
        if word != 0:
            return w * 64 + lowest_bit(word)
    return 0


@kernel
def _chunk_with(s, arena, order):
    """Return the lowest touched chunk with a free block of exactly this order, -1 if there is none."""
    for w in range(s.lowest[order], (s.touched + 63) >> 6):
        word = arena[s.having + order * s.span + w]
        if word != 0:
            s.lowest[order] = w
            return w * 64 + lowest_bit(word)
    s.lowest[order] = (s.touched + 63) >> 6
    return -1


@kernel
def allocate(s, arena, order):
    """Allocate a block of an order; return its device offset, -1 if there is none.  Call `ready` for one chunk first."""
    chunk, larger = -1, order
    while larger < ORDERS:
        chunk = _chunk_with(s, arena, larger)
        if chunk >= 0:
            break
        larger += 1
    if chunk < 0:
        if s.touched == s.chunks:
            return -1
        chunk, larger = s.touched, TOP
        s.touched += 1
        s.free_of[TOP] -= 1  # `_set` counts the chunk again, as a touched one
        _set(s, arena, chunk, 1, TOP)
    node = _first(s, arena, chunk, larger)
    _clear(s, arena, chunk, node, larger)
    while larger > order:
        larger -= 1
        node *= 2  # keep the lower half, free the upper half
        _set(s, arena, chunk, node + 1, larger)
        s.splits += 1
    return s.origin + (chunk << LARGEST_SHIFT) + ((node - (LEAVES >> order)) << (SMALLEST_SHIFT + order))


@kernel
def release(s, arena, at, order):
    """Free the block of order `order` at device offset `at`, which may be a part of a larger allocated block."""
    at -= s.origin
    chunk = at >> LARGEST_SHIFT
    node = (LEAVES >> order) + ((at & ((1 << LARGEST_SHIFT) - 1)) >> (SMALLEST_SHIFT + order))
    while order < TOP:
        buddy = node ^ 1
        if (arena[s.nodes + chunk * WORDS + (buddy >> 6)] >> (buddy & 63)) & 1 == 0:
            break
        _clear(s, arena, chunk, buddy, order)
        node >>= 1
        order += 1
        s.joins += 1
    _set(s, arena, chunk, node, order)


def free_runs(record: np.record, arena: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (start, length) of each free run on the device, both in units of the smallest block."""
    touched, chunks, nodes = int(record.touched), int(record.chunks), int(record.nodes)
    bits = np.unpackbits(arena[nodes : nodes + touched * WORDS].view(np.uint8), bitorder="little")
    chunk, node = np.nonzero(bits.reshape(-1, 2 * LEAVES))
    order = TOP + 1 - np.frexp(node.astype(np.float64))[1].astype(np.int64)
    start = chunk * LEAVES + ((node - (LEAVES >> order)) << order)
    start, length = np.append(start, touched * LEAVES), np.append(1 << order, (chunks - touched) * LEAVES)
    some = length > 0
    return start[some] + (int(record.origin) >> SMALLEST_SHIFT), length[some]
