"""Rules of the lab's plugin for lines, in plain Python: which accesses it records, and touches joined by page."""


def left(stream: list[tuple[str, int]], sets: int = 64) -> list[tuple[str, int]]:
    """Return the accesses (kind, line) that are recorded: not those to the line used last of its set, unless they do more to it."""
    newest: dict[int, tuple[str, int]] = {}
    found = []
    for kind, line in stream:
        last = newest.get(line % sets)
        if last == (kind, line) or (kind == "load" and last == ("store", line)):
            continue
        newest[line % sets] = kind, line
        found.append((kind, line))
    return found


def joined(touches: list[tuple[int, bool, int]]) -> list[tuple[int, bool, int, int]]:
    """Return (page, whether a store, bits of the lines, first line) for touches (line, whether a store, stretch) in order."""
    found: dict[tuple[int, int, bool], list[int]] = {}
    for line, store, stretch in touches:
        found.setdefault((stretch, line // 64, store), []).append(line)
    return [
        (page, store, sum({1 << line % 64 for line in lines}), lines[0]) for (_, page, store), lines in found.items()
    ]
