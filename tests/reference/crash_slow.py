"""Every memory that a crash may leave, by playing x86's rules one nondeterministic step at a time; shares no code with the package.

A program is a list of ("store", line, word, value), ("nt", line, word, value), ("flush", line), ("fence",).  After every step each
line may be written back as it is at that moment, or not.
"""

import itertools

Memory = frozenset


def memories(program: list[tuple]) -> set[frozenset]:
    """All contents {((line, word), value), ...} of persistent memory that a crash behind the program may leave."""
    worlds = {(frozenset(), frozenset(), frozenset())}  # persistent, in the caches, on the way
    for step in program:
        worlds = {after for world in worlds for taken in _step(world, step) for after in _evictions(taken)}
    return {persistent for persistent, _, _ in worlds}


def memories_of_cpus(program: list[tuple]) -> set[frozenset]:
    """The same for steps ("store", line, word, value, cpu), ("nt", line, word, value, cpu), ("flush", line, cpu), ("fence", cpu).

    A line persists as a prefix of its stores, no shorter than what a CPU wrote back before a fence of its own.
    """
    stores: dict[int, list] = {step[1]: [] for step in program if step[0] in ("store", "nt")}
    least = dict.fromkeys(stores, 0)
    for end, step in enumerate(program):
        if step[0] in ("store", "nt"):
            stores[step[1]].append(((step[1], step[2]), step[3]))
        for start, earlier in enumerate(program[:end] if step[0] == "fence" else []):
            if earlier[0] in ("flush", "nt") and earlier[-1] == step[-1] and earlier[1] in stores:
                count = sum(other[0] in ("store", "nt") and other[1] == earlier[1] for other in program[: start + 1])
                least[earlier[1]] = max(least[earlier[1]], count)
    lines = [[made[:count] for count in range(least[line], len(made) + 1)] for line, made in stores.items()]
    return {frozenset(dict(sum(chosen, [])).items()) for chosen in itertools.product(*lines)}


def _step(world: tuple, step: tuple) -> list[tuple]:
    persistent, cached, under_way = world
    if step[0] == "fence":
        return [(_written(persistent, under_way), cached, frozenset())]
    line = step[1]
    now = cached
    if step[0] in ("store", "nt"):
        now = _written(cached, {((line, step[2]), step[3])})
    if step[0] in ("flush", "nt"):
        under_way = _written(under_way, {item for item in now if item[0][0] == line})
    return [(persistent, now, under_way)]


def _evictions(world: tuple) -> list[tuple]:
    """Any set of lines is written back now."""
    persistent, cached, under_way = world
    outcomes = {persistent}
    for line in {place[0] for place, _ in cached}:
        content = {item for item in cached if item[0][0] == line}
        outcomes |= {_written(memory, content) for memory in outcomes}
    return [(memory, cached, under_way) for memory in outcomes]


def _written(memory: frozenset, items: set) -> frozenset:
    return frozenset((dict(memory) | dict(items)).items())


def replaced(offset: int, length: int, size: int, grain: int) -> tuple[int, int]:
    """(bytes of pages with old bytes that a write touches, its bytes outside of them), byte by byte."""
    pages = {at // grain for at in range(offset, offset + length) if at // grain * grain < size}
    return len(pages) * grain, sum(at // grain not in pages for at in range(offset, offset + length))


def finely_replaced(offset: int, length: int, size: int, grain: int, page: int) -> tuple[int, int, int]:
    """MCoW: (superpages covered, pages written to fresh ones, bytes of neither), byte by byte."""
    touched = range(offset, offset + length)
    whole = {
        at // grain
        for at in touched
        if at // grain * grain >= offset and (at // grain + 1) * grain <= offset + length and at // grain * grain < size
    }
    fine = {at // page for at in touched if at // grain not in whole and at // page * page < size}
    return len(whole), len(fine), sum(at // grain not in whole and at // page not in fine for at in touched)
