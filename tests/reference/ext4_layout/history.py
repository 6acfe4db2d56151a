"""Histories of file operations as lines of text, and what the reference makes of them.

    create FD PATH | open FD PATH | close FD | write FD OFFSET LENGTH | read FD OFFSET LENGTH | truncate FD SIZE
    fallocate FD OFFSET LENGTH KEEP_SIZE | punch FD OFFSET LENGTH | fsync FD | sync
    unlink PATH | mkdir PATH | rename PATH PATH

FD: a number that represents a descriptor.  Paths start with "/".
"""

from collections.abc import Sequence

from tests.reference.ext4_layout.cached import CachedLayout
from tests.reference.ext4_layout.directory import Directory
from tests.reference.ext4_layout.file import File
from tests.reference.ext4_layout.inodes import NoInodeLeft
from tests.reference.ext4_layout.layout import Ext4Layout
from tests.reference.ext4_layout.mballoc import NoSpaceLeft
from tests.reference.ext4_layout.mkfs import DEFAULT_FEATURES, Mkfs

Shown = tuple[int, int, list[tuple[int, int, int, int]]]  # inode, bytes, (logical, physical, length, unwritten)


class NoFile(Exception):
    """Error of a call on a file that could not be created before."""


class Replay:
    """A file system that histories are replayed on, with names and descriptors."""

    def __init__(self, options: Mkfs, cached: bool = False, release: tuple[int, int] = (6, 1)) -> None:
        self.layout = (CachedLayout if cached else Ext4Layout)(options, release=release)
        self.files: dict[str, File] = {"/": self.layout.root}
        self.descriptors: dict[int, File] = {}
        self.short: list[str] = []  # lines that did not do all that they should

    def run(self, lines: Sequence[str]) -> None:
        """Replay lines in order."""
        for line in lines:
            word, *rest = line.split()
            try:
                whole = getattr(self, f"_{word}")(*rest) is not False
            except (NoFile, NoInodeLeft, NoSpaceLeft):
                whole = False
            if not whole:
                self.short.append(line)

    def show(self, path: str) -> Shown | None:
        """Return a file's (inode, bytes, extents) as stat and FIEMAP show them; None if there is no such file."""
        if path not in self.files:
            return None
        file = self.files[path]
        extents = [(logical, at, length, int(unwritten)) for logical, at, length, unwritten in self.layout.fiemap(file)]
        return file.number, file.size, extents

    def _place(self, path: str) -> tuple[Directory, str]:
        parent, _, name = path.rpartition("/")
        return self._file(parent or "/"), name

    def _file(self, path: str) -> File:
        if path not in self.files:
            raise NoFile
        return self.files[path]

    def _opened(self, descriptor: str) -> File:
        if int(descriptor) not in self.descriptors:
            raise NoFile
        return self.descriptors[int(descriptor)]

    def _create(self, descriptor: str, path: str) -> None:
        self.descriptors.pop(int(descriptor), None)
        self.files[path] = self.descriptors[int(descriptor)] = self.layout.create(*self._place(path))

    def _open(self, descriptor: str, path: str) -> None:
        self.descriptors.pop(int(descriptor), None)
        self.layout.open(self._file(path))
        self.descriptors[int(descriptor)] = self.files[path]

    def _close(self, descriptor: str) -> None:
        self.layout.close(self._opened(descriptor))
        del self.descriptors[int(descriptor)]

    def _write(self, descriptor: str, offset: str, length: str) -> bool:
        return self.layout.write(self._opened(descriptor), int(offset), int(length)) == int(length)

    def _read(self, descriptor: str, offset: str, length: str) -> None:
        self.layout.read(self._opened(descriptor), int(offset), int(length))

    def _truncate(self, descriptor: str, size: str) -> None:
        self.layout.truncate(self._opened(descriptor), int(size))

    def _fallocate(self, descriptor: str, offset: str, length: str, keep: str) -> bool:
        return self.layout.fallocate(self._opened(descriptor), int(offset), int(length), keep == "1")

    def _punch(self, descriptor: str, offset: str, length: str) -> None:
        self.layout.punch(self._opened(descriptor), int(offset), int(length))

    def _fsync(self, descriptor: str) -> None:
        self.layout.fsync(self._opened(descriptor))

    def _sync(self) -> None:
        self.layout.sync()

    def _unlink(self, path: str) -> None:
        self.layout.unlink(*self._place(path), self._file(path))
        del self.files[path]

    def _mkdir(self, path: str) -> None:
        self.files[path] = self.layout.mkdir(*self._place(path))

    def _rename(self, path: str, new: str) -> None:
        file = self._file(path)
        self.layout.rename(*self._place(path), file, *self._place(new), self.files.get(new))
        self.files[new] = self.files.pop(path)


def options_of(words: Sequence[str], mib: int) -> Mkfs:
    """Return the options that words for mke2fs state, such as ["-g", "8192", "-O", "^flex_bg"]."""
    names = {"-g": "blocks_per_group", "-G": "flex_groups", "-i": "bytes_per_inode", "-b": "block_bytes"}
    chosen: dict = {"bytes": mib << 20}
    for word, value in zip(words[::2], words[1::2], strict=True):
        if word in names:
            chosen[names[word]] = int(value)
        elif word == "-O":
            chosen["features"] = DEFAULT_FEATURES - {each.removeprefix("^") for each in value.split(",")}
        elif word == "-E":
            chosen |= {name: int(number) for name, number in (each.split("=") for each in value.split(","))}
    return Mkfs(**chosen)
