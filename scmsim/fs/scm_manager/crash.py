"""Recover the SCM manager: every store goes to SCM at once, in program order, so the last store decides what a crash leaves.

Units: bytes, data objects of 512 bytes.
Source: SCM manager paper, sections 4.2 and 5.1 (chains of objects; copies word by word, no cache); a reconstruction.

The paper does not describe a recovery. This one reads the directory's entries, their metadata objects and, up to the
size in the latter, the chain of data objects. A write in place may leave torn bytes, so the check is whether a size
covers only bytes that arrived before it.
"""

from collections.abc import Sequence
from typing import Any

from scmsim.core import records
from scmsim.core.errors import UsageError
from scmsim.core.records import NTSTORE
from scmsim.fs.recovery.expected import Found
from scmsim.fs.recovery.image import Image, Mark, Word
from scmsim.fs.recovery.model import RECONSTRUCTED, Guarantee, Names, Stores, Unrecoverable, without_cache
from scmsim.fs.recovery.model import RecoveryModel as Base
from scmsim.fs.recovery.observe import Event
from scmsim.fs.scm_manager.templates import OBJECT, WORD

SUMMARY = (
    "scm-manager: uncached stores in program order: a metadata object before its name, chain and data before their size"
)
MODELS = ("scm-manager",)

UNIT = 512
GUARANTEE = Guarantee(
    "names and sizes are whole and durable at return, a size never ahead of its chain and data; data in place may be torn",
    True,
    True,
    content=False,
)


class RecoveryModel(Base):
    """Recovery model of the SCM manager.

    It reads entries and sizes as words of the image, and counts how many bytes that a call linked, cleared or copied have arrived.
    """

    guarantee = GUARANTEE
    blame = RECONSTRUCTED

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.names = Names()
        self.born: dict[int, int] = {}  # file -> version (number of the operation) that created its metadata object
        self.size: dict[int, int] = {}
        self.units: dict[int, int] = {}  # file -> data objects in its chain
        # Version -> bytes that must be stored before its size is valid: chain entries, cleared bytes and data.
        self.stored: dict[int, int] = {}
        # File -> first data object that its last truncate freed, version.
        self.cuts: dict[int, tuple[int, int]] = {}

    def physical(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the events with a fence after each store, because the board has no cache before SCM."""
        return without_cache(events)

    def interpret(self, op: Any, version: int, events: Sequence[Event]) -> Stores:
        """Return, for each event, the writes that the event represents; raise UsageError for operations that are not checked."""
        if op.op >= records.MALLOC or op.op in (records.ULOAD, records.USTORE, records.LINK):
            raise UsageError(
                f"{records.OPS[op.op]!r}: memory objects and links are not checked for 'scm-manager'; leave them out of the trace"
            )
        self.op, self.version, self.file, self.entered = op, version, int(op.file), False
        self.names.begin(op)
        handlers: dict[str, Any] = {"directory": self._directory, "inode": self._inode, "allocation": self._chain}
        handlers |= dict.fromkeys(("data copy", "zeroing"), self._bytes)
        return [
            handlers[event.site](event) if event.code == NTSTORE and event.site in handlers else [] for event in events
        ]

    def _resizes(self) -> bool:
        return (
            self.op.op in (records.WRITE, records.TRUNCATE)
            or self.op.op == records.FALLOCATE
            and not self.op.flag & records.KEEP_SIZE
        )

    def _shrinks(self) -> bool:
        return bool(self.op.op == records.TRUNCATE and self.op.new_size < self.size.get(self.file, 0))

    def _bytes(self, event: Event) -> list[Mark]:
        if self._shrinks():
            return []
        self.stored[self.version] = self.stored.get(self.version, 0) + event.length
        return [Mark(event.addr, event.length, ("stored", self.version))]

    def _chain(self, event: Event) -> list[Mark]:
        """Return the writes of a file's chain entries as data objects are linked or freed; ignore a directory's."""
        entries = event.length // WORD
        if self._shrinks():
            left = -(-int(self.op.new_size) // UNIT)
            self.cuts[self.file] = left, self.version
            self.units[self.file] = left
            return [Mark(event.addr, event.length, ("given back", self.version))]
        if not self._resizes() and not (self.op.op == records.CREATE and self.entered):
            return []
        self.units[self.file] = self.units.get(self.file, 0) + entries - (self.units.get(self.file, 0) > 0)
        return self._bytes(event)

    def _directory(self, event: Event) -> list[Word]:
        if self.op.op in (records.CREATE, records.MKDIR) or not self.names.leaving:
            self.entered = True
            self.names.add(self.file, self.version)
            return [Word(event.addr, ("entry", self.version), True)]
        name = self.names.removed()
        return [] if name is None else [Word(event.addr, ("entry", name), False)]

    def _inode(self, event: Event) -> list[Word | Mark]:
        if event.length == OBJECT:
            self.born[self.file], self.size[self.file], self.units[self.file] = self.version, 0, 0
            self.cuts.pop(self.file, None)
            empty = Word(event.addr, ("size", self.file), (0, 0))
            return [empty, Mark(event.addr, OBJECT, ("object", self.version))]
        if not self._resizes():
            return []
        end = int(self.op.offset + self.op.length)
        shrinks = self._shrinks()
        self.size[self.file] = (
            int(self.op.new_size) if self.op.op == records.TRUNCATE else max(self.size.get(self.file, 0), end)
        )
        by = 0 if shrinks else self.version
        return [Word(event.addr, ("size", self.file), (self.size[self.file], by))]

    def recover(self, image: Image, file: int) -> Found:
        """Return the file as the recovery finds it; raise Unrecoverable if the recovery cannot continue."""
        names = frozenset(version for version in self.names.every.get(file, []) if image.word(("entry", version)))
        if not names:
            return Found(names, 0, {}, {})
        if image.marked(("object", self.born[file])) < OBJECT:
            raise Unrecoverable("has a name but no metadata object")
        size, version = image.word(("size", file), (0, 0))
        if image.marked(("stored", version)) < self.stored.get(version, 0):
            raise Unrecoverable("its size covers data objects or bytes that were not stored before the crash")
        first, cut = self.cuts.get(file, (0, -1))
        if version < cut and size > first * UNIT and image.marked(("given back", cut)):
            raise Unrecoverable(f"its size covers data object {first}, which a truncate has freed")
        return Found(names, size, {}, {})
