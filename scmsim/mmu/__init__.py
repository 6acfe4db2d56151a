"""TLBs, page-walk caches and page walks of one core.

`machine(name)` gives the state of an MMU, `scmsim.mmu.replay.replay` adds a batch of events to the counters, `simulate` does
both for addresses, `plain_misses` counts the misses of one or two TLB arrays as fast as can be, `scmsim.mmu.mrc` those of every
geometry at once.  Importing this package compiles nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from scmsim import registry

if TYPE_CHECKING:
    import numpy as np

    Addresses = Sequence[int] | np.ndarray | Iterable[np.ndarray]


CHUNK = 1 << 20  # addresses in flight


def names() -> list[str]:
    """Names of the machines that come with the package."""
    return registry.names("machine")


def machine(name: str) -> "np.ndarray":
    """Fresh MMU of a machine: a name of `names()` or the path of a TOML file (see `scmsim.mmu.presets`)."""
    from scmsim.mmu import presets

    return presets.machine(name)


def timing(name: str) -> dict[str, float]:
    """Numbers of a machine's [time] table (see `scmsim.mmu.presets.timing`)."""
    from scmsim.mmu import presets

    return presets.timing(name)


def simulate(
    addresses: "Addresses",
    machine: "str | dict[str, Any]" = "i7-8700k",
    page: str | int = "4KiB",
    *,
    access: str = "load",
    contiguous: bool = False,
    scm_tables: bool = False,
) -> dict[str, int]:
    """Counters of one 1-byte access at each address, in order, on a machine that starts with empty TLBs.

    Parameters
    ----------
    addresses : array of integers, or an iterable of arrays
        Byte addresses; unsigned values of the kernel half are taken as they are.  An iterable is streamed.
    machine : str or dict
        As for `mmu.machine`, or the table of a machine file.
    page : str or int
        Size of every page: a power of two from 4KiB to 1GiB.
    access : "load", "store" or "fetch"
    contiguous : bool
        Whether neighbouring pages are contiguous in physical memory, so that TLBs that can coalesce them do.
    scm_tables : bool
        Whether the page tables lie in storage-class memory.

    Returns
    -------
    dict
        The counters that the MMU supplies.

    Raises
    ------
    UsageError
        For addresses that are not integers, or an unknown machine, page size or kind of access.

    Examples
    --------
    >>> simulate(range(0, 1 << 20, 4096))["dtlb_load_misses_walk_completed"]
    256
    """
    import numpy as np

    from scmsim.counters import COUNTERS, rounded
    from scmsim.errors import unknown
    from scmsim.mmu import presets
    from scmsim.mmu.build import build
    from scmsim.mmu.columns import SUPPLIED
    from scmsim.mmu.stream import stream
    from scmsim.records import CONTIGUOUS, FETCH, LOAD, SCM_TABLE, STORE

    codes = {"load": LOAD, "store": STORE, "fetch": FETCH}
    if access not in codes:
        raise unknown("kind of access", access, codes)
    order = order_of(page) | CONTIGUOUS * contiguous | SCM_TABLE * scm_tables
    state = build(machine) if isinstance(machine, dict) else presets.machine(machine)
    counters = np.zeros(1, COUNTERS)
    for part in chunks(addresses):
        stream(state, counters, part, codes[access], order)
    total = rounded(counters[0])
    return {field: total[field] for field in SUPPLIED}


def simulate_file(
    path: str, machine: "str | dict[str, Any]" = "i7-8700k", page: str | int = "4KiB", *, contiguous: bool = False
) -> dict[str, int]:
    """`simulate` for a file of accesses (see `scmsim.mmu.accesses`): its loads, stores and instruction fetches."""
    import numpy as np

    from scmsim.counters import COUNTERS, rounded
    from scmsim.mmu import accesses, presets
    from scmsim.mmu.build import build
    from scmsim.mmu.columns import SUPPLIED
    from scmsim.mmu.replay import replay
    from scmsim.mmu.stream import stream
    from scmsim.records import CONTIGUOUS, EVENT, LOAD

    order = order_of(page) | CONTIGUOUS * contiguous
    state = build(machine) if isinstance(machine, dict) else presets.machine(machine)
    counters = np.zeros(1, COUNTERS)
    for codes, addresses in accesses.read(path):
        if codes is None:
            stream(state, counters, addresses, LOAD, order)
            continue
        events = np.zeros(len(codes), EVENT)
        events["code"], events["vaddr"], events["order"] = codes, addresses, order
        events["width"], events["length"] = 1, 1
        replay(state, counters, events, np.zeros(len(codes), np.int64), len(codes))
    total = rounded(counters[0])
    return {field: total[field] for field in SUPPLIED}


def plain_misses(
    addresses: "Addresses", first: str = "64x4", second: str | None = "1536x12", page: str | int = "4KiB"
) -> dict[str, int]:
    """Misses of one or two LRU arrays, given as ENTRIESxWAYS, and nothing else: `accesses`, `l1_misses`, `l2_misses`.

    Up to 16 ways and a power of two of sets, this runs at several times the speed of `simulate`, which takes the rest.
    """
    from scmsim.errors import UsageError
    from scmsim.mmu import presets
    from scmsim.mmu.plain import WAYS, Shape, Tlbs

    table, order = presets.plain(first, second), order_of(page)
    shapes = [Shape(entry["entries"], entry["ways"]) for entry in table["tlb"]]
    quick = all(shape.ways <= WAYS and shape.sets & (shape.sets - 1) == 0 for shape in shapes)
    tlbs = Tlbs(shapes[0], shapes[1] if second else None, order) if quick else _Plain(table, order)
    accesses = 0
    for part in chunks(addresses):
        accesses += len(part)
        if not tlbs.add(part):
            raise UsageError("the addresses lie in more than 255 regions of 2^24 pages; use 'simulate' for them")
    found = [int(count) for count in tlbs.misses]
    return {"accesses": accesses, "l1_misses": found[0], **({"l2_misses": found[1]} if second else {})}


class _Plain:
    """What `plain.Tlbs` does, for any shape, by way of the whole MMU."""

    def __init__(self, table: "dict[str, Any]", order: int) -> None:
        import numpy as np

        from scmsim.counters import COUNTERS
        from scmsim.mmu.build import build

        self.state, self.order, self.counters = build(table), order, np.zeros(1, COUNTERS)

    def add(self, addresses: "np.ndarray") -> bool:
        from scmsim.mmu.stream import stream
        from scmsim.records import LOAD

        stream(self.state, self.counters, addresses, LOAD, self.order)
        return True

    @property
    def misses(self) -> list[int]:
        walks = int(self.counters["dtlb_load_misses_walk_completed"][0])
        return [walks + int(self.counters["dtlb_load_misses_stlb_hit"][0]), walks]


def order_of(page: str | int) -> int:
    """log2 of a page size; raises UsageError for what is not a power of two from 4 KiB to 1 GiB."""
    from scmsim.errors import UsageError
    from scmsim.units import parse_bytes

    size = parse_bytes(page)
    if size < 4096 or size > 1 << 30 or size & (size - 1):
        raise UsageError(f"page = {page!r}; use a power of two from 4KiB to 1GiB")
    return size.bit_length() - 1


def chunks(addresses: "Addresses") -> "Iterator[np.ndarray]":
    """Yield int64 arrays of at most CHUNK addresses; raises UsageError for what is not integers."""
    import numpy as np

    from scmsim.errors import UsageError

    pieces = not isinstance(addresses, np.ndarray | Sequence) or (
        len(addresses) and isinstance(addresses[0], np.ndarray)
    )
    for array in addresses if pieces else (addresses,):
        where = np.asarray(array).ravel()
        if where.size and where.dtype.kind not in "iu":
            raise UsageError(f"addresses must be integers, not {where.dtype}")
        if where.dtype == np.uint64:
            where = where.view(np.int64)
        for start in range(0, where.size, CHUNK):
            yield np.ascontiguousarray(where[start : start + CHUNK], np.int64)
