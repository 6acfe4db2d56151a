"""Model which states of its files a program must accept after a crash, derived from the states that its POSIX calls leave.

Units: bytes, pages of 4096 bytes. A version is the number of the operation that wrote the data; a name is represented by
the number of the operation that created it.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from scmsim.core import records as r
from scmsim.fs.recovery.image import ABSENT, PAGE, VERSION_SHIFT, WORD, WORDS, ZERO, Image, Label, label_of

MASK = (1 << VERSION_SHIFT) - 1
MOST_SHOWN = 512  # maximum number of pages compared where a file grows without a write


class FileState(NamedTuple):
    """State of a file as the program sees it."""

    names: frozenset[int] = frozenset()
    size: int = 0
    pages: dict[int, Label] = {}  # a missing page reads as zeroes


class Found(NamedTuple):
    """State of a file as the recovery finds it: `pages` maps its pages to those of the device, on top of `base`.

    `unknown` are pages that the recovery model cannot check, because the model departs from the file system for them.
    """

    names: frozenset[int]
    size: int
    pages: dict[int, int | None]
    base: dict[int, int]
    unknown: frozenset[int] = frozenset()

    def at(self, page: int) -> int | None:
        """Return the device page of a page of the file, or None for a hole."""
        return self.pages[page] if page in self.pages else self.base.get(page)


class Wrong(NamedTuple):
    """Error found in a file: its kind (one of the constants below) and a description."""

    kind: str
    text: str


NAME, SIZE, UNWRITTEN, DATA = "lost or stale names", "wrong sizes", "bytes never written", "lost or stale data"
SHARED, HALVED, BROKEN = "pages in two files", "halves of a rename", "broken metadata"


class Files:
    """Files after each operation; `changed` has the pages of each file that the last operation touched."""

    def __init__(self) -> None:
        self.now: dict[int, FileState] = {}
        self.changed: dict[int, set[int]] = {}

    def of(self, file: int) -> FileState:
        """Return a file's state."""
        return self.now.get(file, FileState())

    def apply(self, op: Any, version: int) -> None:
        """Apply one operation that succeeded."""
        self.changed = {int(op.file): set()} if op.file >= 0 else {}
        if op.file < 0:
            return
        code, file = int(op.op), int(op.file)
        old = self.of(file)
        if code in (r.CREATE, r.MKDIR):
            if not old.names:
                self._put(file, FileState(frozenset({version})))
        elif code == r.WRITE and op.length > 0:
            self._write(file, int(op.offset), int(op.length), version)
        elif code == r.TRUNCATE:
            self._truncate(file, int(op.new_size))
        elif code == r.FALLOCATE and op.length > 0 and not op.flag & (r.PUNCH_HOLE | r.KEEP_SIZE):
            self._put(file, old._replace(size=max(old.size, int(op.offset + op.length))))
            self.changed[file] = shown(old.size, int(op.offset + op.length))
        elif code in (r.UNLINK, r.RMDIR):
            self._put(file, old._replace(names=without_newest(old.names)))
        elif code == r.LINK:
            self._put(file, old._replace(names=old.names | {version}))
        elif code == r.RENAME:
            if op.replaced >= 0 and op.replaced != op.file:
                other = self.of(int(op.replaced))
                self._put(int(op.replaced), other._replace(names=without_newest(other.names)))
            self._put(file, old._replace(names=without_newest(old.names) | {version}))

    def _put(self, file: int, state: FileState) -> None:
        self.now[file] = state
        self.changed.setdefault(file, set())

    def _write(self, file: int, offset: int, length: int, version: int) -> None:
        old = self.of(file)
        pages = dict(old.pages)
        first, last = offset // PAGE, (offset + length - 1) // PAGE
        for page in range(first, last + 1):
            low, high = max(offset - page * PAGE, 0), min(offset + length - page * PAGE, PAGE)
            pages[page] = overwritten(pages.get(page, ZERO), low, high, label_of(version, page * PAGE))
        self._put(file, old._replace(size=max(old.size, offset + length), pages=pages))
        self.changed[file] = set(range(first, last + 1))

    def _truncate(self, file: int, size: int) -> None:
        old = self.of(file)
        last = -(-size // PAGE)
        pages = {page: label for page, label in old.pages.items() if page < last}
        if size % PAGE and last - 1 in pages:
            pages[last - 1] = overwritten(pages[last - 1], -(-(size % PAGE) // WORD) * WORD, PAGE, ZERO)
        self._put(file, old._replace(size=size, pages=pages))
        self.changed[file] = set(old.pages) - set(pages) | {last - 1} | shown(old.size, size)


def shown(old: int, new: int) -> set[int]:
    """Return the first pages that become visible when a file grows without a write."""
    return set(range(old // PAGE, min(-(-new // PAGE), old // PAGE + MOST_SHOWN)))


def without_newest(names: frozenset[int]) -> frozenset[int]:
    """Return the names of a file without its newest name."""
    return names - {max(names)} if names else names


def overwritten(label: Label, low: int, high: int, by: int) -> Label:
    """Return the label of a page after its bytes [low, high) were written or cleared."""
    first, stop = low // WORD, -(-high // WORD)
    if stop - first == WORDS:
        return by
    if first >= stop:
        return label
    new = label.copy() if isinstance(label, np.ndarray) else np.full(WORDS, label, np.int64)
    new[first:stop] = by
    return new


@dataclass
class Allowed:
    """States in which a crash may leave one file.

    The file must equal one of `states`. If `torn`, it may mix them: the names of one state, a size between the sizes of
    all states, and each word from any state. If `delayed`, a word past the end of a state may also read as zeroes.
    """

    states: list[FileState]
    torn: bool = False
    cleared: dict[int, int] = field(default_factory=dict)  # torn: page -> first word that a truncate may have cleared
    skipped: int = 0  # operations before the trace's first, for messages
    delayed: bool = False  # `Guarantee.delayed`

    def wrong(self, found: Found, image: Image, pages: set[int]) -> Wrong | None:
        """Return the error of the file, or None if its state is allowed; compare the content of `pages`."""
        wrongs = []
        kinds = sorted(
            {(state.names, state.size) for state in self.states}, key=lambda kind: (sorted(kind[0]), kind[1])
        )
        if not found.names and any(not names for names, _ in kinds):
            return None
        sizes = [size for names, size in kinds if names == found.names]
        between = self.torn and sizes and min(sizes) <= found.size <= max(sizes)
        if found.size not in sizes and not between:
            return self._other_kind(found, kinds)
        matching = [state for state in self.states if (state.names, state.size) == (found.names, found.size)]
        for states in [self.states] if self.torn else [[state] for state in matching]:
            wrong = self._content(found, image, pages, states)
            if wrong is None:
                return None
            wrongs.append(wrong)
        # report the mismatch with the newest state, unless a byte was never written: that is wrong in every state
        return next((wrong for wrong in wrongs if wrong.kind == UNWRITTEN), wrongs[-1])

    def _content(self, found: Found, image: Image, pages: set[int], states: list[FileState]) -> Wrong | None:
        for page in sorted(pages - found.unknown):
            words = min(-(-(found.size - page * PAGE) // WORD), WORDS)
            if words <= 0:
                continue
            device = found.at(page)
            label = ZERO if device is None else image.page(device)
            wanted = [labels(state, page) for state in states]
            if isinstance(label, int) and words == WORDS and any(isinstance(w, int) and w == label for w in wanted):
                continue
            have = np.broadcast_to(label, WORDS)[:words]
            good = np.zeros(words, bool)
            for want in wanted:
                good |= have == np.broadcast_to(want, WORDS)[:words]
            # An append may have begun after the end, in the same word.
            if page == found.size // PAGE and found.size % WORD:
                longer = [labels(state, page) for state in self.states if state.size > found.size]
                good[-1] |= any(have[-1] == np.broadcast_to(label, WORDS)[words - 1] for label in longer)
            if self.delayed:
                past = [np.broadcast_to(want, WORDS)[:words] == ABSENT for want in wanted]
                good |= np.any(past, axis=0) & (have == ZERO)
            if self.torn and page in self.cleared:
                good[self.cleared[page] :] |= have[self.cleared[page] :] == ZERO
            if not good.all():
                word = int(np.argmin(good))
                expected = " or ".join(dict.fromkeys(self._said(int(np.broadcast_to(w, WORDS)[word])) for w in wanted))
                hole = ", a hole" if device is None else ""
                text = (
                    f"byte {page * PAGE + word * WORD} holds {self._said(int(have[word]))}{hole}, expected {expected}"
                )
                return Wrong(UNWRITTEN if have[word] < 0 else DATA, text)
        return None

    def _said(self, label: int) -> str:
        if label == ABSENT:
            return "nothing (after the end)"
        if label < 0:
            return "bytes never written"
        return "zeroes" if label == ZERO else f"page {label & MASK} {self._of(label >> VERSION_SHIFT)}"

    def _of(self, version: int) -> str:
        number = version - 1 - self.skipped
        return f"of operation {number}" if number >= 0 else "from before the trace"

    def _other_kind(self, found: Found, kinds: list[tuple[frozenset[int], int]]) -> Wrong:
        if found.names not in [names for names, _ in kinds]:
            want = " or ".join(dict.fromkeys(self._named(names) for names, _ in kinds))
            return Wrong(NAME, f"has {self._named(found.names)}, expected {want}")
        sizes = sorted({size for names, size in kinds if names == found.names})
        return Wrong(SIZE, f"has {found.size} bytes, expected {' or '.join(map(str, sizes))}")

    def _named(self, names: frozenset[int]) -> str:
        return " and ".join(f"the name {self._of(name)}" for name in sorted(names)) or "no name"


def labels(state: FileState, page: int) -> Label:
    """Return the label of a page of a file; words after the file's end are ABSENT."""
    words = -(-(state.size - page * PAGE) // WORD)
    if words >= WORDS:
        return state.pages.get(page, ZERO)
    if words <= 0 or not state.names:
        return ABSENT
    label = np.array(np.broadcast_to(state.pages.get(page, ZERO), WORDS))
    label[words:] = ABSENT
    return label
