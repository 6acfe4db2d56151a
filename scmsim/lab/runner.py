"""Run a job: a guest for each file system and repeat, several at a time; each result is stored as soon as its guest ends."""

import concurrent.futures
import dataclasses
import os
import pathlib
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.core.resumable import Folder, write
from scmsim.core.signals import stopping
from scmsim.lab import cache, call_counts, machine, outcome
from scmsim.lab.job import Job
from scmsim.lab.kernel import fingerprint
from scmsim.lab.machine import Setting
from scmsim.lab.measured import Measured
from scmsim.lab.plan import Plan
from scmsim.lab.systems import System
from scmsim.perf.cells import opened
from scmsim.result import Result, Run, provenance
from scmsim.result.rows import as_csv

Progress = Callable[[str, int, int, float], None]  # guest that just finished, guests done, guests in all, seconds left

_START_S, _OPERATIONS_PER_S, _BYTES_PER_S = 8.0, 10_000.0, 10e6  # of a guest on a slow core, until one has finished


class Guest(NamedTuple):
    """One run: a file system, and which of its repeated runs it is."""

    fs: str
    repeat: int

    @property
    def key(self) -> str:
        """Return the name of the file for the guest's result."""
        return f"{self.fs}-{self.repeat}"


def identity(job: Job, plan: Plan, setting: Setting, systems: Mapping[str, System]) -> dict[str, Any]:
    """Return the settings that the results depend on."""
    return {
        "fs": [dataclasses.asdict(systems[name]) for name in job.fs],
        "plan": cache.digest(plan.packed([])),
        "repeats": job.repeats,
        "erms": job.erms,
        "cpus": job.cpus,
        "stream": dataclasses.astuple(setting.window) if setting.window else None,
        "touches": setting.touches,
        **({"lines": True} if setting.lines else {}),
        "machine": _table_of(setting.machine) if setting.machine else None,
        **({"boots": True} if setting.boots else {"boot": setting.boot} if setting.boot > 1 else {}),
        "kernel": [setting.kernel.version(), fingerprint(setting.kernel, _modules(job, systems))],
        "qemu": ".".join(map(str, setting.qemu.version)),
        "plugin": cache.digest(*(path.read_bytes() for path in sorted(cache.HERE.glob("*.c")))),
    }


def _table_of(machine: str) -> list[Any]:
    """Return what the TLB misses of a machine depend on: its preset, and a digest of scmsim's code and tables."""
    from scmsim.mmu import presets

    return [presets.read(machine), registry.sources()]


def place(folder: str | os.PathLike[str], job: Job, setting: Setting, systems: Mapping[str, System]) -> pathlib.Path:
    """Return the folder for one of several kernels' results; its name has the kernel's version and digest, and any machine."""
    machine = f"-{pathlib.Path(setting.machine).stem}" if setting.machine else ""
    version = re.sub(r"[^A-Za-z0-9._+-]", "_", setting.kernel.version())[:80]
    return pathlib.Path(folder) / f"{version}-{fingerprint(setting.kernel, _modules(job, systems))[:6]}{machine}"


def _modules(job: Job, systems: Mapping[str, System]) -> list[str]:
    return [name for fs in job.fs for name in systems[fs].modules]


def guests(job: Job) -> list[Guest]:
    """Return all runs of a job, repeat by repeat, so that the first runs cover all file systems."""
    return [Guest(fs, repeat) for repeat in range(1, job.repeats + 1) for fs in job.fs]


def run(
    job: Job,
    setting: Setting,
    systems: Mapping[str, System],
    folder: str | os.PathLike[str],
    *,
    workers: int,
    inputs: list[str] | None = None,
    progress: Progress | None = None,
) -> tuple[Result, int, int]:
    """Run the guests whose results the folder lacks, and write result.json, functions.csv and tasks.csv.

    Returns (result, number of guests run now, number of guests run before).

    Raises EnvironmentProblem if the emulator or a guest fails; finished guests are kept.
    Raises machine.Interrupted after SIGINT, SIGTERM or SIGHUP, with everything cleaned up.
    """
    plan = job.plan()
    _check_cpus(plan, setting)
    sweep()
    with opened(folder, identity(job, plan, setting, systems)) as store:
        finished = store.finished()
        todo = [guest for guest in guests(job) if guest.key not in finished]
        pace = _Pace(plan, len(todo), workers)
        with stopping("guests", setting.stop.set):
            _run_all(todo, job, setting, systems, store, workers, pace, progress)
        records = [store.load(guest.key, _whole) for guest in guests(job)]
        result = Result(
            _manifest(job, plan, setting, inputs), [Run(**run) for record in records for run in record["runs"]]
        )
        write(store.path / "result.json", result.to_json(indent=1))
        for name in ("functions", "tasks", *(["cpus"] if job.cpus > 1 else [])):
            rows = [row for record in records for row in record[name]]
            write(store.path / f"{name}.csv", as_csv(rows) if rows else "")
    return result, len(todo), len(guests(job)) - len(todo)


def _check_cpus(plan: Plan, setting: Setting) -> None:
    """Raise UsageError if calls run on several CPUs and the setting records the accesses of one CPU."""
    used = len(np.unique(plan.operations["cpu"]))
    if used > 1 and (setting.window or setting.lines):
        raise UsageError(
            f"the trace's threads run on {used} CPUs, each with a TLB and caches of its own, but only one CPU can be recorded; "
            "leave --cpus out, or take a trace of one thread"
        )


def sweep() -> None:
    """Remove folders that killed runs left (their process no longer exists) in shared memory and the temporary folder."""
    for place in {"/dev/shm", tempfile.gettempdir()}:
        for folder in pathlib.Path(place).glob(f"{machine.PREFIX}*-*"):
            pid = folder.name.removeprefix(machine.PREFIX).split("-")[0]
            if pid.isdigit() and not os.path.exists(f"/proc/{pid}") and os.access(folder, os.W_OK):
                shutil.rmtree(folder, ignore_errors=True)


def _run_all(
    todo: list[Guest],
    job: Job,
    setting: Setting,
    systems: Mapping[str, System],
    store: Folder,
    workers: int,
    pace: "_Pace",
    progress: Progress | None,
) -> None:
    plan = job.plan() if todo else None
    with concurrent.futures.ThreadPoolExecutor(max(1, workers)) as pool:
        waiting = {pool.submit(_one, guest, job, setting, systems, store, plan): guest for guest in todo}
        try:
            for done, each in enumerate(concurrent.futures.as_completed(waiting), 1):
                each.result()
                if progress:
                    progress(waiting[each].key, done, len(todo), pace.left(done))
        except BaseException:
            setting.stop.set()
            for each in waiting:
                each.cancel()
            raise


def _one(guest: Guest, job: Job, setting: Setting, systems: Mapping[str, System], store: Folder, plan: Any) -> None:
    """Measure one guest and store its results."""
    if setting.stop.is_set():
        raise machine.Interrupted("interrupted")
    if setting.boots:
        setting = dataclasses.replace(setting, boot=guest.repeat)
    measured = machine.run(setting, systems[guest.fs], plan)
    found = outcome.Outcome(guest.fs, plan, measured, job.cpus)
    path = f"{store.path / guest.key}{call_counts.SUFFIX}"
    call_counts.keep(path, found, setting.version(), setting.machine, _misses(measured, setting))
    _keep(store.path / guest.key, guest.fs, plan, measured, setting)
    if job.layout:
        _keep_extents(store.path / guest.key, job, systems[guest.fs], measured)
    record: dict[str, Any] = {"runs": [dataclasses.asdict(run) for run in found.runs(guest.repeat, job.repeats)]}
    record |= (
        {"functions": [], "tasks": []} if guest.repeat > 1 else {"functions": found.functions(), "tasks": found.tasks()}
    )
    record["cpus"] = found.other_cpus() if guest.repeat == 1 else []
    record["seconds"] = measured.seconds
    store.save(guest.key, record)


def _misses(measured: Measured, setting: Setting) -> dict[str, np.ndarray] | None:
    """Return first-level misses and walks by row, if the setting has a machine."""
    if not setting.machine:
        return None
    from scmsim.lab import tlb

    return tlb.by_row(measured, setting.machine)


def _keep(path: pathlib.Path, fs: str, plan: Plan, measured: Measured, setting: Setting) -> None:
    """Write the data that the setting keeps in addition to the counts, into files whose names begin with `path`."""
    from scmsim.lab import lines, stream, touches

    version = setting.kernel.version()
    if measured.touches is not None:
        touches.keep(f"{path}{touches.SUFFIX}", fs, plan, measured, version)
    if measured.lines is not None:
        lines.keep(f"{path}{lines.SUFFIX}", fs, plan, measured, version)
    if measured.stream is None or setting.machine:
        return
    if setting.window and setting.window.calls:
        stream.keep(f"{path}{stream.SUFFIX}", measured.stream, fs, plan, measured, version)
    else:
        stream.write(f"{path}.pages.npz", measured.stream, measured.ranges)


def _keep_extents(path: pathlib.Path, job: Job, system: System, measured: Measured) -> None:
    """Write the extents of a guest's files and free space at the end of its run."""
    from scmsim.lab import layout
    from scmsim.trace import open_trace

    layout.keep(f"{path}{layout.SUFFIX}", system.name, measured, system, open_trace(job.trace).files.path)


class _Pace:
    """Estimate of the time left, from the speed of the guests that have finished."""

    def __init__(self, plan: Plan, count: int, workers: int) -> None:
        moved = int(plan.operations["length"].sum())
        each = _START_S + len(plan.operations) / _OPERATIONS_PER_S + moved / _BYTES_PER_S
        self.count, self.workers = count, max(1, min(workers, count or 1))
        self.total, self.started = each * count / self.workers, time.monotonic()

    def left(self, done: int) -> float:
        """Return the seconds left after `done` guests."""
        taken = time.monotonic() - self.started
        return taken / done * (self.count - done) if done else self.total


def estimate(job: Job, plan: Plan, workers: int) -> float:
    """Return the seconds that a job will take on slow cores."""
    return _Pace(plan, len(guests(job)), workers).total


def _whole(record: dict[str, Any]) -> dict[str, Any]:
    if not {"runs", "functions", "tasks", "cpus"} <= record.keys():
        raise ValueError("it lacks runs, functions, tasks or cpus")
    return record


def _manifest(job: Job, plan: Plan, setting: Setting, inputs: list[str] | None) -> dict[str, Any]:
    about = {
        "backend": "lab",
        "qemu": ".".join(map(str, setting.qemu.version)),
        "cpu": f"QEMU TCG, {'one vCPU' if job.cpus == 1 else f'{job.cpus} vCPUs'}",
        "erms": job.erms,
        "fs": list(job.fs),
    }
    made = provenance.build(inputs or [], trace=plan.header, harness=about)
    return {**made, "kernel": f"Linux {setting.kernel.version()}", "host": made["host"]}
