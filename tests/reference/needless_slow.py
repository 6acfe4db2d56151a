"""Reference of `scmsim.mmu.needless`: lists, one sequence at a time."""


def needed(sequences, tags, sure):
    """Numbers of the touches to be looked up; `sequences` are lists of rows of `tags`."""
    found, at = set(), 0
    for rows in sequences:
        touches = [(number, tags[row]) for number, row in enumerate(rows, at)]
        at += len(rows)
        if sure == 0:
            found |= {number for number, _ in touches}
            continue
        for stretch in stretches(touches, min(sure, 64)):
            found |= of_stretch(stretch)
    return sorted(found)


def stretches(touches, most):
    """Cut where a page more would be too many."""
    cut = [[]]
    for touch in touches:
        if len({page for _, page in [*cut[-1], touch]}) > most:
            cut.append([])
        cut[-1].append(touch)
    return cut


def of_stretch(stretch):
    """The first touch of each page, and its last one if it must come behind what is looked up of a page touched before it."""
    numbers = {}
    for number, page in stretch:
        numbers.setdefault(page, []).append(number)
    found, behind = set(), -1
    for mine in sorted(numbers.values(), key=max):
        found.add(mine[0])
        if mine[0] < behind:
            found.add(mine[-1])
        behind = max(found & set(mine))
    return found
