"""Compare the states of files after crashes on a kernel with those on the model of the same name.

A file's state consists of the operations that gave its names, its size, and for each page the operations that wrote its words.
Operation -1 is before the trace.  The names, and each page, are compared together with the size, but not with each other, because
which pages arrive together is random.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from scmsim.core.records import Source
from scmsim.crash import recovery_model_of
from scmsim.crash._check import Check, rows
from scmsim.crash._report import Plan
from scmsim.fs.engine.model import Model
from scmsim.fs.recovery.expected import FileState, Found, Wrong
from scmsim.fs.recovery.image import PAGE, VERSION_SHIFT, WORD, WORDS, ZERO, Image, Label
from scmsim.fs.recovery.model import Unrecoverable
from scmsim.fs.recovery.observe import prologue
from scmsim.pipeline import model_params

NOT_KNOWN, NEVER_WRITTEN, ZEROES = -4, -3, -2  # NOT_KNOWN: a page that the recovery model does not cover


class Outcome(NamedTuple):
    """The state of a file after a crash."""

    names: tuple[int, ...]
    size: int
    pages: tuple[tuple[int, ...], ...]

    def parts(self) -> "set[Part]":
        """Return the parts that are compared."""
        pages = {(page, (*numbers, self.size)) for page, numbers in enumerate(self.pages)}
        return {(-1, (*self.names, self.size)), *pages}


Outcomes = dict[tuple[int, int], set[Outcome]]  # (operation, file) -> the states that were found
Part = tuple[int, tuple[int, ...]]  # page, or -1 for the names; the operations, and the file's size


class Difference(NamedTuple):
    """The differences between kernel and model in the outcomes of one file after crashes in one operation."""

    operation: int
    file: int
    both: int
    kernel_only: list[Part]
    model_only: list[Part]


def text(part: Part) -> str:
    """Return a part of an outcome as text: name or page, the operations that stored it, and the file's size in bytes.

    Examples: "name of 3, 8,192 bytes" (stored by operation 3), "page 2 of 1 and zeroes, 8,192 bytes".
    """
    page, (*numbers, size) = part
    if not numbers:
        return "no name"
    return f"{f'page {page}' if page >= 0 else 'name'} of {' and '.join(map(_said, numbers))}, {size:,} bytes"


def _said(number: int) -> str:
    names = {-1: "before", ZEROES: "zeroes", NEVER_WRITTEN: "bytes never written", NOT_KNOWN: "not known"}
    return names.get(number, str(number))


def outcome_of(found: Found, image: Image, skipped: int) -> Outcome:
    """Return the outcome of a recovered file; `skipped` is the number of versions before the trace's first operation."""
    if not found.names:
        return Outcome((), 0, ())
    names = names_of(found.names, skipped)
    pages: list[tuple[int, ...]] = []
    for page in range(-(-found.size // PAGE)):
        if page in found.unknown:
            pages.append((NOT_KNOWN,))
            continue
        device = found.at(page)
        label = ZERO if device is None else image.page(device)
        pages.append(_operations(label, min(WORDS, -(-(found.size - page * PAGE) // WORD)), skipped))
    return Outcome(names, found.size, tuple(pages))


def names_of(versions: Iterable[int], skipped: int) -> tuple[int, ...]:
    """Return the operations that gave names."""
    return tuple(sorted(max(-1, version - 1 - skipped) for version in versions))


def _operations(label: Label, words: int, skipped: int) -> tuple[int, ...]:
    found = np.unique(np.broadcast_to(label, WORDS)[:words])
    numbers = {
        ZEROES if one == ZERO else NEVER_WRITTEN if one < 0 else max(-1, (int(one) >> VERSION_SHIFT) - 1 - skipped)
        for one in found.tolist()
    }
    return tuple(sorted(numbers))


class _Observed(Check):
    """A check of a model that records outcomes instead of comparing them with the guarantee."""

    operation_number = -1

    def operation(self, row: np.recarray, number: int) -> None:
        self.operation_number = number
        super().operation(row, number)

    def problem(self, image: Image, before: dict[int, FileState]) -> tuple[int, Wrong] | None:
        """Record the outcome of every file; report no violation."""
        for file in self.files.now:
            try:
                found = self.recovery.recover(image, file)
            except Unrecoverable:
                continue
            self.seen.setdefault((self.operation_number, file), set()).add(outcome_of(found, image, self.skipped))
        return None

    seen: Outcomes


def against_model(
    kernel: Outcomes, source: Source, fs: str, params: dict[str, str], lines: int, samples: int, seed: int
) -> list[Difference]:
    """Return the differences between kernel and model, for each operation and file with crash points on both."""
    model = _of_model(source, fs, params, lines, samples, seed)
    found = []
    for operation, file in sorted(kernel.keys() & model.keys()):
        ours = {part for outcome in kernel[operation, file] for part in outcome.parts()}
        theirs = {part for outcome in model[operation, file] for part in outcome.parts()}
        unknown = {page for page, numbers in theirs if page >= 0 and numbers[0] == NOT_KNOWN}
        alone, missing = (
            sorted(part for part in parts if part[0] not in unknown) for parts in (ours - theirs, theirs - ours)
        )
        found.append(Difference(operation, file, len(ours & theirs), alone, missing))
    return found


def _of_model(source: Source, fs: str, params: dict[str, Any], lines: int, samples: int, seed: int) -> Outcomes:
    files, before = prologue(source)
    given = model_params("fs", fs, params)
    model = Model(fs, given, files)
    work = _Observed(
        model, recovery_model_of(fs)(fs, given, len(files), model.state), files.path, len(before),
        Plan(0, 1 << 62, lines, samples, seed, 1 << 30),
    )  # fmt: skip
    work.seen = {}
    for number, row in rows(source, before):
        work.operation(row, number)
    return work.seen
