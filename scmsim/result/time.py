"""Estimate (not predict) the time of a run from its counts, as a sum of terms in ns, each with one cause.

The terms are: `instructions` x CPI, minus the instructions that streamed stores hide; hits in the second TLB level; walk cycles
that are not hidden; invalidations of translations; dependent loads x latency of the medium; loaded bytes and stored bytes, each
divided by the lower of the bandwidths of core and medium; waits of small stores that miss the module's write buffer; fences x
drain; calls x system-call entry; time that calls waited for the file system's threads.
The form of the sum follows the sustained-rate reasoning for persistent memory: waits of a call are added, and of times that
overlap, only the larger counts.  The loads and the stores of one core are bounded by its lines in flight, each of which takes
the latency of the medium.

Non-temporal stores drain from their buffers while the code that issues them runs.  As measured by tests/verification/overlap.c,
a copy by such stores takes either the time of its bytes (loaded and stored) or the time of its instructions (including those
between its pages), whichever is longer.  A copy by a rep-string takes the sum of both times.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Number = int | float

_WALKS = ("dtlb_load_misses_walk_active", "dtlb_store_misses_walk_active", "itlb_misses_walk_active")
_STLB_HITS = ("dtlb_load_misses_stlb_hit", "dtlb_store_misses_stlb_hit", "itlb_misses_stlb_hit")

_LINE = 64  # bytes
GRANULES = (64, 256, 4096)  # bytes; granules for which `counters.SCHEMA` counts media writes


@dataclass
class Estimate:
    """Time estimate: terms in ns, the reason for each absent term, and the sum in cycles (None if `ghz` is unknown)."""

    terms: dict[str, float] = field(default_factory=dict)
    why_absent: dict[str, str] = field(default_factory=dict)
    cycles: float | None = None

    @property
    def total_ns(self) -> float:
        """Return the sum of the terms that could be computed."""
        return math.fsum(self.terms.values())  # sum() rounds differently from Python 3.12 on


class _Absent(Exception):
    """Error for a counter or a parameter that a term needs and lacks."""


def estimate(
    counters: Mapping[str, Number],
    time: Mapping[str, Any],
    medium: Mapping[str, Any],
    *,
    calls: int | None = None,
    waited_ns: int = 0,
    bulk: Mapping[str, Number] | None = None,
) -> Estimate:
    """Estimate the time that the counted work takes.

    Parameters
    ----------
    counters : mapping
        Fields of `counters.SCHEMA`.
    time : mapping
        A machine's [time] table: `ghz`, `cpi` (cycles per instruction without waiting for memory), `stlb_hit_cycles`,
        `walk_hidden` (share of walk cycles that out-of-order execution hides, 0..1), `copy_gb_s` (bytes per ns that one core
        can store), `syscall_ns`; optionally `load_gb_s` (bytes per ns that one core can load) and `lines_in_flight` (number of
        lines of a run that one core requests at the same time).
    medium : mapping
        A medium: `load_ns`, optionally `stream_ns` (latency of a line in a run, if it is not `load_ns`), `read_gb_s`,
        `write_gb_s` (bytes per ns), `granule` (bytes), `fence_ns` (one fence), optionally `store_ns` (latency of a stored line),
        `write_miss_ns` and `write_miss_line_ns` (wait of a small store that misses the write buffer: first and further lines),
        `curves` (`core.curves.Curves`: how latency grows with bandwidth) and `cached` (false: the CPU does not cache the
        medium, and the bandwidth includes the latency of every access).
    calls : int
        Number of system calls that the counters cover.
    waited_ns : int
        Time that calls waited for a thread of the file system (a migration).
    bulk : mapping, optional
        Counters of the sites that move data in bulk (copies, clearing); without it no instructions are hidden.
    """
    given: dict[str, Any] = {**counters, "calls": calls}
    formulas = {
        "instructions": lambda: _instructions_ns(given, time) - _hidden_ns(bulk or {}, time, medium),
        "stlb_hits": lambda: (
            sum(_of(given, name) for name in _STLB_HITS) * _of(time, "stlb_hit_cycles") / _of(time, "ghz")
        ),
        "walks": lambda: sum(_of(given, name) for name in _WALKS) * (1 - _of(time, "walk_hidden")) / _of(time, "ghz"),
        "invalidations": lambda: _of(given, "tlb_invalidation_cycles") / _of(time, "ghz"),
        "dependent_loads": lambda: (
            _of(given, "pm_dependent_loads") * _of(medium, "load_ns") if medium.get("cached", True) else 0.0
        ),
        "load_bandwidth": lambda: _loads_ns(given, time, medium),
        "store_bandwidth": lambda: _stores_ns(given, time, medium),
        **({"write_waits": lambda: _write_waits_ns(given, medium)} if "write_miss_ns" in medium else {}),
        "fences": lambda: _of(given, "fences") * _of(medium, "fence_ns"),
        "calls": lambda: _of(given, "calls") * _of(time, "syscall_ns"),
        **({"waits": lambda: float(waited_ns)} if waited_ns else {}),
    }
    out = Estimate()
    for name, formula in formulas.items():
        try:
            out.terms[name] = formula()
        except _Absent as absent:
            out.why_absent[name] = str(absent)
    if out.terms and time.get("ghz"):
        out.cycles = out.total_ns * time["ghz"]
    return out


def _instructions_ns(given: Mapping[str, Any], time: Mapping[str, Any]) -> float:
    return float(_of(given, "instructions") * _of(time, "cpi") / _of(time, "ghz"))


def _loads_ns(given: Mapping[str, Any], time: Mapping[str, Any], medium: Mapping[str, Any]) -> float:
    return float(_of(given, "pm_loaded_bytes") / load_gb_s(time, medium))


def load_gb_s(time: Mapping[str, Any], medium: Mapping[str, Any]) -> float:
    """Return the bytes per ns that one core loads in a run: the least that medium, core, and lines in flight allow."""
    latency = medium.get("stream_ns") or _of(medium, "load_ns")
    return float(
        min(_of(medium, "read_gb_s"), time.get("load_gb_s", math.inf), _in_flight_gb_s(time, medium, latency, 100))
    )


def store_gb_s(time: Mapping[str, Any], medium: Mapping[str, Any]) -> float:
    """Return the bytes per ns that one core stores: the lesser of `copy_gb_s` and what its lines in flight allow."""
    return float(min(_of(time, "copy_gb_s"), _in_flight_gb_s(time, medium, medium.get("store_ns", 0), 0)))


def _in_flight_gb_s(time: Mapping[str, Any], medium: Mapping[str, Any], latency: float, reads_percent: float) -> float:
    """Return the bytes per ns that one core's lines in flight allow; infinite if their number or latency is unknown."""
    lines = time.get("lines_in_flight")
    if not lines or not latency or not medium.get("cached", True):
        return math.inf
    if loaded := medium.get("curves"):
        return float(loaded.rate(lines, latency, reads_percent))
    return float(_LINE * lines / latency)


def _stores_ns(given: Mapping[str, Any], time: Mapping[str, Any], medium: Mapping[str, Any]) -> float:
    media = media_bytes(given, _of(medium, "granule")) / _of(medium, "write_gb_s")
    return float(max(_of(given, "pm_stored_bytes") / store_gb_s(time, medium), media))


def _write_waits_ns(given: Mapping[str, Any], medium: Mapping[str, Any]) -> float:
    """Return the ns that small non-temporal stores wait for lines that the module's write buffer does not hold."""
    misses, lines = _of(given, "write_buffer_misses"), _of(given, "write_buffer_miss_lines")
    return float(misses * medium["write_miss_ns"] + (lines - misses) * medium.get("write_miss_line_ns", 0))


def _hidden_ns(bulk: Mapping[str, Any], time: Mapping[str, Any], medium: Mapping[str, Any]) -> float:
    """Return the ns of instructions hidden while non-temporal stores of bulk data drain and their sources are loaded."""
    if not bulk.get("nt_stored_bytes"):
        return 0.0
    streamed = bulk["nt_stored_bytes"] / bulk["pm_stored_bytes"]
    bulk = {"pm_loaded_bytes": 0, **bulk}  # a store of a program's bytes loads nothing
    try:
        return min(
            _instructions_ns(bulk, time), streamed * (_stores_ns(bulk, time, medium) + _loads_ns(bulk, time, medium))
        )
    except _Absent:
        return 0.0  # without the time of the stores, the stores hide nothing


def media_bytes(given: Mapping[str, Any], granule: int) -> Any:
    """Return the bytes written at the medium: in whole granules if these are counted, else the bytes stored."""
    return _of(given, f"media_bytes_{granule}" if granule in GRANULES else "pm_stored_bytes")


def _of(table: Mapping[str, Any], name: str) -> Any:
    if table.get(name) is None:
        raise _Absent(f"no {name}")
    return table[name]
