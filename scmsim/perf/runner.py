"""Run a matrix: every cell runs once for each pass over the events, and each finished cell is stored at once."""

import contextlib
import os
import pathlib
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from scmsim.core.errors import EnvironmentProblem, ScmsimError, UsageError
from scmsim.core.resumable import Folder
from scmsim.core.signals import stopping
from scmsim.perf import cells, dax_check, plan, targets, workload
from scmsim.perf.backend import Backend, Request, Task
from scmsim.perf.counts import Counts, combined, from_stat
from scmsim.perf.hardware import events_of
from scmsim.perf.machine import Machine
from scmsim.perf.matrix import Cell, Matrix
from scmsim.perf.stat import Ran

Progress = Callable[[Cell, int, int, float], None]  # next cell, cells done, cells in all, seconds left

_PATIENCE = 50.0  # a run is killed after a minute plus this many times its estimate
_DROP_CACHES = "/proc/sys/vm/drop_caches"


def request(matrix: Matrix, out: str, require_pmu: bool = False) -> Request:
    """Return the matrix's request to its back end; `out` is the folder of the cells."""
    return Request(
        count=matrix.count,
        counters=matrix.counters,
        require_pmu=require_pmu,
        params=matrix.backend_params,
        folder=out,
    )


def identity(matrix: Matrix, backend: Backend) -> dict[str, Any]:
    """Return the settings that the cells of a matrix depend on: the matrix, the counted events and the kernel."""
    kernel = Machine().kernel() if backend.runs_programs else ""
    return {**matrix.identity(), "events": events_of(backend.passes), "kernel": kernel}


def obstacles(matrix: Matrix, backend: Backend, out: Any) -> list[str]:
    """Return the errors that would stop the matrix before its first cell, without changing anything."""
    size = plan.plan(matrix, matrix.cells(), len(backend.passes))
    checks: list[Callable[[], None]] = [
        lambda: cells.check(pathlib.Path(out), identity(matrix, backend)),
        lambda: cells.check_space(pathlib.Path(out), size.out_bytes),
    ]
    if backend.runs_programs:
        checks.append(lambda: _check_machine(matrix))
        checks += [
            lambda target=target: targets.check(target, size.free_bytes, matrix.allow_other_files)  # type: ignore[misc]
            for target in matrix.targets
        ]
    found = []
    for check in checks:
        try:
            check()
        except ScmsimError as error:
            found.append(str(error))
    return found


def run(matrix: Matrix, backend: Backend, store: Folder, progress: Progress | None = None) -> int:
    """Measure every cell that the store lacks; return the number of measured cells.  `progress` is called before each cell.

    Raises EnvironmentProblem if the machine fails: no space, read-only, unmounted, perf killed.  Raises Stopped after SIGINT,
    SIGTERM or SIGHUP.  Finished cells are kept, the rest is cleaned up.
    """
    finished = store.finished()
    todo = [cell for cell in matrix.cells() if cell.key not in finished]
    cells.check_space(store.path, plan.plan(matrix, todo, 1).out_bytes)
    with stopping("cells"), _Rig(matrix, backend, store, todo) as rig:
        pace = _Pace([plan.seconds(matrix, cell) for cell in todo])
        for number, cell in enumerate(todo):
            if progress:
                progress(cell, len(finished) + number, len(finished) + len(todo), pace.left())
            cells.save(store, cell, rig.measure(cell, number))
            pace.done(number)
    return len(todo)


def warnings(matrix: Matrix, backend: Backend) -> list[str]:
    """Return the warnings for the reader of the result, which are also shown before the run."""
    return [*backend.warnings, *(dax_check.warnings(matrix, Machine()) if backend.runs_programs else [])]


class _Pace:
    """Estimate of the time left, corrected by the times of the finished cells."""

    def __init__(self, estimates: Sequence[float]) -> None:
        self.estimates, self.left_s = estimates, sum(estimates)
        self.done_s, self.started = 0.0, time.monotonic()

    def done(self, number: int) -> None:
        self.done_s += self.estimates[number]
        self.left_s -= self.estimates[number]

    def left(self) -> float:
        taken = time.monotonic() - self.started
        return max(0.0, self.left_s) * (taken / self.done_s if self.done_s else 1.0)


class _Rig:
    """Context that sets up everything for a matrix and takes it down afterwards."""

    def __init__(self, matrix: Matrix, backend: Backend, store: Folder, todo: Sequence[Cell]) -> None:
        self.matrix, self.backend, self.store, self.todo = matrix, backend, store, todo
        self.places: dict[str, targets.Place] = {}
        self.program = workload.Program([], None)
        self.stack = contextlib.ExitStack()

    def __enter__(self) -> "_Rig":
        if not self.backend.runs_programs:
            return self
        if not self.todo:
            targets.sweep(self.matrix.targets)
            return self
        with contextlib.ExitStack() as stack:
            _check_machine(self.matrix)
            needed = plan.plan(self.matrix, self.todo, 1).free_bytes
            opened = targets.opened(self.matrix.targets, needed, self.matrix.allow_other_files)
            self.places = stack.enter_context(opened)
            stack.callback(lambda: (self.store.path / workload.NAME).unlink(missing_ok=True))
            self.program = workload.build(self.store.path)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stack.close()

    def measure(self, cell: Cell, number: int) -> dict[str, Any]:
        """Run all passes of a cell, in an order that rotates with the cell's number; return the record to store."""
        passes = self.backend.passes
        order = [(number + i) % len(passes) for i in range(len(passes))]
        counts: dict[int, Counts] = {}
        elapsed = []
        for i in order:
            ran = self._one(cell, i)
            elapsed.append(workload.elapsed_ns(ran.stdout))
            try:
                counts[i] = from_stat(ran.stat, passes[i], self.matrix.allow_multiplexing)
            except UsageError as error:
                raise EnvironmentProblem(f"perf's output for {cell.key} is not whole: {error}") from None
        found = combined(counts[i] for i in sorted(counts))
        warnings = [self.program.warning] if self.program.warning else []
        return {
            "calls": cell.passes(self.matrix.total) * cell.pass_calls,
            "bytes": cell.passes(self.matrix.total) * cell.pass_calls * cell.length,
            "elapsed_ns": sorted(elapsed),
            "counters": found.values,
            "passes": [counts[i].values for i in sorted(counts)],
            "modes": found.modes,
            "why_absent": found.why_absent,
            "scaled": found.scaled,
            "warnings": warnings,
        }

    def _one(self, cell: Cell, number: int) -> Ran:
        """Run a cell once with one set of events, then remove the data file."""
        place = self.places.get(cell.fs)
        task = self._task(cell, place.data if place else "")
        if place is None:
            return self._checked(self.backend.measure(task, self.backend.passes[number], number), cell)
        place.check()
        try:
            return self._checked(self.backend.measure(task, self.backend.passes[number], number), cell)
        finally:
            with contextlib.suppress(OSError):
                place.clean()

    def _task(self, cell: Cell, path: str) -> Task:
        matrix = self.matrix
        command = self.program.arguments(
            cell, path, matrix.total, warm_up=matrix.warm_up, drop_caches=matrix.drop_caches, cpu=matrix.cpu
        )
        return Task(
            key=cell.key,
            command=command,
            timeout_s=60 + _PATIENCE * plan.seconds(matrix, cell),
            calls=cell.passes(matrix.total) * cell.pass_calls,
            length=cell.length,
            operation=cell.operation,
            fs=cell.fs,
        )

    def _checked(self, ran: Ran, cell: Cell) -> Ran:
        """Return the run if it was successful, else raise an error that explains the failure."""
        if ran.status == 0:
            return ran
        target = next(target for target in self.matrix.targets if target.label == cell.fs)
        place = self.places.get(cell.fs)
        if place:
            place.check()
        found = re.search(r"^loop: .*: errno (\d+)$", ran.stderr, re.MULTILINE)
        if found:
            raise targets.failed(int(found[1]), target)
        lines = [line for line in ran.stderr.splitlines() if line.strip() and not line.startswith("Events ")]
        said = lines[0].strip() if lines else "it said nothing"
        raise EnvironmentProblem(
            f"measuring {cell.key} failed with exit status {ran.status}: {said}; run the same command again"
        )


def _check_machine(matrix: Matrix) -> None:
    """Raise EnvironmentProblem if the requested CPU does not exist, or caches must but cannot be dropped."""
    allowed = os.sched_getaffinity(0)
    if matrix.cpu >= 0 and matrix.cpu not in allowed:
        raise EnvironmentProblem(
            f"run.cpu = {matrix.cpu}: no such CPU here; choose from {', '.join(map(str, sorted(allowed)))}"
        )
    if matrix.drop_caches and not os.access(_DROP_CACHES, os.W_OK):
        raise EnvironmentProblem(
            f"run.drop_caches = true: {_DROP_CACHES} may not be written; run as root, or set it to false"
        )
