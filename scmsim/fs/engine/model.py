"""Driver of a file-system model: the one place that calls its kernels and makes the room that they request."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from scmsim.alloc import contiguity
from scmsim.core import registry, user_plugins
from scmsim.core.errors import ScmsimError, UsageError, shown
from scmsim.core.memory import expect_room
from scmsim.core.records import EVENT, OP, OPS, STAT, Files
from scmsim.core.text import shortened
from scmsim.core.units import is_whole
from scmsim.fs.engine import extents, paths

ROOM = 1 << 14  # events in flight
_IDLE = 1000  # most kernel calls in a row that only grow tables; far more than any model needs


class Model:
    """One file system, which turns operations into events.

    Parameters
    ----------
    fs : str
        Name of the file system (`scmsim list fs`).
    params : mapping
        All parameters of the file system, as integers and strings.
    files : Files
        Side table of the trace.
    room : int
        Events per buffer; the emitted events do not depend on it.
    """

    def __init__(self, fs: str, params: Mapping[str, Any], files: Files, room: int = ROOM) -> None:
        self.fs, self.module = fs, registry.load("fs", fs)
        try:
            self.state = self._call("start", params, files)
        except UsageError as error:
            raise UsageError(f"{fs}: {error}") from None
        if not hasattr(self.state, "record") or not hasattr(self.state, "arena"):
            raise UsageError(f"{fs}: its start() must return what new_state() makes, not {shown(self.state)}")
        self.paths = files.path
        self.kernel = params.get("kernel", getattr(self.module, "KERNEL", None))
        if walk := getattr(self.module, "PATH_WALK", self.kernel):
            paths.lay(self.state, files, str(walk), self.module.SITES)
        self.status = self.state.record.view(np.ndarray)  # attribute access of a recarray takes microseconds
        self.out = self.buffer(room)
        self.kinds = dict(self.module.SITES)  # mechanism -> purpose of the bytes that it stores
        self.mapped: Any = (
            None  # files that the program maps (scmsim.fs.mapping.driver.Mapped), if the model supports mappings
        )
        if hasattr(self.module, "mapped"):
            self.mapped = self.module.mapped(self, params, len(files))
            self.kinds |= self.mapped.SITES
        self.sites = list(self.kinds)
        self.short: dict[int, int] = {}  # writes of the last batch that were done in part: row -> bytes
        self.refused: list[int] = []  # rows of the last batch that ended with ENOSPC

    def events(self, batch: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the events of a batch of operations, one buffer at a time; each buffer overwrites the one before."""
        if batch.dtype != OP:
            raise TypeError(
                f"a batch must have the dtype records.OP, not {batch.dtype}; join arrays with records.joined"
            )
        operations, state, i = batch.view(np.ndarray), self.state, 0
        ours = self.mapped if self.mapped and self.mapped.begin(operations) else None
        self.short, self.refused, idle = {}, [], 0
        while i < len(operations) or self.status[0]["need_collect"]:
            before = i
            if self.status[0]["need_collect"]:
                self.module.collect(state.record, state.arena, self.out)
            elif ours:
                i = ours.emit(operations, i)
            else:
                i = self._call("emit", state.record, state.arena, operations, i, self.out)
            if refused := int(self.status[0]["refused"]):
                self.refused += self.status[0]["refused_rows"][:refused].tolist()
                self.status[0]["refused"] = 0
            if emitted := int(self.status[0]["emitted"]):
                yield self.out[:emitted]
            idle = 0 if i > before or emitted else idle + 1
            if idle > _IDLE:
                raise UsageError(
                    f"operation {i} on {self.fs}: {idle} calls of emit() in a row emitted no event and did not finish the "
                    "operation; let emit() return the next index, or request space (need_events, need_words)"
                )
            if self.status[0]["cut_to"]:
                operations = self._cut(operations, i)
            self.make_room(operations[min(i, len(operations) - 1)] if len(operations) else None)

    def done(self, batch: np.recarray) -> np.recarray:
        """Return the last batch as executed: a refused operation is a stat, a short write has the bytes that it wrote."""
        if not self.refused and not self.short:
            return batch
        batch = batch.copy()
        batch["length"][list(self.short)] = list(self.short.values())
        batch["op"][self.refused], batch["length"][self.refused] = STAT, 0
        return batch

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the model; turn a mistake in a user's file into a one-line UsageError."""
        try:
            return getattr(self.module, name)(*arguments)
        except ScmsimError:
            raise
        except Exception as error:
            mistake = user_plugins.mistake(error, registry.path("fs", self.fs))
            if mistake is None:
                raise
            raise UsageError(mistake) from error

    def _cut(self, operations: np.ndarray, i: int) -> np.ndarray:
        """Return the operations with the write in row `i` shortened to the length that the device has room for."""
        if not self.short:
            operations = operations.copy()
        self.short[i] = operations[i]["length"] = int(self.status[0]["cut_to"])
        self.status[0]["cut_to"] = 0
        return operations

    def make_room(self, op: np.void | None) -> None:
        """Grow the arena and the event buffer as the model requested; `op` is the operation (None between batches).

        Raises
        ------
        ScmsimError
            The memory is not available; the message names the operation.
        """
        status = self.status[0]
        try:
            if status["need_words"]:
                self.state.grow(int(status["need_words"]))
            if status["need_events"] > len(self.out):
                expect_room(int(status["need_events"]) * EVENT.itemsize, "its events")
                self.out = self.buffer(int(status["need_events"]))
        except ScmsimError as error:
            if op is None:
                raise
            path = self.paths[op["file"]] if op["file"] >= 0 else ""
            what = f"{OPS[op['op']]} of {shortened(path, 60)!r}" if path else OPS[op["op"]]
            raise type(error)(f"operation {int(status['seen'])} ({what}) on {self.fs}: {error}") from None

    def buffer(self, room: int) -> np.ndarray:
        """Return a buffer of `room` events."""
        return np.zeros(room, EVENT)

    def space(self) -> dict[str, int]:
        """Return the model's space report, with the contiguity of free space if its allocator reports it."""
        free = contiguity.of_model(self.state.record[0], self.state.arena)
        space = self._call("space", self.state)
        if not isinstance(space, dict) or not all(is_whole(value) for value in space.values()):
            raise UsageError(f"{self.fs}: its space() must return a table of whole numbers, not {shown(space)}")
        report: dict[str, int] = {**space, **(contiguity.of_runs(*free) if free else {})}
        if promised := report.get("promised_bytes", 0):
            # blocks promised to dirty pages come from free blocks, then from windows, then from the next commit
            lent = max(promised - report["free_bytes"], 0)
            report["free_bytes"] -= promised - lent
            report["preallocated_bytes"] -= min(lent, report["preallocated_bytes"])
        return report

    def extents(self) -> np.ndarray | None:
        """Return the extents of all files (`extents.EXTENT`), then those of free space; None if the model has none."""
        if not hasattr(self.module, "extents"):
            return None
        found = self._call("extents", self.state)
        if not isinstance(found, np.ndarray) or found.dtype != extents.EXTENT:
            raise UsageError(f"{self.fs}: its extents() must return an array of EXTENT, not {shown(found)}")
        return np.concatenate([found, extents.free(self.state.record[0], self.state.arena)])
