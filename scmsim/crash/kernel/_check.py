"""Try the states of a recording on the kernel that made it, and compare them with the guarantee."""

import concurrent.futures
import os
import pathlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from scmsim.core.records import Source
from scmsim.crash._cache import choices
from scmsim.crash._check import MOST_STATES, call_text
from scmsim.crash.kernel._files import FIRST, Names, as_found, words_of
from scmsim.crash.kernel._outcomes import Outcome, Outcomes, against_model, names_of, outcome_of, text
from scmsim.crash.kernel._promises import PROMISES
from scmsim.crash.kernel._report import Failure, Report
from scmsim.crash.kernel._walk import Point, Walk, left, lost
from scmsim.crash.kernel._whole import broken
from scmsim.fs.recovery.expected import HALVED, Wrong
from scmsim.fs.recovery.model import Guarantee
from scmsim.lab import persistence
from scmsim.lab.machine import Setting
from scmsim.lab.persistence import Recording, Seen, SeenFile, StateWriter
from scmsim.lab.systems import System

Progress = Callable[[str, int, int], None]
Counts = tuple[int, ...]
Chosen = dict[int, list[Counts]]  # point -> for each state, how many stores of each extent arrived
MOST_ALONE = 256  # maximum number of lines tried one by one in the search for a smaller counterexample
MOUNT, READ, DIED = "does not mount", "cannot be read", "the kernel did not survive"


@dataclass(frozen=True)
class Plan:
    """Bounds and rules of a check."""

    lines: int = 6
    samples: int = 64
    states: int = 10_000
    seed: int = 0
    failures: int = 20
    locked: bool = True
    dropped: str = ""
    workers: int = 1


class Check:
    """The check of one recording on one kernel against one guarantee; temporary files go into the caller's folder."""

    def __init__(
        self, setting: Setting, system: System, recording: Recording, guarantee: Guarantee, paths: list[str], plan: Plan,
        folder: pathlib.Path, progress: Progress | None,
    ) -> None:  # fmt: skip
        self.setting, self.system, self.recording, self.guarantee = setting, system, recording, guarantee
        self.paths, self.plan, self.folder, self.progress = paths, plan, folder, progress
        self.names = Names(recording)
        self.report = Report(system.name, setting.version(), guarantee.text, guarantee.promised)
        self.report.operations = sum(result >= 0 for result in recording.results)
        self.report.entries = sum(1 for _ in recording.entries)
        self.report.recording_seconds = round(recording.seconds, 2)
        self._verdicts: dict[Any, tuple[Wrong | None, Outcome]] = {}
        self.outcomes: Outcomes = {}  # the states of files that the kernel found

    def run(self) -> Report:
        """Try the states, then smaller states for each failure."""
        failures: dict[int, tuple[int, Counts, Failure]] = {}  # by operation
        chosen = self._choose()
        self.report.states = sum(map(len, chosen.values()))
        self._judge(chosen, self._try(chosen, "states"), failures, count=True)
        smaller = self._smaller(failures)
        if smaller:
            self._judge(smaller, self._try(smaller, "smaller states"), failures, count=False)
        self.report.failures = [failure for _, _, failure in failures.values()]
        self.report.failing_operations = len(failures)
        return self.report

    def against_model(self, source: Source, assignments: dict[str, str]) -> None:
        """Report which states of files only the kernel or only the model of its name has; call this after `run`."""
        plan, report = self.plan, self.report
        found = against_model(self.outcomes, source, self.system.name, assignments, plan.lines, plan.samples, plan.seed)
        report.model_both = sum(one.both for one in found)
        report.model_differences = [
            {
                "operation": one.operation,
                "file": self.paths[one.file],
                "kernel_only": [text(part) for part in one.kernel_only],
                "model_only": [text(part) for part in one.model_only],
            }
            for one in found
            if one.kernel_only or one.model_only
        ]

    def _walk(self, writer: StateWriter | None = None) -> Walk:
        return Walk(self.recording, self.guarantee, self.plan.locked, self.plan.dropped, writer)

    def _choose(self) -> Chosen:
        """Return the states to check: those of each point, randomly thinned to at most `plan.states`."""
        plan, report, chosen = self.plan, self.report, {}
        walk = self._walk()
        for number, point in enumerate(walk.points()):
            total, kept = choices(point.extents, plan.lines, plan.samples, f"{plan.seed}/{number}")
            chosen[number] = list(kept)
            report.crash_points += 1
            report.possible_states = min(report.possible_states + total, MOST_STATES)
            report.sampled_points += len(chosen[number]) < total
        report.not_followed = [self.paths[file] for file in sorted(walk.not_followed)]
        every = [(number, counts) for number, each in chosen.items() for counts in each]
        if len(every) <= plan.states:
            return chosen
        thinned: Chosen = {}
        for k in sorted(random.Random(plan.seed).sample(range(len(every)), plan.states)):
            thinned.setdefault(every[k][0], []).append(every[k][1])
        report.sampled_points = sum(len(thinned.get(number, [])) < len(each) for number, each in chosen.items())
        return thinned

    def _try(self, chosen: Chosen, what: str) -> Iterator[Seen]:
        """Return an iterator over what the kernel finds in each state; several guests try states at the same time."""
        path = self.folder / "states"
        with path.open("wb") as file:
            writer = StateWriter(file)
            for number, point in enumerate(self._walk(writer).points()):
                for counts in chosen.get(number, []):
                    writer.state(left(point.extents, counts))
        workers = max(1, min(self.plan.workers, writer.count // 50))
        ends = [writer.count * k // workers for k in range(workers + 1)]
        done = [0] * workers
        started = time.monotonic()

        def part(k: int) -> list[Seen]:
            def show(begun: int) -> None:
                done[k] = begun
                if self.progress:
                    self.progress(f"{self.system.name}: {what}", sum(done), writer.count)

            numbers = range(ends[k], ends[k + 1])
            look = persistence.look(
                self.setting, self.system, path, self.recording.base, numbers, self.names.paths, show
            )
            return list(look)

        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            try:
                found = [seen for each in [pool.submit(part, k) for k in range(workers)] for seen in each.result()]
            except BaseException:
                self.setting.stop.set()
                raise
        self.report.seconds = round(self.report.seconds + time.monotonic() - started, 2)
        path.unlink()
        return iter(found)

    def _judge(
        self, chosen: Chosen, seen: Iterator[Seen], failures: dict[int, tuple[int, Counts, Failure]], count: bool
    ) -> None:
        walk = self._walk()
        for number, point in enumerate(walk.points()):
            for counts in chosen.get(number, []):
                problem = self._problem(walk, point.operation, next(seen))
                if not problem:
                    continue
                self.report.failing_states += count
                self._keep(failures, number, point, counts, problem, count)

    def _keep(
        self,
        failures: dict[int, tuple[int, Counts, Failure]],
        number: int,
        point: Point,
        counts: Counts,
        problem: tuple[str, Wrong],
        count: bool,
    ) -> None:
        """Keep the failure of each operation with the fewest lost lines."""
        old = failures.get(point.operation)
        if old is None and len(failures) >= self.plan.failures:
            return
        gone = lost(self.recording, point.extents, counts)
        states = (old[2].states if old else 0) + count
        if old and len(old[2].lost) <= len(gone):
            old[2].states = states
            return
        call = call_text(self.recording.operations.view(np.recarray)[point.operation], self.paths)
        file, wrong = problem
        failures[point.operation] = (
            number, counts,
            Failure(point.operation, call, point.before, gone, file, wrong.kind, wrong.text, states),
        )  # fmt: skip

    def _smaller(self, failures: dict[int, tuple[int, Counts, Failure]]) -> Chosen:
        """Return, for failures that lose several lines, the states that lose only one of these lines."""
        wanted = {number: counts for number, counts, failure in failures.values() if len(failure.lost) > 1}
        chosen: Chosen = {}
        for number, point in enumerate(self._walk().points() if wanted else ()):
            if number not in wanted:
                continue
            most = [len(extent.writes) for extent in point.extents]
            gone = [i for i, (count, all_) in enumerate(zip(wanted[number], most, strict=True)) if count < all_]
            alone = [tuple(wanted[number][i] if i == k else all_ for i, all_ in enumerate(most)) for k in gone]
            chosen[number] = alone[:MOST_ALONE]
        return chosen

    def _problem(self, walk: Walk, operation: int, seen: Seen) -> tuple[str, Wrong] | None:
        """Return (file, how it violates the guarantee) for a state, or None if the guarantee holds."""
        if isinstance(seen.error, str):
            return self.system.name, Wrong(DIED, f"died at the mount or in use: {seen.error}")
        if seen.error:
            return self.system.name, Wrong(MOUNT, f"does not mount: {os.strerror(seen.error).lower()}")
        problem, found = None, {}
        for file in walk.files.now:
            if file in walk.not_followed or file not in self.names.by_file:
                continue
            wrong, outcome = self._verdict(walk, file, self.names.seen(file, seen.files))
            self.outcomes.setdefault((operation, file), set()).add(outcome)
            found[file] = outcome.names
            problem = problem or (wrong and (self.paths[file], wrong))
        return problem or self._parted(walk, found) or self._broken(seen)

    def _parted(self, walk: Walk, found: dict[int, tuple[int, ...]]) -> tuple[str, Wrong] | None:
        """Return a violation if, after a rename, one file has its names from before the call and the other from after it."""
        if not self.guarantee.at_return or self.guarantee == PROMISES["call"]:
            return None
        changed = [file for file in found if walk.before.of(file).names != walk.files.of(file).names]
        old = [file for file in changed if found[file] == names_of(walk.before.of(file).names, FIRST)]
        if 0 < len(old) < len(changed):
            new = next(file for file in changed if file not in old)
            text = f"has the names from before the call, {self.paths[new]!r} those from after it"
            return self.paths[old[0]], Wrong(HALVED, text)
        return None

    def _broken(self, seen: Seen) -> tuple[str, Wrong] | None:
        """Return (path that is not whole, its error); None if all paths are whole."""
        problem = broken(seen.files)
        if not problem:
            return None
        number, wrong = problem
        return self.names.file_at(number, seen.files[number].inode, self.paths), wrong

    def _verdict(self, walk: Walk, file: int, seen: tuple[tuple[str, SeenFile], ...]) -> tuple[Wrong | None, Outcome]:
        key = (file, walk.now if self.names.shared(file) else walk.stamp.get(file, 0), seen)
        if key not in self._verdicts:
            self._verdicts[key] = self._compared(walk, file, seen)
        return self._verdicts[key]

    def _compared(self, walk: Walk, file: int, seen: tuple[tuple[str, SeenFile], ...]) -> tuple[Wrong | None, Outcome]:
        allowed = walk.allowed(file)
        names = self.names.found(file, seen, walk)
        inodes = {inode for _, _, inode in self.names.by_file[file]}
        one = next((one for _, one in seen if one.inode in inodes and one.inode), None) if names else None
        if one and one.length < 0:
            return Wrong(READ, f"cannot be read: {os.strerror(-one.length).lower()}"), Outcome((), one.length, ())
        words = walk.words.normal(file, words_of(one), one.length, allowed.states) if one else np.zeros(0, np.int64)
        found, image = as_found(names, one, words)
        pages = set(found.pages) if self.guarantee.content else set()
        return allowed.wrong(found, image, pages), outcome_of(found, image, FIRST)
