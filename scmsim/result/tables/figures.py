"""Define the rows of the comparison table, and the format of a figure."""

from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple

from scmsim.core.records import KINDS
from scmsim.result import glossary
from scmsim.result.run import CACHES, Run

ABSENT = "-"
FEW = 100  # events; a rate computed from fewer events is meaningless, so the number of events is shown instead
_LEAST = 1e-6
Value = int | float | None


class Row(NamedTuple):
    """One row of the table, which is left out if no run has the figure.

    `written` returns the text of a cell that does not show the plain number, else None.
    """

    label: str
    value: Callable[[Run], Value]
    written: Callable[[Run], str | None] = lambda run: None

    def cell(self, run: Run) -> str:
        """Return the figure of a run as text."""
        return self.written(run) or number(self.value(run))


def number(value: Value) -> str:
    """Return a number with four significant digits and separated thousands, without exponent; a dash for an absent value."""
    if value is None:
        return ABSENT
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) < _LEAST:
        return f"{'-' if value < 0 else ''}<{Decimal(str(_LEAST)):f}"
    return f"{Decimal(f'{value:.4g}'):f}"


def _counter(name: str) -> Callable[[Run], Value]:
    return lambda run: run.counters.get(name)


def _metric(name: str) -> Callable[[Run], Value]:
    return lambda run: run.metrics.get(name)


def _stored(kind: str) -> Callable[[Run], Value]:
    return lambda run: run.stored_bytes.get(kind)


def _payload(name: str) -> Callable[[Run], Value]:
    return lambda run: run.payload.get(name)


def _per_call(label: str, total: Callable[[Run], Value]) -> Row:
    def divided(run: Run) -> Value:
        value = total(run)
        return value / run.divisor if value is not None and run.divisor else None

    def few(run: Run) -> str | None:
        value = total(run)
        return f"{value:,} in all" if value and 10 * value < run.divisor and value < FEW else None

    return Row(label, divided, few)


def time_per_call(run: Run) -> Value:
    """Return the estimated time per call or touch, ns; None without an estimate."""
    per_call = run.metrics.get("estimated_ns_per_call")
    return per_call if run.unit == "call" else sum(run.time_ns.values()) / run.divisor if run.time_ns else None


def _cached(name: str) -> Callable[[Run], Value]:
    """Return the function for a counter of simulated data caches; measured counters of these names have rows of their own."""
    return lambda run: run.counters.get(name) if run.params.get(CACHES) else None


def _faults(level: str) -> Callable[[Run], Value]:
    return lambda run: run.counters.get(f"page_faults_{level}") or None


def _all_faults(run: Run) -> int:
    return sum(run.counters.get(f"page_faults_{level}", 0) for level in ("pte", "pmd", "pud"))


def _of_faults(run: Run) -> Value:
    """Return the instructions of the mechanism that handles page faults, if there were any faults."""
    return run.sites.get("page fault", {}).get("instructions") if _all_faults(run) else None


def _of_a_fault(run: Run) -> Value:
    value = _of_faults(run)
    return None if value is None else value / _all_faults(run)


def _share_of_faults(run: Run) -> Value:
    value, whole = _of_faults(run), run.counters.get("instructions")
    return 100 * value / whole if value is not None and whole else None


dtlb_walks = _metric("dtlb_walks")


def _per_million(run: Run) -> Value:
    rate = run.metrics.get("walks_per_1000_instructions_data")
    return 1000 * rate if rate is not None else None


def _few_walks(run: Run) -> str | None:
    walks = dtlb_walks(run)
    return f"{walks:,} in all" if walks and walks < FEW else None


def _cycles_of_few_walks(run: Run) -> str | None:
    walks, cycles = dtlb_walks(run), run.metrics.get("cycles_per_walk_data")
    return f"{cycles:,.0f} ({walks:,} walks)" if cycles is not None and walks and walks < FEW else None


def _added(*fields: str) -> Callable[[Run], Value]:
    return lambda run: (
        sum(run.counters[name] for name in fields) if all(name in run.counters for name in fields) else None
    )


def _of_size(size: str) -> tuple[str, str]:
    return f"dtlb_load_misses_walk_completed_{size}", f"dtlb_store_misses_walk_completed_{size}"


_SIZES = {"4 KiB": "4k", "2 MiB": "2m_4m", "1 GiB": "1g"}
# rows for reports: first-level misses and walks, by page size and by kernel or program addresses
TLB_PARTS: list[Row] = [
    *(
        _per_call(f"dTLB first-level misses, {name} pages", _added(f"dtlb_misses_stlb_hit_{size}", *_of_size(size)))
        for name, size in _SIZES.items()
    ),
    *(_per_call(f"dTLB page walks, {name} pages", _added(*_of_size(size))) for name, size in _SIZES.items()),
    _per_call("dTLB first-level misses, kernel", _metric("dtlb_kernel_l1_misses")),
    _per_call("dTLB first-level misses, program", _added("dtlb_user_misses_stlb_hit", "dtlb_user_misses_walk_completed")),
    _per_call("dTLB page walks, kernel", _metric("dtlb_kernel_walks")),
    _per_call("dTLB page walks, program", _counter("dtlb_user_misses_walk_completed")),
]  # fmt: skip

SECTIONS: dict[str, list[Row]] = {
    "": [
        Row("calls", lambda run: run.calls),
        Row("touches of mapped files", lambda run: run.touches or None),
        Row("trace operations", lambda run: run.operations or None),
    ],
    "per call": [
        _per_call("instructions", _counter("instructions")),
        _per_call("loads + stores (TLB traffic)", _metric("tlb_traffic")),
        _per_call("dTLB look-ups", _metric("dtlb_lookups")),
        _per_call("dTLB first-level misses", _metric("dtlb_l1_misses")),
        _per_call("dTLB page walks", dtlb_walks),
        *(_per_call(f"bytes stored: {kind}", _stored(kind)) for kind in KINDS if kind != "none"),
        _per_call("bytes stored: all", _counter("pm_stored_bytes")),
        _per_call("bytes loaded", _counter("pm_loaded_bytes")),
        _per_call("cache-line flushes", _counter("flushes")),
        _per_call("store fences", _counter("fences")),
        Row("time (estimate), ns", time_per_call),
    ],
    "data caches, per call": [
        _per_call("L1D lines replaced", _cached("l1d_replacement")),
        _per_call("L2 misses of loads", _cached("mem_load_retired_l2_miss")),
        _per_call("L3 hits of loads", _cached("mem_load_retired_l3_hit")),
        _per_call("L3 misses of loads", _cached("mem_load_retired_l3_miss")),
        _per_call("lines read from persistent memory", _cached("cache_pm_read")),
        _per_call("lines written back to persistent memory", _cached("cache_pm_written_back")),
        _per_call("unchecked loads + stores", _cached("cache_unchecked")),
    ],
    "page faults of mapped files": [
        *(
            Row(f"page faults, {name}", _faults(level))
            for name, level in zip(_SIZES, ("pte", "pmd", "pud"), strict=True)
        ),
        Row("page faults: write-protected", lambda run: run.counters.get("page_faults_write_protect") or None),
        Row("page faults: instructions each", _of_a_fault),
        Row("page faults: share of all instructions, %", _share_of_faults),
    ],
    "ratios": [
        Row("loads + stores with an address, %", _metric("addressed_percent")),
        Row("walks per million instructions", _per_million, _few_walks),
        Row("walk cycles, %", _metric("walk_cycles_percent_data")),
        Row("cycles per walk", _metric("cycles_per_walk_data"), _cycles_of_few_walks),
        Row("write amplification: stored", _metric("write_amplification")),
        Row("write amplification: lines", _metric("write_amplification_lines")),
        *(
            Row(f"write amplification: media {granule}", _metric(f"write_amplification_media_{granule}"))
            for granule in (64, 256, 4096)
        ),
        Row("extra data bytes per byte (VSM)", _metric("cow_extra_ratio")),
        Row("read amplification", _metric("read_amplification")),
    ],
    "totals": [
        Row("instructions", _counter("instructions")),
        Row("loads + stores (TLB traffic)", _metric("tlb_traffic")),
        Row("dTLB page walks", dtlb_walks),
        Row("bytes written by the program", _payload("written")),
        Row("bytes read by the program", _payload("read")),
        Row("bytes stored", _counter("pm_stored_bytes")),
        Row("bytes loaded", _counter("pm_loaded_bytes")),
    ],
    "space, bytes": [
        *(
            Row(glossary.label(name), lambda run, name=name: run.space.get(name))  # type: ignore[misc]
            for name in ("live_bytes", "allocated_bytes", "metadata_bytes", "waste_bytes")
        ),
        *(
            Row(glossary.label(name), lambda run, name=name: run.space.get(name) or None)  # type: ignore[misc]
            for name in ("dirty_bytes", "uncommitted_bytes")
        ),
    ],
}
