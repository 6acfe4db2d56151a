"""Convert the files that a guest read after a crash to states that can be compared with the guarantee."""

from typing import Any

import numpy as np

from scmsim.core.records import TRUNCATE, WRITE
from scmsim.crash._history import History
from scmsim.fs.recovery.expected import FileState, Found, labels
from scmsim.fs.recovery.image import GARBAGE, PAGE, VERSION_SHIFT, WORD, WORDS, Image, label_of
from scmsim.lab.persistence import Name, Recording, SeenFile

FIRST = 1  # version of the state before the first operation; operation k is version k + 2
_MOST_DEPTH = 48


class Names:
    """All names that were given in the guest, each with its file, the version that gave it, and its paths."""

    def __init__(self, recording: Recording) -> None:
        self._of: dict[int, list[tuple[int, Name, int]]] = {}  # file -> version, name, inode
        for file, (name, inode) in enumerate(recording.first):
            if inode:
                self._of.setdefault(file, []).append((FIRST, name, inode))
        for number, (name, inode) in enumerate(recording.names):
            if inode:
                file = int(recording.operations["file"][number])
                self._of.setdefault(file, []).append((number + FIRST + 1, name, inode))
        self.by_file = {
            file: [(version, path, inode) for version, name, inode in given for path in self._paths(name, 0)]
            for file, given in self._of.items()
        }
        self._owners: dict[tuple[str, int], list[int]] = {}  # path, inode -> files, in the order of their numbers
        for file, named in self.by_file.items():
            for _, path, inode in named:
                if file not in self._owners.setdefault((path, inode), []):
                    self._owners[path, inode].append(file)
        self._files = recording.operations["file"]
        self.paths = sorted({path for given in self.by_file.values() for _, path, _ in given})
        self.number = {path: k for k, path in enumerate(self.paths)}

    def _paths(self, name: Name, depth: int) -> list[str]:
        if name.parent < 0 or depth > _MOST_DEPTH:
            return [f"/mnt/{name.leaf}"]
        above = {path for _, parent, _ in self._of.get(name.parent, []) for path in self._paths(parent, depth + 1)}
        return [f"{path}/{name.leaf}" for path in sorted(above)]

    def seen(self, file: int, files: tuple[SeenFile, ...]) -> tuple[tuple[str, SeenFile], ...]:
        """Return (path, file found there) for each path that ever led to a file."""
        paths = dict.fromkeys(path for _, path, _ in self.by_file.get(file, []))
        return tuple((path, files[self.number[path]]) for path in paths)

    def found(self, file: int, seen: tuple[tuple[str, SeenFile], ...], history: History) -> frozenset[int]:
        """Return the versions of the names that a file has; of two versions that gave the same path, the expected one."""
        wanted = {version for state in history.allowed(file).states for version in state.names}
        names = set()
        for path, one in seen:
            versions = [v for v, other, inode in self.by_file[file] if other == path and inode == one.inode and inode]
            if versions and self._owner(path, one, history) == file:
                names.add(max([version for version in versions if version in wanted] or versions))
        return frozenset(names)

    def file_at(self, number: int, inode: int, paths: list[str]) -> str:
        """Return the trace's path for one of `self.paths`, or for the root, which follows them."""
        if number == len(self.paths):
            return "/"
        files = self._owners.get((self.paths[number], inode)) or [
            file for (path, _), owners in self._owners.items() if path == self.paths[number] for file in owners
        ]
        return paths[files[-1]]

    def shared(self, file: int) -> bool:
        """Return whether another file had one of the file's names, with the same inode."""
        return any(len(self._owners[path, inode]) > 1 for _, path, inode in self.by_file[file])

    def _owner(self, path: str, one: SeenFile, history: History) -> int:
        """Return the file at a path.

        If several files had this inode and name, prefer one whose data was found, then one that may exist.
        """
        files = self._owners[path, one.inode]
        if len(files) == 1:
            return files[0]
        writers = {self._writer(word >> VERSION_SHIFT) for word, _ in one.runs if word}
        told = [file for file in files if file in writers]
        expected = [file for file in files if any(state.names for state in history.allowed(file).states)]
        return (told or expected or files)[-1]

    def _writer(self, version: int) -> int:
        number = version - FIRST - 1
        return int(self._files[number]) if 0 <= number < len(self._files) else -1


class Words:
    """8-byte words that operations wrote only in part: their content, and their label in the comparison."""

    def __init__(self, versions: int) -> None:
        self.versions = versions
        self._known: dict[int, dict[int, list[tuple[bytes, int]]]] = {}  # file -> word -> content, label

    def take(self, op: Any, version: int, before: FileState) -> None:
        """Record the words that an operation writes in part; `before` is the file's state before the operation."""
        if op.op == WRITE and op.length > 0:
            stop = int(op.offset + op.length)
            for word in {int(op.offset) // WORD} | ({stop // WORD} if stop % WORD else set()):
                low, high = max(word * WORD, int(op.offset)), min(word * WORD + WORD, stop)
                if high - low < WORD:
                    label = label_of(version, word * WORD)
                    self._mix(int(op.file), word, low, high, _raw(label), label, before)
        elif op.op == TRUNCATE and op.new_size % WORD:
            word = int(op.new_size) // WORD
            label = _label(before, word)
            if label >= 0:
                self._mix(int(op.file), word, int(op.new_size), word * WORD + WORD, bytes(WORD), label, before)

    def _mix(self, file: int, word: int, low: int, high: int, by: bytes, label: int, before: FileState) -> None:
        known = self._known.setdefault(file, {}).setdefault(word, [])
        old = _label(before, word)
        for raw in {_raw(old), *(raw for raw, of in known if of == old)}:
            new = raw[: low - word * WORD] + by[low - word * WORD : high - word * WORD] + raw[high - word * WORD :]
            if (new, label) not in known:
                known.append((new, label))

    def normal(self, file: int, words: np.ndarray, size: int, states: list[FileState]) -> np.ndarray:
        """Return the labels of the words that were read."""
        found = words.view(np.int64).copy()
        known = self._known.get(file, {})
        last = size // WORD
        for word in known.keys() | ({last} if size % WORD else set()):
            if word >= len(found):
                continue
            valid = min(WORD, size - word * WORD)
            raw = found[word].tobytes()[:valid]
            options = [*known.get(word, []), *((_raw(label), label) for label in _expected(states, word))]
            match = [label for content, label in options if content[:valid] == raw]
            found[word] = max(match) if match else found[word]
        version = found >> VERSION_SHIFT
        found[(found != 0) & ((version < FIRST) | (version > self.versions))] = GARBAGE
        return found


def _raw(label: int) -> bytes:
    return int(max(label, 0)).to_bytes(WORD, "little")


def _label(state: FileState, word: int) -> int:
    label = labels(state, word * WORD // PAGE)
    return int(label[word % WORDS]) if isinstance(label, np.ndarray) else int(label)


def _expected(states: list[FileState], word: int) -> set[int]:
    return {_label(state, word) for state in states} | {0}


def as_found(names: frozenset[int], one: SeenFile | None, words: np.ndarray) -> tuple[Found, Image]:
    """Return a file for the comparison, in which page p of the file is page p of the image."""
    image, size = Image(), 0 if one is None or one.directory else one.length
    pages: dict[int, int | None] = {}
    for page in range(-(-size // PAGE)):
        part = words[page * WORDS : (page + 1) * WORDS]
        whole = np.zeros(WORDS, np.int64)
        whole[: len(part)] = part
        image.pages[page] = int(whole[0]) if (whole == whole[0]).all() else whole
        pages[page] = page
    return Found(names, size, pages, {}), image


def words_of(one: SeenFile) -> np.ndarray:
    """Return the 8-byte words that the guest read from a file."""
    if not one.runs:
        return np.zeros(0, np.uint64)
    runs = np.array(one.runs, np.uint64)
    return np.repeat(runs[:, 0], runs[:, 1].astype(np.int64))
