"""What a guest counted -> Runs of a Result: by cell, by kind of operation, by mechanism."""

from collections.abc import Mapping
from typing import Any

from scmsim.lab import counts
from scmsim.lab.machine import Measured
from scmsim.lab.plan import UNKNOWN, Plan, Region
from scmsim.perf.profile import map_for, maps, plain, rules
from scmsim.perf.to_result import finish
from scmsim.result import Run

ELSEWHERE = "(kernel, elsewhere)"
_TOP = 60  # functions of a region that are kept
_EVENT = "counted by the emulator"

Functions = Mapping[str, Mapping[str, int]]


def runs_of(fs: str, plan: Plan, measured: Measured, repeat: int, repeats: int) -> list[Run]:
    """One Run for each region that is a cell; for a trace one Run whose groups are the kinds of operation."""
    by_region = counts.by_region(measured.rows, len(plan.regions))
    functions = counts.by_function(measured.rows, counts.symbols(measured.symbols))
    numbered = {"repeat": repeat} if repeats > 1 else {}
    if plan.regions and plan.regions[0].cell:
        runs = [
            _run(fs, [region], counters, sites(fs, functions.get(k, {})), {**region.cell, **numbered})
            for k, (region, counters) in enumerate(zip(plan.regions, by_region, strict=True), 1)
        ]
    else:
        used = [(k, region) for k, region in enumerate(plan.regions, 1) if region.operations]
        parts = [by_region[k - 1] for k, _ in used]
        cell = plan.header.get("cell")
        everything = _merged([functions.get(k, {}) for k, _ in used])
        run = _run(fs, [region for _, region in used], counts.total(parts), sites(fs, everything), {})
        run.cell = {**(cell if isinstance(cell, dict) else {}), **numbered}
        run.groups = {region.label: part for (_, region), part in zip(used, parts, strict=True)}
        run.params = {f"calls_{region.label}": region.calls for _, region in used}
        runs = [run]
    for run in runs:
        run.warnings += _warnings(measured.about)
        run.errors = _errors(measured.about)
    return runs


def functions_of(fs: str, plan: Plan, measured: Measured) -> list[dict[str, Any]]:
    """Rows for functions.csv: what each function did per call of a region, the largest first."""
    found = counts.by_function(measured.rows, counts.symbols(measured.symbols))
    rows = []
    for k, region in enumerate(plan.regions, 1):
        most = sorted(found.get(k, {}).items(), key=lambda item: -item[1].get("instructions", 0))[:_TOP]
        for name, counters in most:
            shown = {key: round(counters.get(key, 0) / max(1, region.calls), 4) for key in counts.COUNTERS}
            rows.append(
                {"fs": fs, "op": region.label, "unit": region.cell.get("unit_bytes", ""), "func": name, **shown}
            )
    return rows


def sites(fs: str, functions: Functions) -> dict[str, dict[str, int]]:
    """Counters by mechanism of the model, through the map of its functions; without a map only user and kernel.

    The plugin sees no call stack: a rule that names a caller decides only if all rules of its function name one site.
    """
    by = _site_by_function(fs)
    found: dict[str, list[Mapping[str, int]]] = {}
    for name, counters in functions.items():
        site = name if name == counts.USER else by.get(plain(name), ELSEWHERE)
        found.setdefault(site, []).append(counters)
    return {site: counts.total(parts) for site, parts in found.items()}


def _site_by_function(fs: str) -> dict[str, str]:
    mapped = maps()
    family = next((name for name in (fs, *_nearest(fs)) if name in mapped), None)
    if family is None:
        return {}
    found = {}
    for symbol, entries in rules(map_for(family)).items():
        plainly = [site for caller, site in entries if not caller]
        if plainly or len({site for _, site in entries}) == 1:
            found[symbol] = plainly[0] if plainly else entries[0][1]
    return found


def _nearest(fs: str) -> list[str]:
    """Shorter names of a variant: ext4-dax-nojournal -> ext4-dax, ext4."""
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


def _merged(parts: list[Functions]) -> dict[str, dict[str, int]]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: counts.total([part[name] for part in parts if name in part]) for name in names}


def _errors(about: Mapping[str, int]) -> dict[str, int]:
    if not about["failed"]:
        return {}
    found = {"failed": about["failed"], "first failed": about["first_failed"], "first errno": about["first_errno"]}
    return {**found, **({"ENOSPC": about["no_space"]} if about["no_space"] else {})}


def _warnings(about: Mapping[str, int]) -> list[str]:
    found = []
    if about["failed"]:
        found.append(
            f"{about['failed']} of {about['done']} operations failed in the guest, the first is operation "
            f"{about['first_failed']} with errno {about['first_errno']}"
        )
    if about["huge_bytes"] == UNKNOWN:
        found.append(
            "the kernel has no /proc/self/smaps (CONFIG_PROC_PAGE_MONITOR), so the page size of the program's buffer is not known: "
            "counts are complete, but a --stream takes its pages as 4 KiB"
        )
    return found
