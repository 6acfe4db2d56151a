"""Search for the access pattern that stresses a file system most, for each operation (future work in the thesis).

A pattern is a set of genes: the parameters of `workload/pattern.py`.  The search draws patterns, then changes one or two genes
of the best ones.  The worst pattern is simplified gene by gene as long as it keeps most of the score.  It is reported only if
it scores `MARGIN` times the median of the drawn patterns.  The mechanism to blame is the site whose loads and stores (or walks,
or bytes) per byte of payload rose most against that median.  The same seed yields the same findings.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from statistics import median
from typing import Any, cast

from scmsim.core.errors import unknown
from scmsim.core.records import Source
from scmsim.core.units import format_bytes
from scmsim.pipeline import DEFAULTS, Params, replay
from scmsim.result import Run
from scmsim.workload import pattern as workload

KI, MI = 1 << 10, 1 << 20
GENES: dict[str, tuple] = {
    "unit": (512, KI, 1000, 2 * KI, 4 * KI, 5000, 16 * KI, 64 * KI, 256 * KI),
    "stride": (0, 4 * KI, 64 * KI, 2 * MI, 2 * MI + 4 * KI),
    "order": ("sequential", "random"),
    "shift": (0, 100, 2 * KI),
    "sync": (0, 1, 16),
    "files": (1, 8, 64),
    "file_size": (16 * MI, 256 * MI),
    "calls": (256, KI, 4 * KI, 16 * KI, 64 * KI, 256 * KI),
}
OPERATIONS = ("append", "overwrite", "read")
METRICS = {
    "traffic": ("mem_inst_retired_all_loads", "mem_inst_retired_all_stores"),
    "lookups": ("dtlb_load_lookups", "dtlb_store_lookups"),
    "walks": ("dtlb_load_misses_walk_completed", "dtlb_store_misses_walk_completed"),
    "stored": ("pm_stored_bytes",),
}
GROWTH = "growth"  # metric: traffic per call late in the run / traffic per call early in the run
MOST_BYTES = 512 * MI  # maximum bytes that one pattern may read or write, or span if it is sparse
# bytes of persistent memory, loaded and stored, beyond which a pattern is scored by its first calls
MOST_MOVED = 16 << 30
PROBE = 256  # calls of the first run, from which the bytes of the whole pattern are estimated
EARLY = 4  # growth compares the calls after the first 1 / EARLY of a run with those before
MARGIN = 1.1  # a finding scores this many times the median of the drawn patterns (growth: times an early call)
KEPT = 0.8  # share of the score that a simpler pattern must keep
PARENTS = 4
LONG = {"calls": (16 * KI, 128 * KI, MI), "unit": (512, KI, 4 * KI, 16 * KI)}  # growth shows only in long runs
LONG_BYTES = 16 << 30


@dataclass(frozen=True)
class Pattern:
    """Genes of one pattern; fields are the parameters of the workload `pattern`."""

    op: str
    unit: int = 4 * KI
    stride: int = 0
    order: str = "sequential"
    shift: int = 0
    sync: int = 0
    files: int = 1
    file_size: int = 16 * MI
    calls: int = 4 * KI

    def source(self) -> Source:
        """Return the pattern's workload as a trace source."""
        return cast(Source, workload.Workload(**vars(self)))

    def in_words(self) -> str:
        """Return a line of text that describes the pattern."""
        words = [f"{self.op} {format_bytes(self.unit)}"]
        if self.stride > self.unit:
            words.append(f"every {format_bytes(self.stride)}")
        if self.op != "append":
            words.append(f"{self.order} over {format_bytes(self.file_size)}")
        words += [f"from byte {self.shift}"] if self.shift else []
        words += ["fsync after each" if self.sync == 1 else f"fsync every {self.sync}"] if self.sync else []
        words += [f"{self.files} files in turn"] if self.files > 1 else []
        return ", ".join([*words, f"{self.calls:,} calls"])

    def fio(self) -> str:
        """Return the pattern as a fio job file for real hardware; fio draws its own random offsets."""
        kind = "read" if self.op == "read" else "write"
        rw = f"rand{kind}" if self.order == "random" and self.op != "append" else kind
        gap = self.stride - self.unit
        size = (
            self.file_size
            if self.op != "append"
            else self.shift + self.calls // self.files * max(self.stride, self.unit)
        )
        lines = [
            "; run with: fio --directory=MOUNT pattern.fio", "[pattern]", "ioengine=psync",
            f"rw={rw}:{gap}" if gap > 0 and rw == kind else f"rw={rw}", f"bs={self.unit}", f"offset={self.shift}",
            f"nrfiles={self.files}", "file_service_type=roundrobin", f"filesize={size}", f"io_size={self.calls * self.unit}",
            f"fsync={self.sync}", f"overwrite={int(self.op == 'overwrite')}", "norandommap=1",
        ]  # fmt: skip
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Finding:
    """The worst pattern of one operation; `stands_out` states whether it is worth reporting."""

    pattern: Pattern
    # metric per byte of payload, of the finding and of the median drawn pattern (which for growth is 1, no growth)
    score: float
    typical: float
    # the mechanism to blame, None if the pattern does not stand out or no mechanism rose; `site_share` is its percentage of
    # the finding's metric, `site_growth` its metric per byte divided by the median pattern's (inf if the latter is 0)
    site: str | None
    site_share: float
    site_growth: float
    tried: int

    @property
    def stands_out(self) -> bool:
        """Return whether the score is at least `MARGIN` times the typical score; a score of 0 does not stand out."""
        return self.score > 0 and self.score >= MARGIN * self.typical


class Hunt:
    """A search on one combination of models, given as for `pipeline.replay`.

    `metric` is "traffic", "lookups", "walks", "stored" or "growth".  `tries` is the number of patterns to replay for each
    operation, not counting those of the simplification.
    """

    def __init__(
        self,
        fs: str,
        metric: str = "traffic",
        *,
        machine: str = DEFAULTS["machine"],
        paging: str | None = None,
        medium: str = DEFAULTS["medium"],
        params: Params | None = None,
        tries: int = 60,
        seed: int = 1,
    ) -> None:
        if metric not in (*METRICS, GROWTH):
            raise unknown("metric", metric, [*METRICS, GROWTH])
        self.fs, self.metric, self.tries, self.seed = fs, metric, tries, seed
        self.even = 1.0 if metric == GROWTH else 0.0  # score of no cost or, for growth, of a constant cost
        self.genes = {**GENES, **LONG} if metric == GROWTH else GENES
        self.most = LONG_BYTES if metric == GROWTH else MOST_BYTES
        self._models = {"machine": machine, "paging": paging, "medium": medium, "params": params}
        self.run = cache(self._run)

    def _run(self, pattern: Pattern) -> Run:
        """Replay a pattern and return the run; a pattern that moves too many bytes is represented by its first calls."""
        if pattern.calls > PROBE:
            probe = self.run(replace(pattern, calls=PROBE))
            moved = probe.counters["pm_loaded_bytes"] + probe.counters["pm_stored_bytes"]
            if moved * pattern.calls > MOST_MOVED * PROBE:
                return probe
        return replay(pattern.source(), self.fs, **self._models).runs[0]  # type: ignore[arg-type]

    def find(self, op: str, progress: Callable[[str, int, int], None] | None = None) -> Finding:
        """Return the worst pattern of one operation."""
        draw = random.Random(f"{self.seed} {op}")
        tried: dict[Pattern, float] = {}
        drawn: list[Pattern] = []
        if progress:
            progress(f"{self.fs} {op}", 0, self.tries)
        while len(tried) < self.tries:
            first = len(tried) < self.tries // 2
            parent = self._random(op, draw) if first else self._mutated(draw.choice(_best(tried, PARENTS)), draw)
            if parent not in tried:
                tried[parent] = self.score(parent)
                drawn += [parent] if first else []
            if progress:
                progress(f"{self.fs} {op}", len(tried), self.tries)
        worst = _best(tried, 1)[0]
        pattern = self._shrunk(worst, tried[worst])
        typical = self.even or median(tried[each] for each in drawn)
        found = Finding(pattern, self.score(pattern), typical, None, 0.0, 0.0, len(tried))
        if not found.stands_out:
            return found
        site, share, growth = self._blame(pattern, drawn)
        return replace(found, site=site, site_share=share, site_growth=growth)

    def score(self, pattern: Pattern) -> float:
        """Return the metric per byte of payload; 0 if operations failed (a full device proves nothing)."""
        run = self.run(pattern)
        payload = run.payload["written"] + run.payload["read"]
        if run.errors or not payload:
            return 0.0
        if self.metric != GROWTH:
            return self._total(run.counters) / payload
        early = self.run(replace(pattern, calls=max(pattern.calls // EARLY, 1)))
        if early.calls >= run.calls:
            return 0.0
        before, whole = self._total(early.counters) / early.calls, self._total(run.counters)
        return (whole - before * early.calls) / (run.calls - early.calls) / before

    def _total(self, counters: dict[str, int]) -> int:
        return sum(counters.get(field, 0) for field in METRICS.get(self.metric, METRICS["traffic"]))

    def _random(self, op: str, draw: random.Random) -> Pattern:
        while True:
            pattern = _plain(Pattern(op, **{gene: draw.choice(values) for gene, values in self.genes.items()}))
            if self._fits(pattern):
                return pattern

    def _mutated(self, parent: Pattern, draw: random.Random) -> Pattern:
        while True:
            genes = draw.sample(sorted(self.genes), draw.choice((1, 1, 2)))
            child = _plain(replace(parent, **{gene: draw.choice(self.genes[gene]) for gene in genes}))
            if child != parent and self._fits(child):
                return child

    def _fits(self, pattern: Pattern) -> bool:
        moved, reach = pattern.calls * pattern.unit, pattern.files * pattern.file_size
        if pattern.op == "append":
            reach = pattern.calls * max(pattern.stride, pattern.unit)
        return max(moved, reach) <= self.most and pattern.shift + pattern.unit <= pattern.file_size

    def _shrunk(self, found: Pattern, score: float) -> Pattern:
        """Return the simplest pattern that keeps most of the score, found by simplifying one gene after another."""
        for gene, plain in _plainer(found, self.genes["calls"]):
            plainer = replace(found, **cast(dict[str, Any], {gene: plain}))
            if self.score(plainer) - self.even >= KEPT * (score - self.even):
                found = plainer
        return found

    def _blame(self, found: Pattern, drawn: list[Pattern]) -> tuple[str | None, float, float]:
        """Return (site, share in percent, growth) of the site with the greatest rise; (None, 0, 0) if no site rose.

        The rise is per byte of payload against the median drawn pattern; for growth, per call against the first quarter of
        the same run.
        """
        if self.metric == GROWTH:
            others = [self.run(replace(found, calls=max(found.calls // EARLY, 1)))]
        else:
            others = [self.run(each) for each in drawn]
        run = self.run(found)
        here = {site: self._each(run, site) for site in run.sites}
        usual = {site: median(self._each(other, site) for other in others) for site in here}
        site = max(here, key=lambda name: here[name] - usual[name])
        if here[site] <= usual[site]:
            return None, 0.0, 0.0
        share = 100 * here[site] / (sum(here.values()) or 1)
        return site, share, here[site] / usual[site] if usual[site] else float("inf")

    def _each(self, run: Run, site: str) -> float:
        """Return the metric of one site per call (growth) or per byte of payload."""
        by = run.calls if self.metric == GROWTH else run.payload["written"] + run.payload["read"]
        return self._total(run.sites.get(site, {})) / by if by else 0.0


def _plain(pattern: Pattern) -> Pattern:
    """Return the pattern with the genes that its operation ignores set to fixed values."""
    if pattern.op == "append":
        return replace(pattern, order="sequential", file_size=16 * MI)
    return replace(pattern, sync=0) if pattern.op == "read" else pattern


def _best(tried: dict[Pattern, float], count: int) -> list[Pattern]:
    return sorted(tried, key=lambda each: (-tried[each], repr(each)))[:count]


def _plainer(found: Pattern, calls: tuple) -> list[tuple[str, int | str]]:
    """Return (gene, simpler value) pairs to try in order; the number of calls comes last and is reduced step by step."""
    steps: list[tuple[str, int | str]] = [
        ("files", 1), ("shift", 0), ("sync", 0), ("order", "sequential"), ("stride", 0), ("file_size", 16 * MI),
    ]  # fmt: skip
    steps += [("unit", 4 * KI)] if found.unit % (4 * KI) else []
    fewer = [count for count in calls if count < found.calls]
    return steps + [("calls", count) for count in reversed(fewer)]
