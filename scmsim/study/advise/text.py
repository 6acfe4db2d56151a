"""Turn the advice into sentences and into a table by file size."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from scmsim.core.units import format_bytes
from scmsim.study.advise import kernels as k
from scmsim.study.advise.profile import FAR, size_text
from scmsim.study.advise.search import FLAT, OBJECTIVES, PAGES, Advice, Choice


def pages(choice: Choice) -> str:
    """Return a phrase on the page sizes that a combination uses."""
    if choice.small >= FAR:
        return "4 KiB pages for all files"
    if choice.small == choice.large == 0:
        return "1 GiB pages for all files"
    if choice.small == choice.large:
        return f"4 KiB pages up to {size_text(choice.small)}, 1 GiB pages above"
    low = "" if choice.small == 0 else f"4 KiB pages up to {size_text(choice.small)}, "
    high = "" if choice.large >= FAR else f" up to {size_text(choice.large)}, 1 GiB pages above"
    return f"{low}2 MiB pages {'for all files' if not low and not high else 'above' if not high else ''}{high}".replace(
        "  ", " "
    )


def update(choice: Choice) -> str:
    """Return a phrase on how a combination overwrites data (undo log or kind of copy-on-write)."""
    return {
        "undo": "overwrites in place, with an undo log",
        "page": "copy-on-write by the file's own page",
        "mcow": "multi-grained copy-on-write in virtual superpages",
    }.get(choice.grain, f"copy-on-write by {choice.grain}")


def region(choice: Choice) -> str:
    """Return the text on the share of the device that is set aside for large pages; "" if there is no boundary."""
    return f", {choice.share} % of the device set aside for large pages" if choice.share else ""


def sentence(choice: Choice, advice: Advice | None = None) -> str:
    """Return one sentence that describes a combination; it omits the grain if the trace of `advice` overwrites nothing."""
    where = region(choice) if choice.small < FAR else ""
    overwrites = advice is None or advice.profile.sums[k.OVER] > 0
    return f"{pages(choice)}{where}" + (f"; {update(choice)}" if overwrites else "")


RULE = "the least product of walk cycles, bytes allocated and bytes written, of the combinations that no other beats"


def recommendation(advice: Advice) -> list[str]:
    """Return lines of text: the recommendation, its costs and its rule, then the front's best combination for each cost."""
    best, costs = advice.best, advice.costs
    lines = [f"recommended: {sentence(advice.choices[best], advice)}", f"  {figures(costs[best])}", f"  rule: {RULE}"]
    if advice.flat:
        cycles = costs[advice.front, 0]
        lines.append(
            f"page sizes do not matter for this trace: walk cycles of all {len(cycles)} combinations of the front are between "
            f"{cycles.min():,.0f} and {cycles.max():,.0f}, less than {FLAT:.0%} apart"
        )
    titles = ("fewest walk cycles", "least waste", "least write amplification")
    for column, title in enumerate(titles):
        row = advice.front[int(np.argmin(costs[advice.front, column]))]
        if row != best:
            lines += [f"{title}: {sentence(advice.choices[row], advice)}", f"  {figures(costs[row])}"]
    return lines


def figures(cost: np.ndarray) -> str:
    """Return the costs of a combination as text."""
    return f"{cost[0]:,.0f} walk cycles, {cost[1]:,.0f} bytes wasted, write amplification {cost[2]:.3f}"


def by_size(advice: Advice) -> Iterator[dict[str, Any]]:
    """Yield one row for each power of two of file length: files, touches, overwrites, and the recommended pages."""
    rows, classes = advice.profile.rows, advice.orders[advice.best]
    peak = rows[:, k.PEAK]
    order = np.where(peak > 0, np.frexp(np.maximum(peak - 1, 0).astype(np.float64))[1], -1)
    whole = max(1, int(rows[:, k.TOUCHED].sum()))
    for each in np.unique(order[order >= 0]):
        own = order == each
        counts = np.bincount(classes[own], minlength=3)
        waste = {format_bytes(page): int((-peak[own] % page).sum()) for page in PAGES}
        yield {
            "up_to": 1 << int(each),
            "files": int(own.sum()),
            "touches_percent": 100 * int(rows[own, k.TOUCHED].sum()) / whole,
            "overwritten_bytes": int(rows[own, k.OVERWRITTEN].sum()),
            "pages": {format_bytes(page): int(count) for page, count in zip(PAGES, counts, strict=True)},
            "waste_bytes": waste,
        }


def table(advice: Advice) -> dict[str, Any]:
    """Return the whole advice as a dict that can be written as JSON."""

    def row(i: int) -> dict[str, Any]:
        choice, cost = advice.choices[i], advice.costs[i]
        limits = {"small_up_to": choice.small, "large_up_to": choice.large}
        shown = {name: None if limit >= FAR else limit for name, limit in limits.items()}
        costs = dict(zip(OBJECTIVES, map(float, cost), strict=True))
        return {
            **shown,
            "boundary_percent": choice.share,
            "grain": choice.grain,
            **costs,
            "text": sentence(choice, advice),
        }

    return {
        "combinations": len(advice.choices),
        "infeasible": advice.infeasible,
        "placements": advice.placements,
        "capacity_bytes": advice.capacity,
        "touches_share": advice.profile.share,
        "recommended": row(advice.best),
        "rule": RULE,
        "page_sizes_matter": not advice.flat,
        "front": [row(int(i)) for i in advice.front],
        "by_size": list(by_size(advice)),
    }
