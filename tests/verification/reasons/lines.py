"""A line of the experiments, and the change of a cost table that several of them make."""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from scmsim.fs.engine import costs

Figures = tuple[float, ...]
LONG = "--long"  # TLB-11, -12 and -24 too: up to 24 GiB


class Line(NamedTuple):
    """A change, and what it does to a row."""

    row: str
    change: str
    before: Figures
    after: Figures
    published: str


@contextlib.contextmanager
def instructions(table: str, **counts: float) -> Iterator[None]:
    """Within it, those costs of a table take `counts` instructions."""

    def change(name: str, found: dict[str, Any]) -> dict[str, Any]:
        changed = {cost: {**found[cost], "instructions": count} for cost, count in counts.items() if name == table}
        return {**found, **changed}

    with costs.changed(change):
        yield
