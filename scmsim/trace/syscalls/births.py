"""Put the line of a fork before the lines of its child.

`strace -z` prints a call only when it has returned, so a child's lines can come before the line of the fork that made it, and
the lines of its own children, too.  The parent makes no call in between, so its line may move up to the child's first one.
"""

import re
from bisect import bisect_left
from collections import defaultdict

_HINTS = (b"fork(", b"clone")
_PROCESS = re.compile(rb"\d+(?=[ <])").match
_FORK = re.compile(
    rb'\d++(?=[ <])[^"]*? (?:clone[23]?|v?fork)\(.*\)\s+= (\d+)(?: /\* (\d+) in )?.*\n', re.DOTALL
).fullmatch


def in_order(block: bytes) -> bytes:
    """Return the lines of a block with each fork before its child's first line, if the block has both."""
    if not any(hint in block for hint in _HINTS):
        return block
    lines, is_changed = block.splitlines(keepends=True), False
    while order := _order(lines):  # a fork that moved may now come before the fork of its parent
        lines, is_changed = [lines[i] for i in order], True
    return b"".join(lines) if is_changed else block


def _order(lines: list[bytes]) -> list[int]:
    """Return the order in which each fork comes before its child's first line; an empty list if it does so now."""
    of: defaultdict[bytes, list[int]] = defaultdict(list)  # process -> indices of its lines
    forks = []
    for i, line in enumerate(lines):
        if m := _PROCESS(line):
            of[m[0]].append(i)
            if any(hint in line for hint in _HINTS) and (fork := _FORK(line)):
                forks.append((i, len(of[m[0]]) - 2, m[0], fork[2] or fork[1]))
    place: dict[int, float] = {}
    for i, before, parent, child in forks:
        found = of.get(child, [])
        first = bisect_left(found, of[parent][before] if before >= 0 else 0)  # an earlier process had the number, too
        if first < len(found) and found[first] < i:
            place[i] = found[first] - 0.5
    return sorted(range(len(lines)), key=lambda i: place.get(i, i)) if place else []
