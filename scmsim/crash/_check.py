"""Recover from every state that a crash can leave, and compare each file with the guarantee.

Crash points are before each fence and after each operation.  The stores that may be lost there include all stores that may be lost
at any point since the previous fence, so that other crash points would show nothing more.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from scmsim.core.records import FENCE, FLUSH, NTSTORE, OPS, STORE, TRUNCATE, WRITE
from scmsim.crash._cache import Cache, Extent, choices
from scmsim.crash._history import History
from scmsim.crash._report import Failure, Plan, Report
from scmsim.fs.engine.model import Model
from scmsim.fs.recovery.expected import HALVED, SHARED, FileState, Found, Wrong
from scmsim.fs.recovery.image import LINE, PAGE, PIECE, Copy, Image, resolve
from scmsim.fs.recovery.model import RecoveryModel, Unrecoverable
from scmsim.fs.recovery.observe import Event, observe

MOST_STATES = 10**18  # limit up to which possible states are counted
MOST_TRIES = 8  # maximum number of failing states per operation that are minimised


class Check(History):
    """The check of one trace on one model with one recovery model."""

    def __init__(self, model: Model, recovery: RecoveryModel, paths: Sequence[str], skipped: int, plan: Plan) -> None:
        super().__init__(recovery.guarantee, skipped)
        self.model, self.recovery, self.paths, self.plan = model, recovery, paths, plan
        self.cache = Cache()
        self.volatile = Image()
        self.report = Report(recovery.fs, recovery.guarantee.text, promised=recovery.guarantee.promised)
        self.tainted: set[int] = set()
        self.moving: set[int] = set()  # files with stores that may be lost
        self.owner: dict[int, tuple[int, int]] = {}  # device page -> file, page
        self.owned: dict[int, dict[int, int]] = {}  # file -> page -> device page, the inverse of `owner`
        self.change: Callable[[list[Event]], list[Event]] | None = None  # reorders events, in tests
        self._stores = 0
        self.sites: dict[int, str] = {}  # mechanism of each store of the current operation, by its number

    def operation(self, row: np.recarray, number: int) -> None:
        """Replay the trace's operation `number` and check its crash points.

        Operations that create the files from before the trace have negative numbers; their stores have arrived when it begins.
        """
        version = number + self.skipped + 1
        raw, op, succeeded = observe(self.model, row)
        self.recovery.op, self.recovery.succeeded = op, succeeded
        events = list(self.recovery.physical(raw))
        if self.change and number >= 0:
            events = self.change(events)
        before = dict(self.files.now)
        self.files.changed = {}
        if succeeded:
            self.files.apply(op, version)
        changed = self.files.changed
        self.moving |= set(changed)
        point = _Point(self, op, number, events, before)
        looks = self.plan.first <= number < self.plan.stop and not self.enough() and not self._skips(changed)
        meant = self.recovery.interpret(op, version, events)
        self.sites = {}
        self.remember(op, before, changed)
        for i, event in enumerate(events):
            if event.code == FENCE:
                if looks:
                    point.look(i)
                self.cache.fence()
            elif event.code == FLUSH:
                for low, high in event.runs():
                    self.cache.flush(low, high)
            else:
                self._store(event, meant[i])
        self.synced(op, succeeded)
        if looks:
            self.report.operations += 1
            point.look(len(events))
            point.close()
        if number < 0:
            self.cache.drain()
        self._settle()

    def enough(self) -> bool:
        """Return whether enough operations failed to stop checking."""
        return self.recovery.guarantee.promised and self.report.failing_operations >= self.plan.failures

    def _skips(self, changed: dict[int, set[int]]) -> bool:
        if self.tainted & set(changed):
            self.report.not_checked += 1
            return True
        return False

    def _store(self, event: Event, meant: Sequence[Any]) -> None:
        for write in meant:
            for part in resolve(write, self.volatile) if isinstance(write, Copy) else [write]:
                self._stores += 1
                self.sites[self._stores] = event.site
                length = getattr(part, "length", 1)
                if part.addr // PAGE < event.addr // PAGE or part.addr + length > event.addr + event.length + PAGE:
                    raise AssertionError(f"{part} is not part of {event}")
                self.volatile.apply(part, part.addr, part.addr + length)
                self.cache.store(self._stores, part, event.code == NTSTORE)

    def _settle(self) -> None:
        """Update page owners and histories from the stores that have certainly arrived."""
        for file in sorted(self.moving):
            try:
                found = self.recovery.settle(self.cache.durable, file)
            except Unrecoverable:
                continue
            self._own(file, found)
        if not self.cache.extents():
            self.moving &= self.history.keys()
        for file in self.stale.keys() - self.history.keys():
            del self.stale[file]

    def _own(self, file: int, found: Found) -> None:
        new = found.base if found.names else {}
        old = self.owned.get(file, {})
        for page, device in old.items() - new.items():
            if self.owner.get(device) == (file, page):
                del self.owner[device]
        for page, device in new.items() - old.items():
            self.owner[device] = (file, page)
        self.owned[file] = dict(new)

    def problem(self, image: Image, before: dict[int, FileState]) -> tuple[int, Wrong] | None:
        """Return (file, how it violates the guarantee) for one state of the device, or None if the guarantee holds."""
        found: dict[int, Found] = {}
        for file in sorted(self.moving - self.tainted):
            try:
                found[file] = self.recovery.recover(image, file)
            except Unrecoverable as error:
                return file, Wrong(error.kind, str(error))
        for file, one in found.items():
            self._left_out(self.paths[file], len(one.unknown))
        for file, one in found.items():
            wrong = self.allowed(file).wrong(one, image, self._pages(file, one, image))
            if wrong:
                return file, wrong
        return self._shared(found) or self._parted(found, before)

    def _left_out(self, path: str, pages: int) -> None:
        """Count pages that are not compared."""
        if pages:
            report = self.report
            report.unknown_pages += pages
            report.unknown_why = self.recovery.unknown_why
            report.unknown_files[path] = report.unknown_files.get(path, 0) + pages

    def _parted(self, found: dict[int, Found], before: dict[int, FileState]) -> tuple[int, Wrong] | None:
        """Return a violation if, after a rename, one file has its names from before the call and the other from after it."""
        if not self.recovery.guarantee.at_return:
            return None
        named = [file for file in found if before.get(file, FileState()).names != self.files.of(file).names]
        old = [file for file in named if found[file].names == before.get(file, FileState()).names]
        if 0 < len(old) < len(named):
            new = next(file for file in named if file not in old)
            text = f"has the names from before the call, {self.paths[new]!r} those from after it"
            return old[0], Wrong(HALVED, text)
        return None

    def _pages(self, file: int, found: Found, image: Image) -> set[int]:
        """Return the pages of a file whose content may have changed since the last comparison."""
        if not self.recovery.guarantee.content:
            return set()
        pages = self.files.changed.get(file, set()) | set(found.pages) | self.stale.get(file, set())
        for device in image.pages:
            owner = self.owner.get(device)
            if owner and owner[0] == file:
                pages.add(owner[1])
        if image.zeroed:
            owned = self.owned.get(file, {})
            pages |= {page for page, device in owned.items() if device // PIECE in image.zeroed}
        return pages | {found.size // PAGE}

    def _shared(self, found: dict[int, Found]) -> tuple[int, Wrong] | None:
        taken: dict[int, tuple[int, int]] = {}
        for file, one in found.items():
            if not one.names:
                continue
            for page, device in one.pages.items():
                if device is None or page * PAGE >= one.size or page in one.unknown:
                    continue
                other = taken.setdefault(device, (file, page))
                if other == (file, page):
                    other = self.owner.get(device, other)
                    holder = found.get(other[0])
                    if holder and (holder.at(other[1]) != device or not holder.names):
                        continue
                    # VSM packs the tails of several files into one superpage, so a file may name pages past its end
                    if other[1] * PAGE >= (holder or self.files.of(other[0])).size:
                        continue
                if other != (file, page):
                    text = f"page {page} is at the same place as page {other[1]} of {self.paths[other[0]]!r}"
                    return file, Wrong(SHARED, text)
        return None


class _Point:
    """The crash points of one operation."""

    def __init__(self, check: Check, op: Any, number: int, events: list[Event], before: dict[int, FileState]) -> None:
        self.check, self.op, self.number, self.events, self.before = check, op, number, events, before
        self.worst: dict[str, Failure] = {}  # kind of violation -> failure; one key "" if violations are failures
        self.files: set[int] = set()

    def look(self, at: int) -> None:
        """Check the states of a crash before event `at`."""
        check, plan, report = self.check, self.check.plan, self.check.report
        extents = check.cache.extents()
        total, kept = choices(extents, plan.lines, plan.samples, f"{plan.seed}/{self.number}/{at}")
        report.crash_points += 1
        report.possible_states = min(report.possible_states + total, MOST_STATES)
        looked = 0
        for counts in kept:
            looked += 1
            problem = check.problem(check.cache.after(extents, counts), self.before)
            if problem:
                report.failing_states += 1
                self._failed(at, extents, counts, problem)
        report.states += looked
        report.sampled_points += looked < total

    def _failed(self, at: int, extents: list[Extent], counts: tuple[int, ...], problem: tuple[int, Wrong]) -> None:
        self.files.add(problem[0])
        kind = problem[1].kind
        found = self.check.report.found
        found[kind] = found.get(kind, 0) + 1
        key = "" if self.check.recovery.guarantee.promised else kind
        worst = self.worst.get(key)
        if worst:
            worst.states += 1
            if len(worst.lost) <= 1 or worst.states > MOST_TRIES:
                return
        counts, problem = self._smallest(extents, counts, problem, key)
        lost = [
            _lost(extent, count, self.check.sites)
            for extent, count in zip(extents, counts, strict=True)
            if count < len(extent.writes)
        ]
        if worst and len(lost) >= len(worst.lost):
            return
        before = (
            f"{_CODES[self.events[at].code]} of {self.events[at].site!r}" if at < len(self.events) else "the next call"
        )
        self.worst[key] = Failure(
            self.number, call_text(self.op, self.check.paths), at, before, lost, self.check.paths[problem[0]], problem[1].text,
            worst.states if worst else 1, problem[1].kind,
            self.check.recovery.to_blame(self.op, lost, problem[1].kind) if self.check.recovery.guarantee.promised else "",
        )  # fmt: skip

    def _smallest(
        self, extents: list[Extent], counts: tuple[int, ...], problem: tuple[int, Wrong], kind: str
    ) -> tuple[tuple[int, ...], tuple[int, Wrong]]:
        """Minimise the lost extents of a failure (of the given kind, if any) by removing halves of them."""
        parts = [[i for i, extent in enumerate(extents) if counts[i] < len(extent.writes)]]
        while parts:
            part = parts.pop()
            arriving = set(part)
            trial = tuple(len(extents[i].writes) if i in arriving else count for i, count in enumerate(counts))
            again = self.check.problem(self.check.cache.after(extents, trial), self.before)
            if again and kind in ("", again[1].kind):
                counts, problem = trial, again
            elif len(part) > 1:
                parts += [part[: len(part) // 2], part[len(part) // 2 :]]
        return counts, problem

    def close(self) -> None:
        """Add the operation's counterexample, if it has one, to the report."""
        if not self.worst:
            return
        report = self.check.report
        report.failing_operations += 1
        if self.check.recovery.guarantee.promised:
            self.check.tainted |= self.files
            report.failures.append(self.worst[""])
            return
        seen = {failure.kind for failure in report.failures}
        report.failures += [failure for kind, failure in self.worst.items() if kind not in seen]


_CODES = {FENCE: "the fence", FLUSH: "the flush", STORE: "the store", NTSTORE: "the store"}


def _lost(extent: Extent, count: int, sites: Mapping[int, str]) -> str:
    """Return text on an extent: address, number of lines, and the mechanism of the first lost store.

    A lost store without a write-back is preferred.
    """
    flushed = max(extent.flushed.values(), default=0)
    first = flushed if count < flushed < len(extent.writes) else count
    site = sites.get(extent.writes[first][0], "an earlier call")
    lines = (extent.high - extent.low) // LINE
    return f"{extent.low:#x} ({site}{f', {lines} lines' if lines > 1 else ''})"


def call_text(op: Any, paths: Sequence[str]) -> str:
    """Return an operation as text, e.g. write /a 4096+8192."""
    path = paths[op.file] if 0 <= op.file < len(paths) else "-"
    where = (
        f" {op.offset}+{op.length}" if op.op == WRITE or op.length else (f" {op.new_size}" if op.op == TRUNCATE else "")
    )
    return f"{OPS[op.op]} {path}{where}"


def rows(source: Any, prologue: Any) -> Iterator[tuple[int, Any]]:
    """Yield (number, array of one row) for every operation, first those before the trace, which have negative numbers."""
    for i in range(len(prologue)):
        yield i - len(prologue), prologue[i : i + 1]
    number = 0
    for batch in source.batches():
        for i in range(len(batch)):
            yield number, batch[i : i + 1]
            number += 1
