"""Check the crash guarantee of a real kernel, by the rules for models: record its stores and try crash states in guests."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scmsim.core.errors import UsageError
from scmsim.core.records import Source
from scmsim.crash import guarantee_of as of_model
from scmsim.crash import models, recovery_model_of
from scmsim.crash.kernel._promises import PROMISES
from scmsim.fs.recovery.model import Guarantee

if TYPE_CHECKING:
    from scmsim.crash.kernel._report import Report
    from scmsim.lab.machine import Setting
    from scmsim.lab.systems import System

__all__ = ["PROMISES", "check", "guarantee_of"]


def guarantee_of(fs: str, promise: str = "") -> Guarantee:
    """Return the guarantee to check for a file system of the lab: one of PROMISES, or the guarantee of the model of its name.

    Raises
    ------
    UsageError
        If `promise` is empty and there is no such model, or the model has no guarantee.
    """
    if promise:
        return PROMISES[promise]
    if fs not in models():
        raise UsageError(
            f"no model defines what {fs!r} promises; give the promise to check with --promise {', '.join(PROMISES)}"
        )
    found: Guarantee = of_model(fs)
    return found


def check(
    setting: "Setting",
    system: "System",
    source: Source,
    *,
    promise: str = "",
    model: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
    **bounds: Any,
) -> "Report":
    """Record the stores of a trace on a kernel, and try on the same kernel the states that crashes may leave.

    Parameters
    ----------
    setting : Setting
        Emulator and kernel.
    system : System
        The file system; its device is persistent memory.
    source : Source
        The trace.
    promise : str
        One of PROMISES, or "" for the guarantee of the model of the same name.
    model : bool
        Whether to compare the kernel's states with those of the model of the same name.
    progress : callable(what, done, of), optional
    bounds
        Fields of `_check.Plan`.

    Raises
    ------
    EnvironmentProblem
        If a guest cannot run or fails before the first state.
    UsageError
        For a trace that cannot be checked or has too many names, or a system without a device.
    """
    from scmsim.crash.kernel import _check, _walk
    from scmsim.lab import machine, persistence
    from scmsim.lab.runner import sweep

    if system.source != "DEVICE":
        raise UsageError(f"{system.name!r} has no device: a crash leaves nothing of it")
    if "init" in system.options.split(","):
        raise UsageError(
            f"{system.name!r} has 'init' among its options, which formats the device at each mount and hides what a crash left; "
            "move it to format_options in the table of --systems"
        )
    guarantee = guarantee_of(system.name, promise)
    if model:
        recovery_model_of(system.name)
    plan, bound = persistence.plan_of(source, setting.cpus), _check.Plan(**bounds)
    sweep()
    with machine.scratch() as folder:
        if progress:
            progress(f"{system.name}: recording", 0, 1)
        recording = persistence.record(setting, system, plan, folder)
        if bound.dropped:
            _walk.check_dropped(recording, bound.dropped)
        work = _check.Check(
            setting,
            system,
            recording,
            guarantee,
            list(source.files.path),
            bound,
            folder,
            progress,
        )
        if len(work.names.paths) > persistence.MOST_PATHS:
            raise UsageError(
                f"the trace has {len(work.names.paths):,} names, lab crash checks at most {persistence.MOST_PATHS:,}; "
                "shorten it with 'scmsim trace cut'"
            )
        report = work.run()
        if model:
            work.against_model(source, {})
        return report
