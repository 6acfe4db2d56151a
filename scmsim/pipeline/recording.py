"""Write the accesses of a replay for other simulators: a stage that replaces the medium's stage and yields the same counts."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from scmsim import accesses
from scmsim.accesses.rows import Causes, rows_of
from scmsim.core.atomic import protected, writable
from scmsim.core.errors import UsageError
from scmsim.medium import recorded
from scmsim.pipeline.run import Replay
from scmsim.pipeline.stages import CounterIndex, Medium
from scmsim.result import Run


class Target:
    """The file to which the accesses of a replay are written.

    Raises UsageError for several file systems, an unknown format, or a file that cannot be written or is one of `inputs`.
    """

    def __init__(
        self, path: "str | os.PathLike[str]", form: str | None, names: Sequence[str], inputs: Iterable[str]
    ) -> None:
        self.path, self.form, self.inputs = path, accesses.form_of(path, form), list(inputs)
        self.counts: dict[str, int] = {}
        if len(names) > 1:
            raise UsageError(
                f"accesses are those of one file system, not of {len(names)} ({', '.join(names)}); choose one with fs (--fs)"
            )
        with protected(self.inputs):
            writable(path)

    def run(self, replay: Replay, header: Mapping[str, Any], *arguments: Any) -> Run:
        """Run the replay with `arguments` and write its accesses; `header` is their provenance."""
        with (
            protected(self.inputs),
            accesses.writing(self.path, self.form, replay.model.sites, header) as writer,
        ):
            replay.take_medium(
                RecordedMedium(replay.medium_table, [*replay.model.kinds.values()], replay.counting, writer)
            )
            run = replay.run(*arguments)
        self.counts = writer.counts
        if not any(self.counts.values()):
            run.warnings.append(
                f"{os.fspath(self.path)!r} is empty: no access of {run.fs} reaches persistent memory; .champsim and .parquet "
                "have those to DRAM, too"
            )
        return run


class RecordedMedium(Medium):
    """A memory medium that passes each of its accesses and write-backs to a writer."""

    def __init__(
        self, table: Mapping[str, Any], kinds: Sequence[str], counting: CounterIndex, writer: accesses.Writer
    ) -> None:
        super().__init__(table, kinds, counting)
        self.state = recorded.start(list(kinds), table["buffer"]).view(np.ndarray)
        self.writer = writer
        self.first = self.next = 0  # numbers of the first operation of this batch and of the next batch
        self.threads = np.zeros(0, np.int64)

    def begin(self, batch: np.recarray) -> None:
        self.first, self.next, self.threads = self.next, self.next + len(batch), batch.thread

    def take(self, events: np.ndarray, bins: np.ndarray) -> None:
        counters = self.counting.counters
        for part, event, first, end in recorded.simulate(self.state, counters, events, bins):
            some = events[part]
            operations = some["op"].astype(np.int64)
            causes = Causes(self.first + operations, self.threads[operations], bins[part] == len(counters) - 1)
            self.writer.add(rows_of(some, (event, first, end), causes))
