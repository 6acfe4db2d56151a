"""One kernel for all columns of a replay: costs and footprints of a version of Linux, and who has none of it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from scmsim import footprint
from scmsim.core import registry
from scmsim.core.errors import expect, unknown
from scmsim.pipeline.arguments import Params

DEFAULT = "5.13"  # most models' costs without a choice are of this Linux


@dataclass(frozen=True)
class Chosen:
    """Parameters and footprints of a kernel, and what is to be said of each model that has no table for it."""

    params: Params
    footprints: str | None
    remarks: dict[str, list[str]]


def costs_of(fs: str) -> list[str]:
    """Versions of Linux that a model has costs of; none for a file system that no version of Linux has."""
    known = registry.literals("fs", fs)
    if "kernel" in known.get("PARAMS", {}):
        return list(known["PARAMS"]["kernel"][1].split("|"))
    return [known["KERNEL"]] if "KERNEL" in known else []


def kernels() -> list[str]:
    """Versions that any model has costs or footprints of, the oldest first."""
    found = {*footprint.kernels(), *(kernel for fs in registry.names("fs") for kernel in costs_of(fs))}
    return sorted(found, key=lambda version: [int(part) for part in re.findall(r"\d+", version)])


def check(kernel: object) -> None:
    """Raise UsageError for what is no version of Linux that any model has costs or footprints of."""
    expect("kernel", kernel, str, f"one of {', '.join(kernels())}")
    if kernel not in kernels():
        raise unknown("kernel with costs or footprints", str(kernel), kernels())


def choose(kernel: str | None, names: Iterable[str], params: Params, footprints: str | None) -> Chosen:
    """What a replay takes from a kernel; parameters and footprints that are given stay, `footprint.NONE_AT_ALL` among them.

    A kernel that no model has costs of, or that no footprints were measured on, is what a remark tells of.
    """
    touched = footprint.standing_for(kernel or DEFAULT) if footprints is None else footprints
    chosen = None if touched == footprint.NONE_AT_ALL else touched
    if kernel is None:
        return Chosen(params, chosen, _without_own(names, footprints))
    merged: dict[str, Any] = {name: dict(given) for name, given in params.items()}
    remarks = _without_own(names, chosen)
    for name in names:
        costs = costs_of(name)
        if kernel in costs and "kernel" in registry.literals("fs", name)["PARAMS"]:
            merged.setdefault(name, {}).setdefault("kernel", kernel)
        told = remarks.setdefault(name, [])
        if costs and kernel not in costs:
            told.append(
                f"no costs of {name} on Linux {kernel} were measured, but on {', '.join(costs)}: these are charged"
            )
        if footprints is None and touched != kernel:
            told.append(
                f"no footprints of Linux {kernel} were measured; those of {touched} stand for them (--footprints)"
            )
    return Chosen(merged, chosen, remarks)


def _without_own(names: Iterable[str], kernel: str | None) -> dict[str, list[str]]:
    """What is to be said of models that a kernel, if one was asked for, has no footprints of."""
    if kernel is None or kernel == footprint.NONE_AT_ALL:
        return {}
    remarks = {}
    for name in names:
        source = footprint.source_of(kernel, name)
        if source != name:
            instead = f"{source} stand for them" if source else f"{footprint.GENERAL} stand for its general layers"
            remarks[name] = [f"no footprints of {name} were measured; those of {instead}"]
    return remarks
