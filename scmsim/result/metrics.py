"""Compute metrics, which are formulas over counters; a metric whose counters are absent is absent too, and never 0.

Sources: the nine metrics of Table 7 of the University of Maine thesis on the TLB cost of NVM file systems (2020), as printed
there and not as in its MATLAB appendix (48 of the appendix's 108 assignments differ); write amplification as in Section II.A of
the VSM paper (extra bytes per useful byte), and the usual ratio; space waste by equation 1 of the VSM paper.  Inputs are the
fields of `counters.SCHEMA`, perf's event names of any Intel generation, and the extra inputs of `compute`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from scmsim.result.suppliers import SUPPLIERS

Number = int | float


class Way(NamedTuple):
    """One way to compute a metric: its inputs, in the formula's order, and the formula."""

    inputs: tuple[str, ...]
    formula: Callable[..., float]


@dataclass(frozen=True)
class Metric:
    """Unit, meaning and the ways to compute a metric; the first way whose inputs are all present is used."""

    unit: str
    meaning: str
    ways: tuple[Way, ...]


def _metric(unit: str, meaning: str, inputs: str, formula: Callable[..., float], *others: Way) -> Metric:
    """Return a metric; `others` are ways to compute it on CPUs that do not count the inputs separately, and are tried first."""
    return Metric(unit, meaning, (*others, Way(tuple(inputs.split()), formula)))


class _Meaningless(ValueError):
    """Error for a figure that is meaningless although its inputs are present; the text is the reason."""


def _ratio(a: Number, b: Number) -> float:
    return a / b


def _extra(stored: Number, written: Number) -> float:
    if stored < written:
        raise _Meaningless(
            "fewer data bytes were stored than written: some are still dirty, or were overwritten before write-back"
        )
    return (stored - written) / written


def _percent(a: Number, whole: Number) -> float:
    return 100 * a / whole


def _per_1000(a: Number, whole: Number) -> float:
    return 1000 * a / whole


def _percent_of_sum(a: Number, b: Number, whole: Number) -> float:
    return 100 * (a + b) / whole


def _sum(*parts: Number) -> float:
    return sum(parts)


TABLE7: dict[str, Metric] = {
    "walk_cycles_percent_data": _metric(
        "%",
        "cycles spent in page walks for data",
        "load_walk_time store_walk_time cycles",
        _percent_of_sum,
        Way(("data_walk_time", "cycles"), _percent),
    ),
    "walks_per_1000_instructions_data": _metric(
        "walks",
        "page walks for data per 1000 instructions",
        "load_walks store_walks instructions",
        lambda load, store, instructions: 1000 * (load + store) / instructions,
        Way(("data_walks", "instructions"), _per_1000),
    ),
    "cycles_per_walk_data": _metric(
        "cycles",
        "average cycles of a page walk for data",
        "load_walk_cost store_walk_cost load_walks store_walks",
        lambda load_cost, store_cost, load, store: (load_cost + store_cost) / (load + store),
        Way(("data_walk_cost", "data_walks"), _ratio),
    ),
    "walk_cycles_percent_instruction": _metric(
        "%",
        "cycles spent in page walks for instructions",
        "code_walk_time cycles",
        _percent,
    ),
    "walks_per_1000_instructions_instruction": _metric(
        "walks",
        "page walks for instructions per 1000 instructions",
        "code_walks instructions",
        _per_1000,
    ),
    "cycles_per_walk_instruction": _metric(
        "cycles", "average cycles of a page walk for instructions", "code_walk_cost code_walks", _ratio
    ),
    "l1_misses": _metric("lines", "lines brought into the L1 data cache", "l1d_replacement", _sum),
    "l2_misses": Metric(
        "loads",
        "retired loads that missed the L2 cache",
        (Way(("llc_hit", "xsnp_hit", "xsnp_hitm", "llc_miss"), _sum), Way(("l2_miss",), _sum)),
    ),
    "llc_misses": _metric("loads", "retired loads that missed the last-level cache", "llc_miss", _sum),
}

METRICS: dict[str, Metric] = {
    **TABLE7,
    "tlb_traffic": _metric(
        "instructions",
        "retired loads and stores: perf's dTLB-loads + dTLB-stores on Intel, not look-ups",
        "loads stores",
        _sum,
    ),
    "tlb_loads_per_store": _metric("ratio", "retired loads per retired store", "loads stores", _ratio),
    "tlb_miss_percent": _metric(
        "%",
        "perf's dTLB misses (on Skylake and later: walks) per retired load or store",
        "load_misses store_misses loads stores",
        lambda load_miss, store_miss, load, store: 100 * (load_miss + store_miss) / (load + store),
    ),
    "dtlb_lookups": _metric("accesses", "data TLB look-ups", "load_lookups store_lookups", _sum),
    "addressed_percent": _metric(
        "%",
        "loads and stores that had an address and so were looked up in the TLB; the others count as instructions alone",
        "load_lookups store_lookups loads stores",
        lambda a, b, load, store: min(100.0, 100 * (a + b) / (load + store)),
    ),
    "dtlb_l1_misses": _metric(
        "accesses",
        "data look-ups that missed the first level",
        "load_stlb_hits store_stlb_hits load_walks store_walks",
        _sum,
        Way(("data_l1_misses",), _sum),
    ),
    "dtlb_walks": _metric("walks", "page walks for data", "load_walks store_walks", _sum, Way(("data_walks",), _sum)),
    "dtlb_kernel_l1_misses": _metric(
        "accesses",
        "data look-ups at kernel addresses that missed the first level",
        "load_stlb_hits store_stlb_hits load_walks store_walks user_stlb_hits user_walks",
        lambda a, b, c, d, *user: a + b + c + d - sum(user),
        Way(("data_l1_misses", "user_stlb_hits", "user_walks"), lambda a, *user: a - sum(user)),
    ),
    "dtlb_kernel_walks": _metric(
        "walks",
        "page walks for data at kernel addresses",
        "load_walks store_walks user_walks",
        lambda load, store, user: load + store - user,
        Way(("data_walks", "user_walks"), lambda a, user: a - user),
    ),
    "dtlb_l1_miss_percent": _metric(
        "%",
        "data look-ups that missed the first level",
        "load_stlb_hits store_stlb_hits load_walks store_walks load_lookups store_lookups",
        lambda a, b, c, d, load, store: 100 * (a + b + c + d) / (load + store),
    ),
    "dtlb_walk_percent": _metric(
        "%",
        "data look-ups that ended in a page walk",
        "load_walks store_walks load_lookups store_lookups",
        lambda a, b, load, store: 100 * (a + b) / (load + store),
        Way(("data_walks", "load_lookups", "store_lookups"), lambda a, load, store: 100 * a / (load + store)),
    ),
    "stlb_miss_percent": _metric(
        "%",
        "data look-ups in the second level that missed it",
        "load_stlb_hits store_stlb_hits load_walks store_walks",
        lambda a, b, load, store: 100 * (load + store) / (a + b + load + store),
        Way(("data_stlb_hits", "data_walks"), lambda hits, walks: 100 * walks / (hits + walks)),
    ),
    "write_amplification": _metric(
        "ratio",
        "bytes stored to persistent memory per byte written by the program",
        "pm_stored_bytes written_bytes",
        _ratio,
    ),
    "write_amplification_lines": _metric(
        "ratio",
        "bytes in cache lines written back per byte written by the program",
        "lines_written_back written_bytes",
        lambda lines, written: 64 * lines / written,
    ),
    **{
        f"write_amplification_media_{granule}": _metric(
            "ratio",
            f"media bytes per byte written by the program, granule of {granule} bytes",
            f"media_bytes_{granule} written_bytes",
            _ratio,
        )
        for granule in (64, 256, 4096)
    },
    "cow_extra_ratio": _metric(
        "ratio",
        "data bytes stored beyond the request per byte written (write amplification of the VSM paper)",
        "stored_bytes_data written_bytes",
        _extra,
    ),
    "read_amplification": _metric(
        "ratio",
        "bytes loaded from persistent memory per byte read by the program",
        "pm_loaded_bytes read_bytes",
        _ratio,
    ),
    "space_waste_percent": _metric(
        "%",
        "unused bytes in the last pages of files, as a share of the bytes allocated for data",
        "space_waste_bytes space_allocated_bytes",
        lambda waste, allocated: 100 * waste / allocated,
    ),
    "space_metadata_percent": _metric(
        "%",
        "bytes of metadata (logs, inodes, tables) per byte of file data",
        "space_metadata_bytes space_live_bytes",
        lambda metadata, live: 100 * metadata / live,
    ),
    "estimated_ns_per_call": _metric("ns", "estimated time of one call", "estimated_ns calls", _ratio),
}


@dataclass
class Metrics:
    """Values by name, the reason for each absent metric, and the names that depend on an estimate."""

    values: dict[str, float] = field(default_factory=dict)
    why_absent: dict[str, str] = field(default_factory=dict)
    estimated: list[str] = field(default_factory=list)


def compute(
    counters: Mapping[str, Number],
    *,
    calls: int | None = None,
    written_bytes: int | None = None,
    read_bytes: int | None = None,
    stored_bytes: Mapping[str, int] | None = None,
    space: Mapping[str, int] | None = None,
    estimated_ns: float | None = None,
    estimated_cycles: float | None = None,
) -> Metrics:
    """Compute all metrics of `METRICS` that the inputs allow.

    Parameters
    ----------
    counters : mapping
        Fields of `counters.SCHEMA` or perf event names; a counter that the producer cannot supply is left out.
    calls : int
        Number of calls that the counters cover.
    written_bytes, read_bytes : int
        Payload: bytes that the program requested to write and to read.
    stored_bytes : mapping
        Bytes stored to persistent memory by kind (`records.KINDS`).
    space : mapping
        The model's space report at the end: `live_bytes`, `allocated_bytes`, `metadata_bytes`, `waste_bytes`.
    estimated_ns, estimated_cycles : float
        From `time.estimate`: the cycles replace a missing cycle counter, and metrics that use them are marked as estimated.
    """
    inputs = canonical(counters)
    extra = {"calls": calls, "written_bytes": written_bytes, "read_bytes": read_bytes, "estimated_ns": estimated_ns}
    inputs.update({name: value for name, value in extra.items() if value is not None})
    inputs.update({f"stored_bytes_{kind}": value for kind, value in (stored_bytes or {}).items()})
    inputs.update({f"space_{name}": value for name, value in (space or {}).items()})
    guesses = {"estimated_ns"}
    if "cycles" not in inputs and estimated_cycles is not None:
        inputs["cycles"] = estimated_cycles
        guesses.add("cycles")
    return _evaluate(METRICS, inputs, guesses)


def table7(counters: Mapping[str, Number]) -> Metrics:
    """Compute only the nine metrics of Table 7.

    The counters may have perf's names of any generation or this package's field names.
    """
    return _evaluate(TABLE7, canonical(counters), set())


def canonical(counters: Mapping[str, Number]) -> dict[str, Number]:
    """Return the counters under the names that the formulas use, in addition to their own names.

    Any spelling works: "DTLB_LOAD_MISSES.WALK_COMPLETED", "dtlb_load_misses.walk_completed" or the field name.
    """
    inputs = {re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_"): value for name, value in counters.items()}
    for name, events in SUPPLIERS.items():
        supplier = next((event for event in events if event in inputs), None)
        if supplier:
            inputs[name] = inputs[supplier]
    return inputs


def suppliers(needed: str) -> tuple[str, ...]:
    """Return the counters that can supply a formula's input; the first one present is used."""
    return (*SUPPLIERS.get(needed, ()), needed)


def space_waste(file_bytes: int, page_bytes: int) -> int:
    """Return the bytes of the last page that a file leaves unused; 0 if the page size divides its size."""
    return -file_bytes % page_bytes


def _evaluate(table: Mapping[str, Metric], inputs: Mapping[str, Number], guesses: set[str]) -> Metrics:
    out = Metrics()
    for name, metric in table.items():
        way = next((way for way in metric.ways if all(needed in inputs for needed in way.inputs)), None)
        if way is None:
            lacking = [needed for needed in metric.ways[-1].inputs if needed not in inputs]
            out.why_absent[name] = f"no {' and no '.join(_event(needed) for needed in lacking)}"
            continue
        try:
            out.values[name] = way.formula(*(inputs[needed] for needed in way.inputs))
        except _Meaningless as reason:
            out.why_absent[name] = str(reason)
            continue
        except ZeroDivisionError:
            zero = [needed for needed in way.inputs if inputs[needed] == 0]
            out.why_absent[name] = f"divides by zero: {', '.join(_event(needed) for needed in zero)} is 0"
            continue
        if guesses.intersection(way.inputs):
            out.estimated.append(name)
    return out


def _event(name: str) -> str:
    """Return the name of an input on current CPUs: the last of the events that supply it."""
    return SUPPLIERS.get(name, (name,))[-1]
