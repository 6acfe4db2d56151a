"""Move the line of each fork before the lines of the fork's child.

`strace -z` prints a call only when it has returned, so the lines of a child and of its descendants can precede the line of
the fork that created the child.  The parent makes no call in between, so the fork may move up to the child's first line.
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
    """Return the block's lines with each fork moved before the first line of its child, if both are in the block."""
    if not any(hint in block for hint in _HINTS):
        return block
    lines, is_changed = block.splitlines(keepends=True), False
    while order := _order(lines):  # a fork that moved may now come before the fork of its parent
        lines, is_changed = [lines[i] for i in order], True
    return b"".join(lines) if is_changed else block


def _order(lines: list[bytes]) -> list[int]:
    """Return line indices in an order that puts forks before their children; an empty list if no line must move."""
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
        # search after the parent's previous line only: an earlier process may have had the same number
        first = bisect_left(found, of[parent][before] if before >= 0 else 0)
        if first < len(found) and found[first] < i:
            place[i] = found[first] - 0.5
    return sorted(range(len(lines)), key=lambda i: place.get(i, i)) if place else []
