"""TLBs, page-walk caches and page walks of one core.

`machine(name)` gives a state record, `scmsim.mmu.replay.replay` adds a batch of events to the counters, `simulate` does
both for an array of addresses.  Importing this package compiles nothing.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scmsim import registry

if TYPE_CHECKING:
    import numpy as np

_CHUNK = 1 << 14


def names() -> list[str]:
    """Names of the machines that come with the package."""
    return registry.names("machine")


def machine(name: str) -> "np.recarray":
    """Fresh state record of a machine: a name of `names()` or the path of a TOML file (see `scmsim.mmu.presets`)."""
    from scmsim.mmu import presets

    return presets.machine(name)


def timing(name: str) -> dict[str, float]:
    """Numbers of a machine's [time] table (see `scmsim.mmu.presets.timing`)."""
    from scmsim.mmu import presets

    return presets.timing(name)


def simulate(
    addresses: "Sequence[int] | np.ndarray", machine: str = "i7-8700k", page: str | int = "4KiB"
) -> dict[str, int]:
    """Counters of one 1-byte load at each address, in order, on a machine that starts with empty TLBs.

    Parameters
    ----------
    addresses : array of integers
        Byte addresses; unsigned values of the kernel half are taken as they are.
    machine : str
        As for `mmu.machine`.
    page : str or int
        Size of every page: 4KiB, 2MiB or 1GiB.

    Returns
    -------
    dict
        The counters that the MMU supplies.

    Examples
    --------
    >>> simulate(range(0, 1 << 20, 4096))["dtlb_load_misses_walk_completed"]
    256
    """
    import numpy as np

    from scmsim.counters import COUNTERS, rounded
    from scmsim.errors import UsageError
    from scmsim.mmu import presets
    from scmsim.mmu.replay import SUPPLIED, replay
    from scmsim.mmu.state import ORDERS
    from scmsim.records import EVENT, LOAD
    from scmsim.units import parse_bytes

    orders = {1 << order: order for order in ORDERS}
    if parse_bytes(page) not in orders:
        raise UsageError(f"page = {page!r}; use 4KiB, 2MiB or 1GiB")
    where = np.asarray(addresses).ravel()
    if where.size and where.dtype.kind not in "iu":
        raise UsageError(f"addresses must be integers, not {where.dtype}")
    where = where.astype(np.int64, copy=False)
    state = presets.machine(machine)
    counters = np.zeros(1, COUNTERS).view(np.recarray)
    events = np.zeros(min(_CHUNK, where.size), EVENT).view(np.recarray)
    events.code, events.width, events.length, events.order = LOAD, 1, 1, orders[parse_bytes(page)]
    bins = np.zeros(events.size, np.int64)
    for start in range(0, where.size, _CHUNK):
        part = where[start : start + _CHUNK]
        events.vaddr[: part.size] = part
        replay(state, counters, events, bins, part.size)
    total = rounded(counters[0])
    return {field: total[field] for field in SUPPLIED}
