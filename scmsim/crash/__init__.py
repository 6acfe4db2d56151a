"""Check crash guarantees: test a file system's guarantee in every device state in which a crash may leave a model's stores."""

import pathlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.core.records import Files, Source
from scmsim.pipeline import model_params
from scmsim.trace import open_trace

if TYPE_CHECKING:
    from scmsim.fs.engine.model import Model

__all__ = ["recovery_model_of", "check", "models"]


def models() -> dict[str, str]:
    """Return file-system model -> name of its recovery model, for those that have one."""
    return {fs: name for name in registry.names("crash") for fs in registry.literals("crash", name)["MODELS"]}


def recovery_model_of(fs: str) -> Any:
    """Return the recovery-model class of a file-system model; raise UsageError, with the reason, if there is none."""
    registry.path("fs", fs)
    known = models()
    if fs not in known:
        raise UsageError(
            f"no crash guarantee is modelled for {fs!r}: no recovery model defines what its stores mean; "
            f"choose from {_some(known)}"
        )
    why = registry.literals("crash", known[fs]).get("NONE")
    if why:
        raise UsageError(f"no crash guarantee is modelled for {fs!r}: {why}; choose from {_some(known)}")
    return registry.load("crash", known[fs]).RecoveryModel


def recovery_of(fs: str, given: Mapping[str, Any], files: Files) -> "tuple[Model, Any]":
    """Return a file-system model and its recovery model, started with all its parameters `given`."""
    from scmsim.fs.engine.model import Model

    kind = recovery_model_of(fs)
    model = Model(fs, given, files)
    return model, kind(fs, given, len(files), model.state)


def guarantee_of(fs: str) -> Any:
    """Return the guarantee of the recovery model of `fs` with default parameters.

    Some classes set `guarantee` only in their instances, so the function may have to create one.
    """
    found = getattr(recovery_model_of(fs), "guarantee", None)
    if found is None:
        nothing = Files([], np.zeros(0, np.int64), np.zeros(0, bool))
        found = recovery_of(fs, model_params("fs", fs, {}), nothing)[1].guarantee
    return found


def _some(known: Mapping[str, str]) -> str:
    """Return the names, shortened to the first six for a message."""
    names = sorted(_checked(known))
    return f"{', '.join(names[:6])}, ... ({len(names)} in all)" if len(names) > 6 else ", ".join(names)


def _checked(known: Mapping[str, str]) -> list[str]:
    return [fs for fs, name in known.items() if "NONE" not in registry.literals("crash", name)]


def check(
    trace: "str | pathlib.Path | Source",
    fs: str,
    *,
    params: Mapping[str, str | int] | None = None,
    first: int = 0,
    stop: int = 1 << 62,
    lines: int = 8,
    samples: int = 128,
    seed: int = 0,
    failures: int = 20,
    progress: Callable[[str, int, int], None] | None = None,
    change: Callable[[list], list] | None = None,
) -> Any:
    """Recover from every state in which a crash during a trace may leave the device, and compare with the guarantee.

    Parameters
    ----------
    trace : path or Source
        A stored trace or a workload.
    fs : str
        A file-system model with a recovery model (`models`).
    params : mapping
        Parameters of the model.
    first, stop : int
        Operations of the trace to check: [first, stop); earlier operations are only replayed.
    lines, samples : int
        At a crash point where at most `lines` lines (or pieces of runs) may be lost, check all states, else `samples` states.
    seed : int
        Seed of the random samples.
    failures : int
        Stop after this many failing operations.
    progress : callable(fs, operations checked, operations to check), optional
    change : callable(events) -> events, optional
        Reorders each operation's events before they are executed; for tests of the checker.

    Returns
    -------
    Report
        Counts, and the smallest counterexample of each failing operation.

    Raises
    ------
    UsageError
        For an unknown model, a model without a guarantee, bad parameters, or a trace that cannot be read.
    """
    from scmsim.crash._check import Check, rows
    from scmsim.crash._report import Plan
    from scmsim.fs.recovery.observe import prologue

    recovery_model_of(fs)
    if lines < 0:
        raise UsageError(f"lines = {lines}: give 0 or more")
    if samples < 2:
        raise UsageError(f"samples = {samples}: give 2 or more")
    if first < 0 or stop <= first:
        raise UsageError(f"the range of operations {first}..{stop} is empty; give a start of 0 or more and a later end")
    if isinstance(trace, str | pathlib.Path):
        trace = open_trace(trace)
    given = model_params("fs", fs, params or {})
    files, before = prologue(trace)
    model, recovery = recovery_of(fs, given, files)
    work = Check(model, recovery, files.path, len(before), Plan(first, stop, lines, samples, seed, failures))
    work.change = change
    total = min(stop, trace.rows) - first if progress else 0
    if progress:
        progress(fs, 0, total)
    for number, row in rows(trace, before):
        if number >= stop:
            break
        work.operation(row, number)
        if work.enough():
            break
        if progress and number >= first:
            progress(fs, number + 1 - first, total)
    return work.report
