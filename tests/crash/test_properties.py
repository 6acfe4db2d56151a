"""The states of a crash and the formulas of write amplification against their reference implementations."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.crash._cache import Cache, choices
from scmsim.fs.recovery.image import LINE, Bulk, Word
from scmsim.study import amplification as amp
from tests.reference import crash_slow

lines = st.integers(0, 2)
stores = st.tuples(st.sampled_from(["store", "nt"]), lines, st.integers(0, 1), st.integers(1, 3))
steps = st.one_of(stores, stores, st.tuples(st.just("flush"), lines), st.just(("fence",)))


def all_states(program):
    cache = Cache()
    for number, (kind, *rest) in enumerate(program):
        if kind == "fence":
            cache.fence(*rest)
        elif kind == "flush":
            line, *cpu = rest
            cache.flush(line * LINE, line * LINE + 1, *cpu)
        else:
            line, word, value, *cpu = rest
            cache.store(number, Word(line * LINE + 8 * word, (line, word), value), kind == "nt", *cpu)
    extents = cache.extents()
    total, kept = choices(extents, 8, 1 << 20, "0")
    images = [cache.after(extents, counts) for counts in kept]
    assert len(images) == total
    return {frozenset({**cache.durable.words, **image.words}.items()) for image in images}


@settings(max_examples=150)
@given(st.lists(steps, max_size=7))
def test_the_states_are_those_of_the_slow_twin(program):
    assert all_states(program) == crash_slow.memories(program)


@settings(max_examples=150)
@given(st.lists(st.tuples(steps, st.integers(0, 1)), max_size=9))
def test_a_fence_orders_what_its_own_cpu_wrote_back(program):
    program = [(*step, cpu) for step, cpu in program]
    assert all_states(program) == crash_slow.memories_of_cpus(program)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 9000), st.integers(1, 9000), st.booleans()), min_size=1, max_size=5))
def test_cutting_runs_into_pieces_loses_no_byte(runs):
    """All arrived: the durable image has the labels of the runs in program order."""
    cache, want = Cache(), {}
    for number, (addr, length, fence) in enumerate(runs):
        cache.store(number, Bulk(addr, length, -2 - number), False)
        cache.flush(addr, addr + length)
        for word in range(addr // 8, (addr + length - 1) // 8 + 1):
            want[word] = -2 - number
        if fence:
            cache.fence()
    extents = cache.extents()
    image = cache.after(extents, tuple(len(extent.writes) for extent in extents))
    for word, label in want.items():
        assert np.broadcast_to(image.page(word // 512), 512)[word % 512] == label


@settings(max_examples=150)
@given(
    st.integers(0, 60_000), st.integers(1, 60_000), st.integers(0, 90_000), st.sampled_from([4096, 8192, 16_384, 65_536])
)  # fmt: skip
def test_the_schemes_store_what_their_slow_twins_count(offset, length, size, grain):
    writes = amp.Writes(*(np.array([value]) for value in (offset, length, size)))
    table = amp.amplify(writes, [4096, grain])
    assert table[f"cow-{grain >> 10}KiB"]["data"] == sum(crash_slow.replaced(offset, length, size, grain))
    if grain > 4096:
        whole, fine, fresh = crash_slow.finely_replaced(offset, length, size, grain, 4096)
        assert table[f"mcow-{grain >> 10}KiB"]["data"] == whole * grain + fine * 4096 + fresh
    for levels in table.values():
        assert levels["payload"] <= levels["data"] <= levels["stored"] <= levels["lines"] == levels["media_64"]
        assert levels["media_64"] <= levels["media_256"] <= levels["media_4096"]
