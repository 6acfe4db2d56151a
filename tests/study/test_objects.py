"""Lines of objects that belong to a file, and the guest's clock: against loops over single touches."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.study.tlb import clock, objects

TOUCHES = st.lists(
    st.tuples(st.integers(0, 12), st.integers(-1, 3), st.integers(0, 63), st.integers(0, 3)), min_size=1, max_size=60
)


def slow(touches: list[tuple[int, int, int]], size: int) -> tuple[list[bool], list[int]]:
    """Return what objects.own does, from (call, file, byte within the slabs), object by object."""
    places: dict[int, list[tuple[int, int]]] = {}
    for call, file, at in sorted(touches):
        seen = places.setdefault(at // size, [])
        if (call, file) not in seen:
            seen.append((call, file))
    own, count = {}, {}
    for place, seen in places.items():
        files = [file for _, file in seen]
        changes = sum(a != b for a, b in zip(files, files[1:], strict=False))
        for file in set(files):
            span = files[files.index(file) : len(files) - files[::-1].index(file)]
            few = changes <= objects.CHANGES * max(len(files) - 1, 1)
            own[place, file] = file >= 0 and few and span.count(file) >= objects.SHARE * len(span)
            count[place, file] = sum(at // size == place and of == file for _, of, at in touches)
    out, numbers = [], []
    for _, file, at in touches:
        place = at // size
        mine = sorted(((-count[p, f], p) for (p, f), yes in own.items() if yes and f == file))
        rank = [p for _, p in mine].index(place) if own[place, file] else 0
        out.append(own[place, file])
        numbers.append((rank * -(-size // 64) + at % size // 64) % 64)
    return out, numbers


@settings(deadline=None, max_examples=100)
@given(TOUCHES, st.sampled_from([40, 192, 256, 1184]))
def test_objects_of_files(touches: list[tuple[int, int, int, int]], size: int) -> None:
    of_call = {call: file for call, file, _, _ in touches}
    call, _, line, page = (np.array(column, np.int64) for column in zip(*touches, strict=True))
    file = np.array([of_call[one] for one in call.tolist()])
    first = 1 << 40
    sizes = np.full(len(call), size)
    seen = objects.Lines(call, file, line, first + 4096 * page, 4096 * page, sizes)
    is_own, number = objects.own(seen)
    at = (4096 * page + 64 * line).tolist()
    expected = slow(list(zip(call.tolist(), file.tolist(), at, strict=True)), max(size, 64))
    assert (is_own.tolist(), number.tolist()) == expected


def test_an_object_without_a_size_is_a_page() -> None:
    seen = objects.Lines(*(np.array(column) for column in ([0, 1], [5, 5], [3, 9], [4096, 4096], [0, 0], [0, 0])))
    assert [column.tolist() for column in objects.own(seen)] == [[True, True], [3, 9]]


def test_ticks_are_at_the_interrupted_calls_and_in_long_gaps() -> None:
    lengths, ticks = np.ones(100), np.array([9, 19, 39, 49])
    ticked = clock.times(lengths, ticks) // clock.TICK_NS
    assert ticked[[0, 8, 9, 18, 19, 28, 29, 38, 39, 49, 99]].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 9]


def test_without_interrupts_time_stands_still() -> None:
    assert clock.times(np.ones(4), np.array([1, 2])).tolist() == [0, 0, 0, 0]


def test_new_pages_are_filled_by_one_call() -> None:
    whole, page = (1 << 64) - 1, np.array([1, 1, 2, 3, 4, 5, 5])
    call, lines = (
        np.array([7, 7, 7, 8, 8, 8, 9]),
        np.array([whole >> 32, whole << 32 & whole, whole, whole, 1, whole, 1], np.uint64),
    )
    store = np.array([True, True, True, False, True, True, False])
    assert objects.new_pages(page, call, store, lines).tolist() == [0, 0, 1, -1, -1, -1, -1]
