"""Define what every recovery model provides: a guarantee, the meaning of each store that a model emits, and the recovery.

A recovery model is the file `crash.py` of a family. It defines `SUMMARY`, `MODELS` (names of file-system models, a
literal) and either `NONE` (why there is nothing to check, a literal) or a class `RecoveryModel`.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from scmsim.core.records import FENCE, NTSTORE, RENAME, STORE
from scmsim.fs.recovery.expected import BROKEN, Found
from scmsim.fs.recovery.image import PAGE, Copy, Image, Word, Write
from scmsim.fs.recovery.observe import Event


class Unrecoverable(Exception):
    """Error of a recovery that cannot continue, because a record that other records depend on is damaged or missing."""

    def __init__(self, text: str, kind: str = BROKEN) -> None:
        super().__init__(text)
        self.kind = kind


class Guarantee(NamedTuple):
    """Promise of a file system.

    `atomic`: a call is atomic, including its data (else a crash may leave part of a write, and data torn into 8-byte
    words, but never a byte that was not written). `at_return`: the effect of a call is durable when the call returns
    (else when fsync returns). `content`: the promise covers the content of the pages. `promised`: False if the file system
    promises nothing, so that a deviation after a crash is counted but is not a failure. `delayed`: a size can become
    durable before the data below it (truncate and fallocate commit the size of data that is only in the page cache), so
    data that no fsync made durable may read as zeroes.
    """

    text: str
    atomic: bool
    at_return: bool
    content: bool = True
    promised: bool = True
    delayed: bool = False


ANY = -1  # value of `Known.op` for every operation


class Known(NamedTuple):
    """Known flaw of the file system: a call `op` (ANY: every call) breaks a promise if it loses a line of `site` ("": any).

    `applies(op)`: whether the flaw can concern the operation. `kind`: the only kind of error that it causes, if given.
    """

    op: int
    site: str
    text: str
    applies: Callable[[Any], bool] = lambda op: True
    kind: str = ""


Stores = list[list[Write | Copy]]
BY_SOURCE = (
    "not known: the model's order of stores follows the source that it names; where the two differ, the model is wrong"
)
RECONSTRUCTED = (
    "the model, as far as is known: its order of stores is a reconstruction from papers, as no source is public"
)


class RecoveryModel:
    """Base class of the recovery models.

    `now` has the newest value of every word, `base` the pages of each file as the recovery last found them without loss.
    """

    guarantee: Guarantee
    flaws: tuple[Known, ...] = ()
    blame: str = BY_SOURCE  # verdict without a known flaw
    unknown_why: str = ""  # why the recovery model leaves some pages out of the comparison
    op: Any = None  # the current operation; `succeeded`: whether it succeeded in the model
    succeeded: bool = True

    def __init__(self, fs: str, params: Mapping[str, Any], count: int, state: Any) -> None:
        self.fs, self.params, self.count, self.state = fs, params, count, state
        self.now: dict[Any, Any] = {}
        self.base: dict[int, dict[int, int]] = {}

    def to_blame(self, op: Any, lost: Sequence[str], kind: str) -> str:
        """Return the verdict on a broken promise of this kind: whether the file system or its model is to blame, if known."""
        for known in self.flaws:
            lines = not known.site or any(known.site in line for line in lost)
            if known.op in (ANY, op.op) and known.kind in ("", kind) and lines and known.applies(op):
                return f"the file system: {known.text}"
        return self.blame

    def interpret(self, op: Any, version: int, events: Sequence[Event]) -> Stores:
        """Return, for each event, the writes that the event represents (none for stores that the recovery does not read)."""
        raise NotImplementedError

    def put(self, addr: int, key: Hashable, value: Any) -> list[Word]:
        """Return the write of a word, and note its value in `now`."""
        self.now[key] = value
        return [Word(addr, key, value)]

    def put_changed(self, addr: int, key: Hashable, value: Any) -> list[Word]:
        """Return the write of a word as `put` does, or no write if the word has this value already."""
        return self.put(addr, key, value) if self.now.get(key) != value else []

    def recover(self, image: Image, file: int) -> Found:
        """Return the file as the recovery finds it; raise Unrecoverable if the recovery cannot continue."""
        raise NotImplementedError

    def physical(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the events at device addresses; a system with its own page table translates them here."""
        return events

    def settle(self, image: Image, file: int) -> Found:
        """Set a file's base to the state that the recovery finds in `image`, the certainly durable stores; return that state."""
        found = self.recover(image, file)
        pages = self.base.setdefault(file, {})
        for page, device in found.pages.items():
            if device is None:
                pages.pop(page, None)
            else:
                pages[page] = device
        return found._replace(pages={}, base=pages)


class Names:
    """Names of files, each known by the version (number of the operation) that stored it."""

    def __init__(self) -> None:
        self.current: dict[int, list[int]] = {}  # file -> versions of its current names, oldest first
        self.every: dict[int, list[int]] = {}  # file -> versions of all names that it ever had
        self.leaving: list[int] = []  # files whose names the current call may still remove, next first

    def begin(self, op: Any) -> None:
        """Begin a call; a rename first removes the name of the file that it replaces."""
        replaces = (
            op.op == RENAME and op.replaced >= 0 and op.replaced != op.file and self.current.get(int(op.replaced))
        )
        self.leaving = [int(op.replaced), int(op.file)] if replaces else [int(op.file)]

    def add(self, file: int, version: int) -> None:
        """Add a name of a file; `version` is the version that stored the name."""
        for names in (self.current, self.every):
            names.setdefault(file, []).append(version)

    def removed(self) -> int | None:
        """Remove the name that the call removes next, and return its version; None if no such name is known."""
        names = self.current.get(self.leaving.pop(0)) if self.leaving else None
        return names.pop() if names else None


def without_cache(events: Sequence[Event]) -> list[Event]:
    """Return the events with a fence after each store: a board without a cache stores in program order."""
    fence = Event(FENCE, "bus", 0, 1, 0)
    return [one for event in events for one in ([event, fence] if event.code == NTSTORE else [event])]


def has_ragged_ends(op: Any) -> bool:
    """Return whether a write begins or ends at an offset that is not a multiple of 8 bytes."""
    return (op.offset | (op.offset + op.length)) % 8 != 0


def with_cached_ends(events: Sequence[Event], sites: Collection[str]) -> list[Event]:
    """Split each non-temporal copy of the caller's bytes as __copy_user_nocache does, with cached stores to its ragged ends.

    Source: Linux 5.13 arch/x86/lib/copy_user_64.S: cached stores of bytes up to a multiple of 8, then non-temporal stores
    of 8-byte words and at most one 4-byte word, then cached stores of the remaining bytes.  A copy of less than 8 bytes is
    cached, except for at most one 4-byte word.  Simplified: a 4-byte word with bytes after it is cached too, because content
    is tracked in words of 8 bytes.
    """
    out: list[Event] = []
    for event in events:
        whole = (event.addr | event.length) % 8 == 0 or event.negated_page_bytes < 0
        if whole or event.code != NTSTORE or event.site not in sites:
            out.append(event)
            continue
        head = min(-event.addr & 7, event.length) if event.length >= 8 else 0
        rest = event.length - head
        past = rest if rest % 8 == 4 and (event.addr + head) % 4 == 0 else rest & ~7
        at = event.addr
        for code, length in ((STORE, head), (NTSTORE, past), (STORE, event.length - head - past)):
            if length:
                virtual = event.virtual + at - event.addr if event.virtual >= 0 else -1
                out.append(event._replace(code=code, addr=at, length=length, virtual=virtual))
            at += length
    return out


def copied(op: Any, events: Sequence[Event], site: str) -> list[tuple[int, int, int]]:
    """Return (event index, file offset, bytes) of each store of `site`; together the stores fill the call's range in order."""
    found, at, end = [], int(op.offset), int(op.offset + op.length)
    for i, event in enumerate(events):
        if event.site == site and event.code in (STORE, NTSTORE) and at < end:
            length = min(event.length, end - at)
            found.append((i, at, length))
            at += length
    return found


def placed(pieces: Sequence[tuple[int, int, int]], events: Sequence[Event]) -> dict[int, int]:
    """Return a map from each page of the file that the copies wrote to its device page."""
    pages = {}
    for i, offset, length in pieces:
        shift = events[i].addr - offset if events[i].virtual < 0 else events[i].virtual - offset
        for page in range(offset // PAGE, (offset + length - 1) // PAGE + 1):
            pages[page] = (page * PAGE + shift) // PAGE
    return pages


def source_of(events: Sequence[Event], i: int) -> int | None:
    """Return the address that store `i` copies from: the last load before it in its mechanism of the same length; None if none."""
    for k in range(i - 1, max(i - 4, -1), -1):
        if (
            events[k].site == events[i].site
            and events[k].code not in (STORE, NTSTORE)
            and events[k].length == events[i].length
        ):
            return events[k].addr
    return None
