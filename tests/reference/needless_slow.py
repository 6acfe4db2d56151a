"""Reference of `scmsim.mmu.needless`: lists, one set of one call at a time."""


def needed(calls, sets, tags, sure):
    """Numbers of the touches to be looked up; `calls` are lists of rows of the other three."""
    found, at = set(), 0
    for call in calls:
        by_set = {}
        for number, row in enumerate(call, at):
            by_set.setdefault(sets[row], []).append((number, tags[row], sure[row]))
        at += len(call)
        for name, touches in by_set.items():
            if name == -1 or touches[0][2] == 0:
                found |= {number for number, _, _ in touches}
                continue
            for stretch in stretches(touches):
                found |= of_stretch(stretch)
    return sorted(found)


def stretches(touches):
    """Cut where a page more would be too many."""
    cut = [[]]
    for touch in touches:
        if len({page for _, page, _ in [*cut[-1], touch]}) > min(touch[2], 64):
            cut.append([])
        cut[-1].append(touch)
    return cut


def of_stretch(stretch):
    """The first touch of each page, and its last one if it must come behind what is looked up of a page touched before it."""
    numbers = {}
    for number, page, _ in stretch:
        numbers.setdefault(page, []).append(number)
    found, behind = set(), -1
    for mine in sorted(numbers.values(), key=max):
        found.add(mine[0])
        if mine[0] < behind:
            found.add(mine[-1])
        behind = max(found & set(mine))
    return found
