"""Run one replay: one file system on one machine over a whole trace."""

import logging
import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from scmsim import cache, footprint
from scmsim import system as systems
from scmsim.core.counters import SCHEMA, rounded
from scmsim.core.errors import expect
from scmsim.core.records import BULK, CONTINUES, FSYNC, KINDS, OP, OPS, SYNC, Source
from scmsim.fs.engine.model import Model
from scmsim.medium import read as read_medium
from scmsim.mmu import host
from scmsim.mmu.presets import timing
from scmsim.paging import _choice as choice
from scmsim.pipeline.arguments import Params, Progress, machine_table, model_params, tables_in
from scmsim.pipeline.at_once import SecondCpu
from scmsim.pipeline.caches import CacheStage
from scmsim.pipeline.failing_calls import MOST_AT_ONCE
from scmsim.pipeline.footprints import FootprintStage
from scmsim.pipeline.load import check_sites
from scmsim.pipeline.periods import PeriodDetector, parts
from scmsim.pipeline.stages import (
    EVENTS_PER_OPERATION,
    BackgroundStage,
    CounterIndex,
    Faults,
    Loop,
    Medium,
    Mmu,
    Placement,
    RepStrings,
    Stage,
)
from scmsim.pipeline.trailing import trailing
from scmsim.result import FOOTPRINTS, SHORT, SYNC_AT_END, SYSTEM, Run, intervals
from scmsim.result.run import CACHES
from scmsim.trace.reading.report import missed, rough

_LOG = logging.getLogger("scmsim")
_FILE_TIMES = "timestamp_tick"  # parameter of the models whose files' times follow the trace's clock
_FASTEST = 20  # minimum plausible mean time per call, ns; a faster trace has no real timestamps
_LEFT = {  # fields of a space report: data that was not written back
    "dirty_bytes": "the page cache are dirty",
    "uncommitted_bytes": "metadata are in no journal or table yet",
    "staged_bytes": "staged data are in no file yet",
}


class Paging:
    """The mapping policy of a file system on a machine: the requested policy, or the one that replaces it."""

    def __init__(self, fs: str, machine: dict[str, Any], asked: str | None, params: Params) -> None:
        self.fs, self.asked, self.largest = fs, asked, machine["walk"]["largest_page"]
        given, self.policy = choice.choose(fs, asked, self.largest)
        both = {**params.get(given, {}), **params.get(self.policy, {})}
        self.params = model_params("paging", self.policy, both)
        self.stage = Placement(self.policy, self.params)

    def remarks(self, machine: str, in_dram: bool) -> list[str]:
        """Return remarks on how the policy differs from the requested policy."""
        return choice.remarks(self.fs, self.asked, self.policy, (machine, self.largest), self.stage.pages, in_dram)


class Replay:
    """All stages of one run."""

    def __init__(
        self, source: Source, fs: str, machine: str | dict[str, Any], paging: str | None, medium: str | dict[str, Any],
        params: Params, by: str, footprints: str | None, chunk: int, system: str = systems.ALONE,
        caches: str = cache.OFF,
    ) -> None:  # fmt: skip
        expect("medium", medium, (str, dict), "the name of a medium, or its table")
        self.source, self.chunk, self.by = source, chunk, by
        self.system, self.medium_table = systems.read(system), read_medium(medium)
        self.machine = systems.on_machine(self.system, tables_in(self.medium_table, machine_table(machine)))
        self.params = model_params("fs", fs, params.get(fs, {}))
        self.paging = Paging(fs, self.machine, paging, params)
        self.model = Model(fs, self.params, source.files, EVENTS_PER_OPERATION * chunk)
        check_sites(fs, self.model.sites)
        kinds = list(self.model.kinds.values())
        self.counting = CounterIndex(source.files, self.model.sites, by)
        self.medium, self.skips_passes = Medium(self.medium_table, kinds, self.counting), True
        self.footprints = footprint.load(footprints, fs, self.model.sites) if footprints else None
        mmu = self.mmu(self.counting)
        self.caches = self.data_caches(caches)
        if systems.surrounds(self.system):
            mmu = BackgroundStage(mmu, self.system, self.machine)
        mmu_stage: Stage = mmu
        if self.footprints:
            objects = getattr(self.model.module, "KERNEL_OBJECTS", ())
            mmu_stage = FootprintStage(
                mmu,
                self.footprints,
                self.paging.stage,
                source.files,
                objects,
                self.caches,
                "journal" in self.model.kinds,
            )
        stages = [self.counting, self.paging.stage, mmu_stage, self.medium]
        if self.caches:
            stages.insert(3, self.caches)
            if not systems.surrounds(self.system):
                mmu.log_walks()
            if not self.footprints:
                self.caches.mmu = mmu
        if self.model.mapped or self.model.status[0]["maps"]:
            stages.append(Faults(self.model.status, self.counting))
        if systems.counts_rep_strings(self.system):
            own = {name: kind if name in self.model.module.SITES else "none" for name, kind in self.model.kinds.items()}
            stages.append(RepStrings(self.system, own, mmu))  # without the program's sites: its copies are unknown
        self.loop = Loop(self.model, stages, source.files)
        told = self.machine.get("summary", "table")
        name = told if isinstance(machine, dict) or machine == host.NAME else os.fspath(machine)
        stored = medium if isinstance(medium, str) else str(self.medium_table.get("summary", "table"))
        self.result = Run(fs, str(name), self.paging.policy, stored)
        self.result.params |= {} if system == systems.ALONE else {SYSTEM: system}
        self.result.params |= {CACHES: caches} if self.caches else {}
        if self.caches and self.footprints and not len(self.footprints.book.blocks):
            self.result.warnings.append(
                f"the footprints of {self.footprints.measured_on} have no lines, so most loads and stores of the kernel's code "
                "pass no data cache (cache_unchecked); --footprints 6.1-lines has them"
            )
        self.result.warnings += self.paging.remarks(str(name), set(self.model.module.SITES.values()) == {"none"})

    def mmu(self, counting: CounterIndex) -> Mmu:
        """Return the stage that counts look-ups, misses and walks."""
        return Mmu(self.machine, counting)

    def data_caches(self, setting: str) -> CacheStage | None:
        """Return the stage that simulates the data caches, or None if they are off."""
        return CacheStage(self.machine, self.counting, setting) if setting != cache.OFF else None

    def take_medium(self, medium: Medium) -> None:
        """Replace the medium's stage by `medium`; it needs the events of every pass, so no pass is skipped from now on."""
        self.loop.stages = [medium if stage is self.medium else stage for stage in self.loop.stages]
        self.medium, self.skips_passes = medium, False

    def run(self, sync_at_end: bool, progress: Progress | None, second_cpu: SecondCpu = lambda: False) -> Run:
        """Replay the whole trace and collect the counts; use a second thread once `second_cpu()` returns True."""
        run = self.result
        run.params |= {**self.params, **self.paging.params}
        if self.footprints:
            run.params[FOOTPRINTS] = self.footprints.measured_on
        if lost := missed(self.source.header):
            run.warnings.append(f"the trace is incomplete: {lost}")
        if reason := rough(self.source.header):
            run.warnings.append(f"the trace is rough: {reason}")
        cell = self.source.header.get("cell")
        run.cell = cell if isinstance(cell, dict) else {}
        with trailing(self.loop, second_cpu) as take:
            for batches, times in parts(self.source, self.chunk):
                run.repeated += self._part(batches, times, take, progress)
            if sync_at_end:
                take(self._syncs())
                run.params[SYNC_AT_END] = 1
        self.counting.check()
        self._sums(run)
        self._counts(run)
        run.space = self.model.space()
        self._failures(run)
        if unknown := int(self.counting.sums[0]["unknown_offsets"]):
            run.warnings.append(f"{unknown} operations have an offset that the trace could not tell")
        if (
            run.params.get(_FILE_TIMES)
            and run.operations >= 1000
            and self.counting.ended[0] < _FASTEST * run.operations
        ):
            run.warnings.append(
                f"the trace has no clock ({run.operations:,} operations in {self.counting.ended[0]:,} ns), so a file's times "
                f"change once; to change them once per transaction: --set {run.fs}.{_FILE_TIMES}=0ns"
            )
        left = [f"{run.space[key]:,} bytes of {what}" for key, what in _LEFT.items() if run.space.get(key)]
        if left:
            run.warnings.append(
                f"at the end {' and '.join(left)}: not counted; write them back with sync_at_end (--sync-at-end)"
            )
        bulk = [site for site, kind in self.model.kinds.items() if kind in BULK]
        run.derive(timing(self.machine), self.medium_table, bulk)
        intervals.fill(run)
        return run

    def _part(
        self,
        batches: Callable[[int], Iterable[np.recarray]],
        times: int,
        take: Callable[[np.recarray], None],
        progress: Progress | None,
    ) -> int:
        """Replay `times` passes over a part of the trace; return the number of operations that needed no replay."""
        sums, repeated = self.counting.sums[0], 0
        periodic = times > 2 and self.skips_passes and hasattr(self.model.module, "STATISTICS")
        detector = PeriodDetector(self.model, self.loop.stages, self.counting.ended) if periodic else None
        while times:
            for batch in batches(int(sums["rows"])):
                take(batch)
                if progress:
                    progress(self.model.fs, int(sums["rows"]), self.source.rows)
            times -= 1
            self.loop.settle()
            failing = self.loop.failing  # PeriodDetector does not multiply counts of failing calls
            if detector and times and not (failing.counts or failing.long):
                before = int(sums["operations"])
                times -= detector.skip(times)
                repeated += int(sums["operations"]) - before
                _LOG.debug("%s: %d operations repeat earlier passes", self.model.fs, repeated)
        return repeated

    def _syncs(self) -> np.recarray:
        """Return a batch that runs sync(2) at the end of the trace.

        It does not count as a call, so that figures per call stay the program's.
        """
        module = self.model.module
        unsynced = module.unsynced(self.model.state) if hasattr(module, "unsynced") else []
        batch = np.zeros(len(unsynced) + 1, OP).view(np.recarray)
        batch.time_ns, batch.offset, batch.file2, batch.flag = self.counting.ended[0], -1, -1, CONTINUES
        batch.op, batch.file = [FSYNC] * len(unsynced) + [SYNC], [*unsynced, -1]
        return batch

    def _sums(self, run: Run) -> None:
        """Set the numbers of operations, calls and requested bytes, without failed calls and their bytes."""
        sums, status = self.counting.sums[0], self.model.status[0]
        run.operations, run.calls = int(sums["operations"]), int(sums["calls"] - status["failed_calls"])
        run.payload = {"written": int(sums["written"] - status["failed_bytes"]), "read": int(sums["read"])}
        self._mappings(run)
        if sums["objects"] and not getattr(self.model.module, "MEMORY_OBJECTS", False):
            run.warnings.append(
                f"{sums['objects']} operations on memory objects mean nothing to {run.fs}; scm-manager has them"
            )

    def _mappings(self, run: Run) -> None:
        """Add the touches of mapped files and their bytes; warn if the model does not replay touches."""
        sums, model = self.counting.sums[0], self.model
        if model.mapped and model.mapped.active:
            run.touches = int(sums["touches"])
            run.calls -= run.touches
            run.payload["written"] += int(sums["stored"])
            run.payload["read"] += int(sums["loaded"])
            run.warnings += model.mapped.remarks()
        elif sums["touches"] and not getattr(model.module, "MEMORY_OBJECTS", False):
            why = getattr(model.module, "MAPPINGS", "the model has no mapped files")
            run.warnings.append(f"{sums['touches']:,} touches of mapped files were not replayed: {why}")

    def _counts(self, run: Run) -> None:
        """Set a run's total counters and the breakdowns by site and group."""
        sites, counting = self.model.sites, self.counting
        cells = counting.counters[:-1].view(np.int64).reshape(counting.groups, len(sites), len(SCHEMA))
        run.counters = _summed(cells)
        run.sites = {site: _summed(cells[:, s]) for s, site in enumerate(sites)}
        run.sites = {site: counts for site, counts in run.sites.items() if any(counts.values())}
        if self.caches:
            run.counters |= self.caches.counts()
            for s, site in enumerate(sites):
                if site in run.sites:
                    run.sites[site] |= self.caches.counts(site=s)
        if self.by != "site":
            labels = OPS if self.by == "op" else [*self.source.files.path, "(no file)"]
            for g, label in enumerate(labels):
                counts = _summed(cells[g])
                if any(counts.values()):
                    counts |= self.caches.counts(group=g) if self.caches else {}
                    name = label if label not in run.groups else f"{label} ({len(run.groups)})"
                    run.groups[name], run.group_operations[name] = counts, int(counting.operations[g])
                    if self.by == "op":
                        parts = {site: _summed(cells[g, s]) for s, site in enumerate(sites)}
                        run.group_sites[name] = {site: part for site, part in parts.items() if any(part.values())}
        stored = self.medium.state[0]["stored"]
        run.stored_bytes = {kind: int(stored[k]) for k, kind in enumerate(KINDS) if kind != "none"}

    def _failures(self, run: Run) -> None:
        """Set the numbers of failed operations, by error name, and of short writes; add warnings about these."""
        status, told = self.model.status[0], []
        if short := int(status["short"]):
            run.errors[SHORT] = short
            told.append(f"{short} write{'s were' if short > 1 else ' was'} done in part")
        if failed := int(status["failed"]):
            run.errors |= {"ENOSPC": failed, "first ENOSPC": int(status["first_failed"])}
            told.append(f"{failed} operations failed with ENOSPC, the first is operation {run.errors['first ENOSPC']}")
        if told:
            run.warnings.append(f"the device is full: {', '.join(told)}; a larger one: --set {run.fs}.capacity=...")
        run.errors |= self.loop.failing.counts
        if (beyond := run.errors.get("EFBIG", 0)) and not hasattr(self.model.module, "LARGEST_FILE"):
            run.warnings.append(f"{beyond:,} calls reach beyond 16 TiB, where the model's files end: replayed as EFBIG")
        if long := self.loop.failing.long:
            run.warnings.append(
                f"{long:,} reads or writes are longer than Linux moves in one call: replayed with {MOST_AT_ONCE:,} bytes"
            )
        if self.model.mapped:
            run.errors |= self.model.mapped.errors()
        self._remarks(run)

    def _remarks(self, run: Run) -> None:
        """Add warnings: the model's remarks on the calls, and the parts of the model that were never validated."""
        module = self.model.module
        if hasattr(module, "remarks"):
            run.warnings += module.remarks(self.model.state)
        if unchecked := getattr(module, "UNCHECKED", ""):
            run.warnings.append(f"not checked: {unchecked}")


def _summed(cells: np.ndarray) -> dict[str, int]:
    """Return the counters summed over all cells, with thousandths rounded."""
    total = cells.reshape(-1, len(SCHEMA)).sum(axis=0)
    return rounded(dict(zip(SCHEMA, total.tolist(), strict=True)))
