"""One run: a trace through one combination of models, or one cell of a measurement."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

FOOTPRINTS = "footprints"  # among a run's params: the kernel and file system whose touches of its own memory it has
SYSTEM = "system"  # among a run's params: what else ran, and how rep-strings count
# Arguments of a replay that say which kernel it is and what else runs.
SURROUNDINGS = ("kernel", FOOTPRINTS, "meminfo", SYSTEM)
TRAFFIC = ("mem_inst_retired_all_loads", "mem_inst_retired_all_stores")
SHORT = "short writes"  # among a run's errors: writes that did less than they were asked, as the device was full behind them
SYNC_AT_END = "sync_at_end"  # among a run's params: what was left dirty was written back, and counts


@dataclass
class Run:
    """One trace through one combination of models.

    Attributes
    ----------
    calls, operations : int
        Calls that did something (a write and the fsync that continues it are one) and trace operations, setup left out.  A call
        that failed for want of space moves nothing and costs nothing in the models; it is one of the operations only.
    touches : int
        Loads, stores, write-backs and fences of the program through its mappings, which are operations and not calls.
    repeated : int
        Operations that were not replayed one by one, because they belong to passes that repeat (see `scmsim.pipeline.periods`).
    counters : dict
        Fields of `counters.SCHEMA` that the producer can supply, whole run.
    sites, groups : dict
        The same counters by mechanism inside the file system, and by operation or file (`by` of the experiment).
    group_operations : dict
        Operations of each group; empty where the producer does not tell.
    payload : dict
        Bytes that the program asked to write and to read: `written`, `read`.
    stored_bytes : dict
        Bytes stored to persistent memory by kind (`records.KINDS`).
    space : dict
        The model's space report at the end, in bytes.
    errors : dict
        Operations that failed by error name, e.g. {"ENOSPC": 3, "first ENOSPC": 17}, and "short writes", which did not fail.
    time_ns : dict
        Terms of the time estimate in ns (see `scmsim.result.time`); estimates, not predictions.
    cell : dict
        What was measured, where it is one cell of a matrix: `operation`, `file_bytes`, `unit_bytes`, and `repeat` from 1
        where it was measured several times.  Runs with the same fs and cell are compared (`scmsim.compare`).
    events : dict
        Of a measurement: the event that supplied each counter, as it was given to perf.
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
    payload: dict[str, int] = field(default_factory=dict)
    stored_bytes: dict[str, int] = field(default_factory=dict)
    space: dict[str, int] = field(default_factory=dict)
    time_ns: dict[str, float] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    params: dict[str, Any] = field(default_factory=dict)
    cell: dict[str, Any] = field(default_factory=dict)
    events: dict[str, str] = field(default_factory=dict)

    def derive(
        self,
        time: Mapping[str, Any] | None = None,
        medium: Mapping[str, Any] | None = None,
        bulk: Iterable[str] = (),
    ) -> "Run":
        """Fill `metrics`, `why_absent`, `estimated` and `time_ns` from the counts; returns self.

        `time` is the machine's [time] table and `medium` the medium's table (see `time.estimate`); without `time`
        nothing is estimated.  `bulk` are the sites that move data in bulk.
        """
        from scmsim.result import metrics as formulas  # here, because reading a result needs neither
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
        """Counters of these sites together."""
        return dict(sum((Counter(self.sites.get(name, {})) for name in names), Counter()))

    @property
    def failed(self) -> int:
        """Operations that failed, by whatever error."""
        return sum(count for name, count in self.errors.items() if name != SHORT and not name.startswith("first "))

    @property
    def divisor(self) -> int:
        """What figures of the table are divided by: calls, or touches where these are more."""
        return max(self.calls, self.touches)

    @property
    def unit(self) -> str:
        """What `divisor` counts: "call" or "touch"."""
        return "touch" if self.touches > self.calls else "call"

    @property
    def is_charged(self) -> bool:
        """Whether instructions were charged beyond the loads and stores themselves; not of a model without costs."""
        counted = [self.counters.get(name) for name in ("instructions", *TRAFFIC)]
        return None in counted or not self.divisor or counted[0] > counted[1] + counted[2]  # type: ignore[operator]

    def names(self) -> dict[str, str | None]:
        """The combination: fs, machine, paging, medium."""
        return {"fs": self.fs, "machine": self.machine, "paging": self.paging, "medium": self.medium}
