"""Convert a guest's counts to the runs of a result, and to tables by function, task and CPU."""

import collections
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from scmsim.core.records import MMAP
from scmsim.lab import counts, faults
from scmsim.lab.calls import DEFERRED, KINDS, OTHER, OWN, SENT, Calls
from scmsim.lab.measured import Measured
from scmsim.lab.plan import UNKNOWN, Plan, Region
from scmsim.perf.profile import Rules, map_for, maps, rules
from scmsim.perf.to_result import finish
from scmsim.result import SHORT, Run

_TOP = 60  # number of functions that are kept for each region
_UNTOLD = {
    "nothing": "/proc/kallsyms (CONFIG_KALLSYMS): totals are complete, but there are no functions and mechanisms, and other "
    "tasks are not told apart",
    "functions": "symbols of data (CONFIG_KALLSYMS_ALL): counts are complete, but a --stream takes the kernel's pages as 4 KiB",
}
_NO_SIZES = (
    "the kernel does not let its page table be read (CONFIG_PROC_KCORE, CONFIG_KALLSYMS_ALL): page faults are counted, but not by "
    "the size of their entries"
)
_EVENT = "counted by the emulator"
# Counter of a guest with several CPUs -> functions that run in interrupts from other CPUs, whose calls it counts
# (arch/x86/kernel/smp.c, arch/x86/mm/tlb.c).
_INTERRUPTED = {
    "interprocessor_interrupts": re.compile(r"sysvec_(call_function(_single)?|reschedule_ipi)$"),
    "tlb_shootdowns": re.compile(r"flush_tlb_func"),
}


class Outcome:
    """A guest's counts by region, function, mechanism, and the task for which the kernel ran (see `calls`)."""

    def __init__(self, fs: str, plan: Plan, measured: Measured, cpus: int = 1) -> None:
        self.fs, self.plan, self.about, self.cpus = fs, plan, measured.about, cpus
        self.told = counts.told(measured.symbols)
        self._faults, self._sizes_told = measured.faults, measured.sizes_told
        self.maps = bool((plan.operations["op"] == MMAP).any())
        self.calls = Calls(measured.rows, measured.nodes, counts.symbols(measured.symbols), fs)
        self.site = self.calls.sites(_map_of(fs))
        self.region = self.calls.rows["region"].tolist()
        self._sent = np.array([name == SENT for _, name in self.calls.task], bool)
        self._for_calls = np.array([kind != OTHER for kind, _ in self.calls.task], bool)

    def runs(self, repeat: int, repeats: int) -> list[Run]:
        """Return one Run for each region that is a cell; for a trace, one Run whose groups are the kinds of operation.

        Their counters include the calls and the work that the file system deferred.
        """
        plan, by_region = self.plan, self._by_region()
        numbered = {"repeat": repeat} if repeats > 1 else {}
        if plan.regions and plan.regions[0].cell:
            runs = [
                _run(self.fs, [region], by_region[k], self._sites({k}), {**region.cell, **numbered})
                for k, region in enumerate(plan.regions, 1)
            ]
        else:
            used = [(k, region) for k, region in enumerate(plan.regions, 1) if region.operations]
            parts = [by_region[k] for k, _ in used]
            cell = plan.header.get("cell")
            by_site = self._sites({k for k, _ in used})
            run = _run(self.fs, [region for _, region in used], counts.total(parts), by_site, {})
            run.cell = {**(cell if isinstance(cell, dict) else {}), **numbered}
            run.groups = {region.label: part for (_, region), part in zip(used, parts, strict=True)}
            run.params = {f"calls_{region.label}": region.calls for _, region in used}
            run.payload["written"] -= self.about["unwritten"]
            runs = [run]
        for run in runs:
            run.warnings += _warnings(self.about, self.told)
            run.errors = _errors(self.about) | self._signals()
            if self.maps and not self._sizes_told:
                run.warnings.append(_NO_SIZES)
        return runs

    def functions(self) -> list[dict[str, Any]]:
        """Return rows for functions.csv: counts of each function per call of a region, the largest first."""
        found = self._sums(self._for_calls, self.calls.function)
        return [row for region in sorted(found) for row in self._shown(region, "func", found[region], _TOP)]

    def tasks(self) -> list[dict[str, Any]]:
        """Return rows for tasks.csv: counts of tasks other than the calls, per call of a region, with their kinds."""
        other = np.array([kind != OWN for kind, _ in self.calls.task], bool)
        found = self._sums(other, [f"{KINDS[kind]} {name}" for kind, name in self.calls.task])
        return [row for region in sorted(found) for row in self._shown(region, "task", found[region], _TOP)]

    def other_cpus(self) -> list[dict[str, Any]]:
        """Return rows for cpus.csv: the functions that run in interrupts between CPUs, with entries and counts per call."""
        found = self._sums(self._sent, self.calls.function)
        for region, by in found.items():
            entered = self._entered(region)
            for function in by:
                by[function] = {"entered": entered.get(function, 0), **by[function]}
        return [row for region in sorted(found) for row in self._shown(region, "func", found[region], _TOP)]

    def _by_region(self) -> dict[int, dict[str, int]]:
        """Return the counters of every region.

        The instructions of deferred work (included in the counters) and of other tasks (not included) are also fields of their own.
        """
        every = range(1, len(self.plan.regions) + 1)
        kinds = [kind for kind, _ in self.calls.task]
        by = counts.sums(self.calls.rows, zip(self.region, kinds, strict=True))
        nothing = dict.fromkeys(counts.COUNTERS, 0)
        found = {k: counts.total([nothing, by.get((k, OWN), {}), by.get((k, DEFERRED), {})]) for k in every}
        for k in every:
            found[k]["deferred_instructions"] = by.get((k, DEFERRED), nothing)["instructions"]
            found[k]["other_instructions"] = by.get((k, OTHER), nothing)["instructions"]
            if self.maps:
                of = self._faults[k : k + 1] if k < len(self._faults) else np.zeros(1, faults.FAULTS)
                found[k] |= faults.counters(of, self._sizes_told)
            if self.cpus > 1:
                found[k] |= self._interrupted(k)
        return found

    def _interrupted(self, region: int) -> dict[str, int]:
        """Return how often CPUs interrupted each other in a region, and how often for a TLB shootdown."""
        entered = self._entered(region)
        return {
            name: sum(times for function, times in entered.items() if wanted.match(function))
            for name, wanted in _INTERRUPTED.items()
        }

    def _entered(self, region: int) -> dict[str, int]:
        """Return how often each function was entered in interrupts that other CPUs sent during a region."""
        here = self._sent & self.calls.entered & (self.calls.rows["region"] == region)
        by = collections.Counter[str]()
        for k in np.flatnonzero(here).tolist():
            by[self.calls.function[k]] += int(self.calls.rows["executed"][k])
        return by

    def _signals(self) -> dict[str, int]:
        """Return the number of touches of mapped files that ended with a signal."""
        found = {"SIGBUS": int(self._faults["bus"].sum()), "SIGSEGV": int(self._faults["segv"].sum())}
        return {name: count for name, count in found.items() if count}

    def _sites(self, regions: set[int]) -> dict[str, dict[str, int]]:
        """Return counters by mechanism, by the file system's map of functions; without a map, by user and kernel."""
        here = self._for_calls & np.isin(self.calls.rows["region"], list(regions))
        return counts.sums(self.calls.rows[here], _those(self.site, here))

    def _sums(self, here: np.ndarray, labels: list[str]) -> dict[int, dict[str, dict[str, int]]]:
        """Return the counters of the rows `here`, summed by region and label."""
        found: dict[int, dict[str, dict[str, int]]] = {}
        pairs = zip(_those(self.region, here), _those(labels, here), strict=True)
        for (region, label), counters in counts.sums(self.calls.rows[here], pairs).items():
            found.setdefault(region, {})[label] = counters
        return found

    def _shown(self, number: int, column: str, by: dict[str, dict[str, int]], top: int) -> list[dict[str, Any]]:
        """Return table rows of a region's `top` labels with the most instructions; counts are per call."""
        region = self.plan.regions[number - 1]
        about = {"fs": self.fs, "op": region.label, "unit": region.cell.get("unit_bytes", "")}
        most = sorted(by.items(), key=lambda item: -item[1]["instructions"])[:top]
        return [
            {
                **about,
                column: name,
                **{key: round(n / (region.calls or region.operations or 1), 4) for key, n in counters.items()},
            }
            for name, counters in most
        ]


def _those(values: list[Any], here: np.ndarray) -> list[Any]:
    return [values[k] for k in np.flatnonzero(here).tolist()]


def _map_of(fs: str) -> Rules:
    mapped = maps()
    family = next((name for name in (fs, *_nearest(fs)) if name in mapped), None)
    return rules(map_for(family)) if family else {}


def _nearest(fs: str) -> list[str]:
    """Return the names of a variant's bases, nearest first: ext4-dax-nojournal -> ext4-dax, ext4."""
    words = fs.split("-")
    return ["-".join(words[:n]) for n in range(len(words) - 1, 0, -1)]


def _run(fs: str, regions: list[Region], counters: dict[str, int], by_site: dict, cell: dict[str, Any]) -> Run:
    run = Run(
        fs,
        calls=sum(region.calls for region in regions),
        operations=sum(region.operations for region in regions),
        counters=counters,
        sites=by_site,
        payload={"written": sum(r.written for r in regions), "read": sum(r.read for r in regions)},
        cell=cell,
        events=dict.fromkeys(counters, _EVENT),
    )
    return finish(run, {})


def _errors(about: Mapping[str, int]) -> dict[str, int]:
    short = {SHORT: about["short_writes"]} if about["short_writes"] else {}
    if not about["failed"]:
        return short
    found = {"failed": about["failed"], "first failed": about["first_failed"], "first errno": about["first_errno"]}
    return {**short, **found, **({"ENOSPC": about["no_space"]} if about["no_space"] else {})}


def _warnings(about: Mapping[str, int], told: str) -> list[str]:
    found = [f"the kernel has no {_UNTOLD[told]}"] if told in _UNTOLD else []
    if about["failed"]:
        found.append(
            f"{about['failed']} of {about['done']} operations failed in the guest, the first is operation "
            f"{about['first_failed']} with errno {about['first_errno']}"
        )
    if about["busy"]:
        found.append("the kernel was still busy after 30 s of guest time; its other work is counted apart (tasks.csv)")
    if about["huge_bytes"] == UNKNOWN:
        found.append(
            "the kernel has no /proc/self/smaps (CONFIG_PROC_PAGE_MONITOR), so the page size of the program's buffer is not known: "
            "counts are complete, but a --stream takes its pages as 4 KiB"
        )
    return found
