"""Choose the costs and footprints of one version of Linux for all models, and note which models lack them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from scmsim import footprint
from scmsim.core import registry
from scmsim.core.errors import expect, unknown
from scmsim.pipeline.arguments import Params

# Without --kernel: Debian's 5.10, on which more file systems were measured than on 5.13, the version of most models' costs.
FOOTPRINTS = "5.10"


@dataclass(frozen=True)
class Chosen:
    """Parameters and footprints of a kernel, and remarks on models that have no table for that kernel."""

    params: Params
    footprints: str | None
    remarks: dict[str, list[str]]


def costs_of(fs: str) -> list[str]:
    """Return the versions of Linux for which a model has costs; [] for a file system that is not part of Linux."""
    known = registry.literals("fs", fs)
    if "kernel" in known.get("PARAMS", {}):
        return list(known["PARAMS"]["kernel"][1].split("|"))
    return [known["KERNEL"]] if "KERNEL" in known else []


def kernels() -> list[str]:
    """Return the versions for which any model has costs or footprints, oldest first."""
    measured = (kernel for kernel in footprint.kernels() if not kernel.endswith(footprint.WITH_LINES))
    found = {*measured, *(kernel for fs in registry.names("fs") for kernel in costs_of(fs))}
    return sorted(found, key=lambda version: [int(part) for part in re.findall(r"\d+", version)])


def check(kernel: object) -> None:
    """Raise UsageError unless some model has costs or footprints of this version of Linux."""
    expect("kernel", kernel, str, f"one of {', '.join(kernels())}")
    if kernel not in kernels():
        raise unknown("kernel with costs or footprints", str(kernel), kernels())


def choose(kernel: str | None, names: Iterable[str], params: Params, footprints: str | None) -> Chosen:
    """Return the parameters and footprints of `kernel` for a replay; explicit `params` and `footprints` win.

    A remark names each model whose costs or footprints are of another kernel.
    """
    touched = footprints or (footprint.standing_for(kernel) if kernel else FOOTPRINTS)
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
    """Return remarks, by model, on the models without footprints on `kernel`; {} if `kernel` is None or "none"."""
    if kernel is None or kernel == footprint.NONE_AT_ALL:
        return {}
    remarks = {}
    for name in names:
        measured, source = footprint.stand_in(kernel, name)
        if measured != kernel:
            of = "" if source == name else f"{source} on "
            remarks[name] = [
                f"no footprints of {name} on Linux {kernel} were measured; those of {of}{measured} stand for them"
            ]
        elif source != name:
            instead = f"{source} stand for them" if source else f"{footprint.GENERAL} stand for its general layers"
            remarks[name] = [f"no footprints of {name} were measured; those of {instead}"]
    return remarks
