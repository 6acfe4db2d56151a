"""Show lists of counters and metrics, each with its unit and its meaning from the glossary."""

from collections.abc import Iterable, Mapping

from scmsim.result import glossary, metrics
from scmsim.result.tables.figures import number

_TLB = ("dtlb_l1_miss_percent", "stlb_miss_percent", "dtlb_walk_percent")


def lines(figures: Iterable[tuple[str, str, str]]) -> list[str]:
    """Return a line for each figure (name in results, value as text, text after the value, such as a spread)."""
    rows = [(value, glossary.unit(name), name, after, glossary.meaning(name)) for name, value, after in figures]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(4)]
    return [
        "  ".join(
            [row[0].rjust(widths[0]), *(row[i].ljust(widths[i]) for i in (1, 2, 3) if widths[i]), row[4]]
        ).rstrip()
        for row in rows
    ]


def tlb(counters: Mapping[str, int]) -> list[str]:
    """Return lines for an MMU's load look-ups, its other nonzero counters, and its miss ratios."""
    ratios = metrics.compute(counters).values
    shown = [(name, count) for name, count in counters.items() if count or name == "dtlb_load_lookups"]
    return lines(
        [
            *((name, f"{count:,}", "") for name, count in shown),
            *((name, number(ratios[name]), "") for name in _TLB if name in ratios),
        ]
    )


def lru(counts: Mapping[str, int]) -> list[str]:
    """Return lines for the accesses and misses of plain LRU arrays, with the misses in percent of the accesses."""
    total = counts["accesses"]
    said = {"accesses": "accesses", "l1_misses": "misses of the first array", "l2_misses": "misses of the second array"}
    width = len(f"{total:,}")
    return [
        f"{count:>{width},}  {said[name]}{f', {number(100 * count / total)} %' if name != 'accesses' and total else ''}"
        for name, count in counts.items()
    ]
