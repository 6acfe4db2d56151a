"""Check the arguments of a replay: each mistake is a UsageError that names the argument."""

import os
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from scmsim.core import registry
from scmsim.core.errors import UsageError, expect, shown, unknown
from scmsim.core.records import Source
from scmsim.core.units import parse_param
from scmsim.paging import _choice as choice
from scmsim.paging._meminfo import read as read_meminfo
from scmsim.trace.rules import check_files

Params = Mapping[str, Mapping[str, str | int]]
Progress = Callable[[str, int, int], None]
GROUPS = ("site", "op", "file")  # breakdowns besides the totals; bins.py uses their indices


def names_of(fs: str | Iterable[str]) -> list[str]:
    """Return the names of known file systems, from a list or from a string with commas and patterns."""
    names = registry.select("fs", fs) if isinstance(fs, str) else list(fs) if isinstance(fs, Iterable) else [fs]
    for name in names:
        expect("fs", name, str, "the name of a file system, or a list of names")
    names = [name.strip() for name in names]
    if not names or not all(names):
        raise UsageError("no file system given; name one or more, e.g. nova-cow,ext4-dax")
    for name in names:
        registry.path("fs", name)
    return names


def models_of(names: Iterable[str], machine: str | dict[str, Any], paging: str | None) -> set[str]:
    """Return the models of a replay that take parameters: file systems, and the paging policies that they use."""
    if paging is not None:
        expect("paging", paging, str, "the name of a paging policy, or None")
    largest = machine_table(machine)["walk"]["largest_page"]
    return {*names, *(policy for name in names for policy in choice.choose(name, paging, largest))}


def machine_table(machine: "str | os.PathLike[str] | dict[str, Any]") -> dict[str, Any]:
    """Check a machine and return its table."""
    from scmsim.mmu import presets

    expect("machine", machine, (str, os.PathLike, dict), "the name of one machine, a TOML file or its table")
    if not isinstance(machine, dict):
        return presets.read(os.fspath(machine))
    presets.machine(machine)  # raises UsageError if the table is not a machine
    return machine


def tables_in(medium: dict[str, Any], machine: dict[str, Any]) -> dict[str, Any]:
    """Return the machine's table, in which reading a page-table entry in SCM takes as long as a dependent load from the medium."""
    ghz, walk = machine.get("time", {}).get("ghz"), machine["walk"]
    if not ghz or "memory_cycles" not in walk or not medium.get("cached", True) or "load_ns" not in medium:
        return machine
    source = {**walk.get("source", {}), "scm_cycles": "the medium's load_ns"}
    return {**machine, "walk": {**walk, "scm_cycles": round(medium["load_ns"] * ghz), "source": source}}


def on_direct_map(
    params: Params, meminfo: "str | os.PathLike[str] | None", names: Iterable[str], machine: Any, paging: str | None
) -> Params:
    """Return `params` plus the page sizes of the direct map in /proc/meminfo, per paging policy; given values win."""
    if meminfo is None:
        return params
    expect("meminfo", meminfo, (str, os.PathLike), "the path of a copy of /proc/meminfo")
    found, merged = read_meminfo(meminfo), {name: dict(given) for name, given in params.items()}
    for policy in models_of(names, machine, paging) - set(names):
        known = registry.literals("paging", policy).get("PARAMS", {})
        own = {key: value for key, value in found.items() if key in known}
        merged[policy] = {**own, **merged.get(policy, {})}
    return merged


def checked_params(params: Params | None) -> dict[str, Mapping[str, str | int]]:
    form = 'a table of tables, e.g. {"nova-cow": {"capacity": "16GiB"}}'
    params = {} if params is None else params
    expect("params", params, Mapping, form)
    for name, given in params.items():
        expect(f"params[{name!r}]", given, Mapping, "a table of parameters, e.g. {'capacity': '16GiB'}")
    return dict(params)


def check_footprints(kernel: object) -> None:
    """Raise UsageError unless `kernel` is None, "none" or a kernel with footprints."""
    from scmsim import footprint

    if kernel is not None:
        expect("footprints", kernel, str, f"one of {', '.join(footprint.kernels())}")
        footprint.check(str(kernel))


def check_progress(progress: object) -> None:
    """Raise UsageError for a callback that is not callable."""
    if progress is not None and not callable(progress):
        raise UsageError(f"progress must be a function or None, not {shown(progress)}")


def open_source(trace: "str | pathlib.Path | Source") -> tuple[Source, list]:
    """Return (trace as a Source, list of input files)."""
    if isinstance(trace, str | os.PathLike):
        from scmsim.trace import open_trace

        source = open_trace(trace)
        check_files(source.files, repr(os.fspath(trace)))
        return source, [trace]
    if isinstance(trace, type) or not all(hasattr(trace, name) for name in ("header", "files", "rows", "batches")):
        raise UsageError(
            f"trace must be the path of a stored trace or one workload such as microbench.Workload(), not {shown(trace)}"
        )
    check_files(trace.files)
    return trace, []


def model_params(kind: str, name: str, given: Mapping[str, str | int]) -> dict[str, Any]:
    """Return all parameters of a plug-in as integers (bytes, ns) or strings: its defaults, updated with `given`.

    Raises UsageError for an unknown parameter (the message names the nearest one) or a value that its unit does not allow.
    """
    declared = registry.literals(kind, name).get("PARAMS", {})
    for key in given:
        if key not in declared:
            raise (
                unknown(f"parameter of {name}", key, declared) if declared else UsageError(f"{name} has no parameters")
            )
    values = {}
    for key, (default, unit, _) in declared.items():
        try:
            values[key] = parse_param(given.get(key, default), unit)
        except UsageError as error:
            raise UsageError(f"{name}.{key}: {error}") from None
    return values
