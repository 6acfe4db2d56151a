"""TLBs, page-walk caches and page walks of one core.

- `machine(name)` returns the state of an MMU.
- `scmsim.mmu.replay.replay` replays a batch of events and adds to the counters.
- `simulate` runs a list of addresses on one machine; `simulate_frame` runs it on several machines and page sizes at
once.
- `plain_misses` counts only the misses of one or two TLB arrays, at several times the speed.
- `scmsim.mmu.mrc` counts the misses of every geometry in one pass.

Importing this package compiles nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from scmsim.core import registry
from scmsim.core.errors import UsageError, expect, unknown

if TYPE_CHECKING:
    import os

    import numpy as np
    import pandas as pd

    Addresses = Sequence[int] | np.ndarray | Iterable[np.ndarray] | Iterable[int]
    Machine = str | os.PathLike[str] | dict[str, Any]


CHUNK = 1 << 20  # addresses in memory at a time


def names() -> list[str]:
    """Return the names of the bundled machines."""
    return registry.names("machine")


def machine(name: "Machine") -> "np.ndarray":
    """Return an MMU with empty TLBs; `name` is a name of `names()`, the path of a TOML file, or a machine table."""
    from scmsim.mmu import presets

    return presets.machine(name)


def timing(name: str) -> dict[str, float]:
    """Return the numbers of a machine's [time] table (see `scmsim.mmu.presets.timing`)."""
    from scmsim.mmu import presets

    return presets.timing(name)


def simulate(
    addresses: "Addresses",
    machine: "Machine" = "i7-8700k",
    page: str | int = "4KiB",
    *,
    access: str = "load",
    contiguous: bool = False,
    scm_tables: bool = False,
) -> dict[str, int]:
    """Return the counters of one 1-byte access at each address, in order, on a machine that starts with empty TLBs.

    Parameters
    ----------
    addresses : array of integers, or an iterable of arrays or integers
        Byte addresses; unsigned values of the kernel half are allowed.  An iterable is streamed.
    machine : str, path or dict
        As for `mmu.machine`, or the table of a machine file.
    page : str or int
        Size of every page: a power of two from 4KiB to 1GiB.
    access : "load", "store" or "fetch"
    contiguous : bool
        Whether neighbouring pages are contiguous in physical memory, so that coalescing TLBs coalesce them.
    scm_tables : bool
        Whether the page tables are in storage-class memory.

    Returns
    -------
    dict
        Each counter that the MMU supplies, by name.

    Raises
    ------
    UsageError
        For addresses that are not integers, or an unknown machine, page size or kind of access.

    Examples
    --------
    >>> simulate(range(0, 1 << 20, 4096))["dtlb_load_misses_walk_completed"]
    256
    """
    run = [(machine, page)]
    return _simulate_all(addresses, run, access=access, contiguous=contiguous, scm_tables=scm_tables)[0]


def simulate_frame(
    addresses: "Addresses",
    machine: "Machine | list[Machine]" = "i7-8700k",
    page: str | int | list[str | int] = "4KiB",
    *,
    access: str = "load",
    contiguous: bool = False,
    scm_tables: bool = False,
) -> "pd.DataFrame":
    """Run `simulate` for every machine x page size, in one pass over the addresses.

    Parameters
    ----------
    addresses, access, contiguous, scm_tables
        As for `simulate`.
    machine : str or dict, or a list of them
    page : str or int, or a list of them

    Returns
    -------
    pandas.DataFrame
        A row for each machine and page size, with the columns `machine` (a table's summary), `page` and the counters.

    Examples
    --------
    >>> frame = simulate_frame(range(0, 1 << 23, 4096), ["i7-8700k", "zen4"], ["4KiB", "2MiB"])
    >>> frame["dtlb_load_misses_walk_completed"].tolist()
    [2048, 4, 2048, 4]
    """
    import pandas as pd

    machines = machine if isinstance(machine, list) else [machine]
    pages = page if isinstance(page, list) else [page]
    runs = [(one, size) for one in machines for size in pages]
    counts = _simulate_all(addresses, runs, access=access, contiguous=contiguous, scm_tables=scm_tables)
    names = [str(one.get("summary", "")) if isinstance(one, dict) else str(one) for one, _ in runs]
    rows = [
        {"machine": name, "page": size, **count} for name, (_, size), count in zip(names, runs, counts, strict=True)
    ]
    return pd.DataFrame(rows)


def _simulate_all(
    addresses: "Addresses", runs: "list[tuple[Machine, str | int]]", *, access: str, contiguous: bool, scm_tables: bool
) -> list[dict[str, int]]:
    """Run `simulate` for each machine and page size, in one pass over the addresses."""
    import numpy as np

    from scmsim.core.counters import COUNTERS, rounded
    from scmsim.core.records import CONTIGUOUS, FETCH, LOAD, SCM_TABLE, STORE
    from scmsim.mmu import presets
    from scmsim.mmu.batch import replay_batch
    from scmsim.mmu.columns import SUPPLIED

    codes = {"load": LOAD, "store": STORE, "fetch": FETCH}
    expect("access", access, str, f"one of {', '.join(codes)}")
    expect("contiguous", contiguous, bool, "True or False")
    expect("scm_tables", scm_tables, bool, "True or False")
    if access not in codes:
        raise unknown("kind of access", access, codes)
    kind = CONTIGUOUS * contiguous | SCM_TABLE * scm_tables
    running = [(presets.machine(machine), np.zeros(1, COUNTERS), order_of(page) | kind) for machine, page in runs]
    for part in chunks(addresses):
        for state, counters, order in running:
            replay_batch(state, counters, part, codes[access], order)
    totals = [rounded(counters[0]) for _, counters, _ in running]
    return [{field: total[field] for field in SUPPLIED} for total in totals]


def simulate_file(
    path: str, machine: "Machine" = "i7-8700k", page: str | int = "4KiB", *, contiguous: bool = False
) -> dict[str, int]:
    """Run `simulate` for a file of accesses (see `scmsim.mmu.accesses`): its loads, stores and instruction fetches.

    `instructions` is the number of fetches in the file; the field is absent if the file has no fetches.  A file of page runs
    (`scmsim.mmu.page_runs`) and the Parquet of `scmsim replay --accesses` record their page sizes, so `page` is ignored.
    The Parquet also records the number of instructions; its setup is replayed but not counted.
    """
    from scmsim.mmu import accesses, page_runs

    if page_runs.is_page_runs(path):
        return _simulate_runs(path, machine, contiguous)
    if accesses.is_table(path):
        return _simulate_table(path, machine)
    return simulate_accesses(accesses.read(path), machine, page, contiguous=contiguous)


def _simulate_runs(path: str, machine: "Machine", contiguous: bool) -> dict[str, int]:
    """Run `simulate` for a file of page runs."""
    import numpy as np

    from scmsim.core.counters import COUNTERS
    from scmsim.core.records import CONTIGUOUS, FETCH
    from scmsim.mmu import page_runs, presets
    from scmsim.mmu.replay import replay

    state, counters, fetches = presets.machine(machine), np.zeros(1, COUNTERS), 0
    for runs in page_runs.events(path):
        fetches += int(runs["length"][runs["code"] == FETCH].sum())
        runs["order"] |= CONTIGUOUS * contiguous
        replay(state, counters, runs, np.zeros(len(runs), np.int64), len(runs))
    return _supplied(counters, fetches)


def _simulate_table(path: str, machine: "Machine") -> dict[str, int]:
    """Run `simulate` for the Parquet of `scmsim replay --accesses`."""
    import numpy as np

    from scmsim.core.counters import COUNTERS, rounded
    from scmsim.mmu import accesses, presets
    from scmsim.mmu.columns import SUPPLIED
    from scmsim.mmu.replay import replay

    state, counters = presets.machine(machine), np.zeros(2, COUNTERS)  # the second row: setup
    for events, setup, instructions in accesses.table_events(path):
        replay(state, counters, events, setup.astype(np.int64), len(events))
        counters["instructions"][0] += instructions
    total = rounded(counters[0])
    return {field: total[field] for field in SUPPLIED}


def simulate_accesses(
    batches: "Iterable[tuple[np.ndarray | None, np.ndarray]]",
    machine: "Machine" = "i7-8700k",
    page: str | int = "4KiB",
    *,
    contiguous: bool = False,
) -> dict[str, int]:
    """Run `simulate` for batches of event codes (None: all loads) and addresses."""
    import numpy as np

    from scmsim.core.counters import COUNTERS
    from scmsim.core.records import CONTIGUOUS, EVENT, FETCH, LOAD
    from scmsim.mmu import presets
    from scmsim.mmu.batch import replay_batch
    from scmsim.mmu.replay import replay

    order = order_of(page) | CONTIGUOUS * contiguous
    state, counters, fetches = presets.machine(machine), np.zeros(1, COUNTERS), 0
    for codes, addresses in batches:
        if codes is None:
            replay_batch(state, counters, addresses, LOAD, order)
            continue
        fetches += int(np.count_nonzero(codes == FETCH))
        events = np.zeros(len(codes), EVENT)
        events["code"], events["vaddr"], events["order"] = codes, addresses, order
        events["bytes_per_access"], events["length"] = 1, 1
        replay(state, counters, events, np.zeros(len(codes), np.int64), len(codes))
    return _supplied(counters, fetches)


def _supplied(counters: "np.ndarray", fetches: int) -> dict[str, int]:
    """Return the counters that the MMU supplies; `instructions` only if there are fetches."""
    from scmsim.core.counters import rounded
    from scmsim.mmu.columns import SUPPLIED

    total = {**rounded(counters[0]), "instructions": fetches}
    return {field: total[field] for field in SUPPLIED if field != "instructions" or fetches}


def plain_misses(
    addresses: "Addresses", first: str = "64x4", second: str | None = "1536x12", page: str | int = "4KiB"
) -> dict[str, int]:
    """Return the counts `accesses`, `l1_misses` and `l2_misses` of one or two LRU arrays, given as ENTRIESxWAYS.

    With at most 16 ways and 2^n sets, counting takes a fraction of the time of `simulate`; other shapes take as long as
    `simulate`.
    """
    from scmsim.mmu import presets
    from scmsim.mmu.miss_count import WAYS, Shape, Tlbs

    expect("first", first, str, "a TLB as entries x ways, e.g. 64x4")
    expect("second", second, (str, type(None)), "a TLB as entries x ways, e.g. 1536x12, or None")
    table, order = presets.plain(first, second), order_of(page)
    shapes = [Shape(entry["entries"], entry["ways"]) for entry in table["tlb"]]
    quick = all(shape.ways <= WAYS and shape.sets & (shape.sets - 1) == 0 for shape in shapes)
    tlbs = Tlbs(shapes[0], shapes[1] if second else None, order) if quick else _Plain(table, order)
    accesses = 0
    for part in chunks(addresses):
        accesses += len(part)
        if not tlbs.add(part):
            raise UsageError(
                "the addresses are in more than 255 regions of 2^24 pages; "
                "use --machine instead of --l1 (in Python: mmu.simulate)"
            )
    found = [int(count) for count in tlbs.misses]
    return {"accesses": accesses, "l1_misses": found[0], **({"l2_misses": found[1]} if second else {})}


class _Plain:
    """A replacement for `miss_count.Tlbs` that accepts any shape, because it runs the whole MMU."""

    def __init__(self, table: "dict[str, Any]", order: int) -> None:
        import numpy as np

        from scmsim.core.counters import COUNTERS
        from scmsim.mmu.build import build

        self.state, self.order, self.counters = build(table), order, np.zeros(1, COUNTERS)

    def add(self, addresses: "np.ndarray") -> bool:
        from scmsim.core.records import LOAD
        from scmsim.mmu.batch import replay_batch

        replay_batch(self.state, self.counters, addresses, LOAD, self.order)
        return True

    @property
    def misses(self) -> list[int]:
        walks = int(self.counters["dtlb_load_misses_walk_completed"][0])
        return [walks + int(self.counters["dtlb_load_misses_stlb_hit"][0]), walks]


def order_of(page: str | int) -> int:
    """Return log2 of a page size; raises UsageError for a size that is not a power of two from 4 KiB to 1 GiB."""
    from scmsim.core.units import page_order

    try:
        return page_order(page)
    except UsageError as error:
        raise UsageError(f"page: {error}") from None


def chunks(addresses: "Addresses") -> "Iterator[np.ndarray]":
    """Yield int64 arrays of at most CHUNK addresses; raises UsageError for anything but integers."""
    import numpy as np

    for array in _pieces(addresses):
        where = _integers(array)
        if where.dtype == np.uint64:
            where = where.view(np.int64)
        for start in range(0, where.size, CHUNK):
            yield np.ascontiguousarray(where[start : start + CHUNK], np.int64)


def _pieces(addresses: "Addresses") -> "Iterator[Any]":
    """Yield the arrays of an iterable of arrays, or the integers of an iterable of integers in lists of CHUNK."""
    import numpy as np

    if isinstance(addresses, np.ndarray | Sequence) and not (len(addresses) and isinstance(addresses[0], np.ndarray)):
        yield addresses
        return
    if not isinstance(addresses, Iterable):
        raise UsageError(f"addresses = {addresses!r}; give an array of integers, or an iterable of arrays")
    numbers: list[Any] = []
    for item in addresses:
        if np.ndim(item) == 0:
            numbers.append(item)
        if numbers and (np.ndim(item) or len(numbers) == CHUNK):
            yield numbers
            numbers = []
        if np.ndim(item):
            yield item
    if numbers:
        yield numbers


def _integers(array: Any) -> "np.ndarray":
    """Return a one-dimensional array of integers; raises UsageError for anything else."""
    import numpy as np

    where = np.asarray(array).ravel()
    if where.size and where.dtype.kind not in "iu" and all(type(value) is int for value in array):
        # a list with addresses of both halves of the address space fits neither int64 nor uint64
        if not all(-(1 << 63) <= value < 1 << 64 for value in array):
            raise UsageError("addresses must be integers of at most 64 bits")
        where = np.array([value & (1 << 64) - 1 for value in array], np.uint64)
    if where.size and where.dtype.kind not in "iu":
        raise UsageError(f"addresses must be integers, not {where.dtype}")
    return where
