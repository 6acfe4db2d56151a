"""One run: a trace through one combination of models, or one cell of a measurement."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

# key in a run's params: the kernel and file system whose footprints (touches of kernel memory) the run includes
FOOTPRINTS = "footprints"
SYSTEM = "system"  # key in a run's params: the other activity on the machine, and how rep-strings count
CACHES = "caches"  # key in a run's params: how the data caches were simulated, if they were
# Arguments of a replay that name its kernel, its system's other activity and its data caches.
SURROUNDINGS = ("kernel", FOOTPRINTS, "meminfo", SYSTEM, CACHES)
TRAFFIC = ("mem_inst_retired_all_loads", "mem_inst_retired_all_stores")
# key in a run's errors: writes that wrote fewer bytes than requested, because the device was full after them
SHORT = "short writes"
SYNC_AT_END = "sync_at_end"  # key in a run's params: dirty data was written back at the end, which is counted


@dataclass
class Run:
    """One trace through one combination of models.

    Attributes
    ----------
    calls, operations : int
        Number of calls (a write and the fsync that continues it are one call), and of trace operations, both without setup.  A
        call that failed for lack of space has no effect and no cost in the models; it counts only as an operation.
    touches : int
        Loads, stores, write-backs and fences of the program through its mappings, which count as operations but not as calls.
    repeated : int
        Operations that were not replayed one by one, because they repeat earlier passes (see `scmsim.pipeline.periods`).
    counters : dict
        Fields of `counters.SCHEMA` that the producer can supply, for the whole run.
    sites, groups : dict
        The same counters by mechanism inside the file system, and by operation or file (`by` of the experiment).
    group_operations : dict
        Number of operations of each group; empty if the producer does not supply it.
    group_sites : dict
        The same counters by operation and, within it, by mechanism; empty unless `by` is "op".  Not part of a written result.
    payload : dict
        Bytes that the program requested to write and to read: `written`, `read`.
    stored_bytes : dict
        Bytes stored to persistent memory by kind (`records.KINDS`).
    space : dict
        The model's space report at the end, in bytes.
    errors : dict
        Number of failed operations by error name, and the index of the first, e.g. {"ENOSPC": 3, "first ENOSPC": 17}; also
        "short writes", which did not fail.
    time_ns : dict
        Terms of the time estimate in ns (see `scmsim.result.time`); estimates, not predictions.
    cell : dict
        What was measured, if the run is one cell of a matrix: `operation`, `file_bytes`, `unit_bytes`, and `repeat` from 1 if the
        cell was measured several times.  Runs with the same fs and cell are compared (`scmsim.compare`).
    events : dict
        For a measurement: the event that supplied each counter, as given to perf.
    intervals : dict
        For a replay: the 90 % interval of each figure of `intervals.FIGURES`, as {"low", "high", "basis"}; the bounds are None
        where nothing was measured.
    """

    fs: str
    machine: str | None = None
    paging: str | None = None
    medium: str | None = None
    calls: int = 0
    operations: int = 0
    touches: int = 0
    repeated: int = 0
    counters: dict[str, int] = field(default_factory=dict)
    metrics: dict[str, float | None] = field(default_factory=dict)
    why_absent: dict[str, str] = field(default_factory=dict)
    estimated: list[str] = field(default_factory=list)
    sites: dict[str, dict[str, int]] = field(default_factory=dict)
    groups: dict[str, dict[str, int]] = field(default_factory=dict)
    group_operations: dict[str, int] = field(default_factory=dict)
    group_sites: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict, repr=False, compare=False)
    payload: dict[str, int] = field(default_factory=dict)
    stored_bytes: dict[str, int] = field(default_factory=dict)
    space: dict[str, int] = field(default_factory=dict)
    time_ns: dict[str, float] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    params: dict[str, Any] = field(default_factory=dict)
    cell: dict[str, Any] = field(default_factory=dict)
    events: dict[str, str] = field(default_factory=dict)
    intervals: dict[str, dict[str, Any]] = field(default_factory=dict)

    def derive(
        self,
        time: Mapping[str, Any] | None = None,
        medium: Mapping[str, Any] | None = None,
        bulk: Iterable[str] = (),
    ) -> "Run":
        """Fill in `metrics`, `why_absent`, `estimated` and `time_ns` from the counts; return self.

        `time` is the machine's [time] table and `medium` the medium's table (see `time.estimate`); without `time` nothing is
        estimated.  `bulk` names the sites that move data in bulk.
        """
        from scmsim.result import metrics as formulas  # imported here because reading a result needs neither
        from scmsim.result.time import Estimate, estimate

        guess = Estimate()
        if time:
            guess = estimate(
                self.counters,
                time,
                medium or {},
                calls=self.calls,
                waited_ns=self.space.get("waited_ns", 0),
                bulk=self.of_sites(bulk),
            )
        self.time_ns = dict(guess.terms)
        found = formulas.compute(
            self.counters,
            calls=self.calls,
            written_bytes=self.payload.get("written"),
            read_bytes=self.payload.get("read"),
            stored_bytes=self.stored_bytes,
            space=self.space,
            estimated_ns=guess.total_ns if guess.terms else None,
            estimated_cycles=guess.cycles,
        )
        self.metrics = {name: found.values.get(name) for name in formulas.METRICS}
        self.why_absent = {**found.why_absent, **{f"time_ns.{term}": why for term, why in guess.why_absent.items()}}
        self.estimated = found.estimated
        return self

    def of_sites(self, names: Iterable[str]) -> dict[str, int]:
        """Return the sum of the counters of the named sites."""
        return dict(sum((Counter(self.sites.get(name, {})) for name in names), Counter()))

    @property
    def failed(self) -> int:
        """Return the number of operations that failed, with any error."""
        return sum(count for name, count in self.errors.items() if name != SHORT and not name.startswith("first "))

    @property
    def divisor(self) -> int:
        """Return the divisor of figures per call or touch: the number of calls, or of touches if there are more touches."""
        return max(self.calls, self.touches)

    @property
    def unit(self) -> str:
        """Return the unit of `divisor`: "call" or "touch"."""
        return "touch" if self.touches > self.calls else "call"

    @property
    def is_charged(self) -> bool:
        """Return whether more instructions were charged than loads and stores; false for a model without costs."""
        counted = [self.counters.get(name) for name in ("instructions", *TRAFFIC)]
        return None in counted or not self.divisor or counted[0] > counted[1] + counted[2]  # type: ignore[operator]

    def names(self) -> dict[str, str | None]:
        """Return the combination: fs, machine, paging, medium."""
        return {"fs": self.fs, "machine": self.machine, "paging": self.paging, "medium": self.medium}
