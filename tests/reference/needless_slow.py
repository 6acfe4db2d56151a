"""Reference of `scmsim.mmu.needless`: lists, one sequence at a time."""


def needed(sequences, tags, sure, tree):
    """Numbers of the touches to be looked up; `sequences` are lists of rows of `tags`.  `tree`: the rule is tree-PLRU."""
    found, at = set(), 0
    for rows in sequences:
        touches = [(number, tags[row]) for number, row in enumerate(rows, at)]
        at += len(rows)
        if sure == 0:
            found |= {number for number, _ in touches}
            continue
        for stretch in stretches(touches, min(sure, 64)):
            # under tree-PLRU the order counts before each new page, too
            news = [at for at, (_, page) in enumerate(stretch) if page not in {before for _, before in stretch[:at]}]
            kept = set()
            for end in [*news[1:], len(stretch)] if tree else [len(stretch)]:
                kept |= of_stretch(stretch[:end], kept)
            found |= kept
    return sorted(found)


def stretches(touches, most):
    """Cut where a page more would be too many."""
    cut = [[]]
    for touch in touches:
        if len({page for _, page in [*cut[-1], touch]}) > most:
            cut.append([])
        cut[-1].append(touch)
    return cut


def of_stretch(stretch, kept):
    """The first touch of each page, and its last one if it must come behind what is looked up of a page touched before it."""
    numbers = {}
    for number, page in stretch:
        numbers.setdefault(page, []).append(number)
    found, behind = set(kept), -1
    for mine in sorted(numbers.values(), key=max):
        found.add(mine[0])
        if max(found & set(mine)) < behind:
            found.add(mine[-1])
        behind = max(found & set(mine))
    return found
