"""Track the name space that the trace reveals: path -> inode, names known to be absent, and targets of symbolic links.

With -y strace prints after every opened path the path that the kernel resolved.  Where both paths differ, the opened
path has a symbolic link: equal last components mean a linked directory (paths below it are translated), different
last components a linked file.
"""

import re
from posixpath import normpath

import numpy as np

from scmsim.trace.kernels import file_rules
from scmsim.trace.syscalls.state import Node

_SPECIAL = re.compile(r"/(?:proc|sys)(?:/|$)|/memfd:|/dev/(?!(?:shm|mqueue|hugepages)(?:/|$))").match


class Names:
    """Paths and their inodes; `under` limits the trace to one directory (None: everything)."""

    def __init__(self, under: str | None) -> None:
        self.under = normpath(under) if under else None
        # None: known to be absent; bytes: the numbers of an inode to which only this name refers (`put_to_sleep`)
        self.table: dict[str, Node | bytes | None] = {}
        self.numbered: list[Node | str] = []  # inodes by file number; only the name of an inode without an object
        self.closed: dict[int, int] = {}  # length before the trace, by file number, of the inodes without an object
        self.deleted: dict[str, Node] = {}  # the last inode that had this path
        self.links: dict[str, str] = {}  # a symbolic link to a file -> its target
        self._dirs: dict[str, str] = {}  # a directory -> the directory that its path leads to
        self.doubt = 0  # FILE_LOST: any name may lead to another file than this table has

    def join(self, base: str, path: str) -> str:
        """Return `path` below `base` ("": unknown, the path stays relative), with known links to directories followed."""
        if not path.startswith("/") and base:
            path = f"{base}/{path}"
        if "//" in path or "/." in path or path[-1:] == "/" or path[:1] == ".":
            path = normpath(path)
        head, slash, tail = path.rpartition("/")
        other = self._dirs.get(head)
        return path if other is None or not slash else f"{other}/{tail}"

    def learn(self, asked: str, resolved: str) -> None:
        """Note that an open of `asked` led to `resolved`."""
        head, _, tail = asked.rpartition("/")
        real, _, real_tail = resolved.rpartition("/")
        if asked == resolved:
            if self._dirs.get(head, head) != head:
                self._dirs[head] = head
        elif tail == real_tail and self._dirs.get(head, real) == real:
            self._dirs[head] = real
        else:
            self.links[asked] = resolved

    def follow(self, path: str) -> str:
        """Return the path that a symbolic link in the last component leads to."""
        return self.links.get(path, path) if self.links else path

    def inside(self, path: str) -> bool:
        """Return whether a path belongs to the traced directory."""
        under = self.under
        return under is None or path == under or path.startswith(under + "/") or under == "/"

    def is_direct(self, folder: str) -> bool:
        """Return whether no symbolic link is known at a directory."""
        return self._dirs.get(folder, folder) == folder

    def seen(self, path: str) -> int:
        """Return the known state of a name: UNSEEN, ABSENT or PRESENT."""
        if self.table.get(path) is not None:
            return file_rules.PRESENT
        return file_rules.ABSENT if path in self.table else file_rules.UNSEEN

    def at(self, path: str) -> Node | None:
        """Return the known inode at a path, or None."""
        node = self.table.get(path)
        if not isinstance(node, bytes):
            return node
        woken = self.table[path] = Node(path, True)
        woken.set_numbers(np.frombuffer(node, "i8").tolist())
        if woken.ident >= 0:
            self.numbered[woken.ident] = woken
        return woken

    def put_to_sleep(self, paths: list[str], numbers: np.ndarray) -> None:
        """Keep only the numbers (`Node.NUMBERS`) of new inodes, each of which has one name and no open descriptor.

        Most files are never used again, and an object for each would cost a microsecond, half of it in the garbage collector.
        """
        data, width = numbers.tobytes(), 8 * len(Node.NUMBERS)
        self.table.update(zip(paths, [data[at : at + width] for at in range(0, len(data), width)], strict=True))

    def node(self, path: str, *, is_dir: bool = False) -> Node:
        """Return the inode at a path; a path without a known inode gets one that existed before the trace."""
        node = self.at(path)
        if node is None:
            node = self.table[path] = Node(path, self.inside(path), is_dir=is_dir)
        elif is_dir:
            node.is_dir = True
        node.doubt |= self.doubt
        return node

    def make(self, path: str, *, is_dir: bool = False) -> Node:
        """Make a new inode at a path."""
        node = self.table[path] = Node(path, self.inside(path), created=True, is_dir=is_dir)
        return node

    def nameless(self, path: str) -> Node:
        """Make a new inode without a name (O_TMPFILE); `path` is the text that -y prints for the inode."""
        node = self.deleted[path] = Node(path, self.inside(path), created=True)
        return node

    def parent(self, path: str) -> Node:
        """Return the inode of the directory that holds a path."""
        return self.node(above_of(path), is_dir=True)

    def remove(self, path: str) -> Node:
        """Remove a name; return the inode that had the name."""
        node = self.node(path)
        self.table[path] = None
        self.deleted[path] = node
        return node

    def move(self, old: str, new: str) -> tuple[Node, Node | None]:
        """Rename; return the moved inode and the replaced inode (None: no inode was replaced)."""
        node, replaced = self.node(old), self.at(new)
        if replaced is node:  # two names of one inode: the kernel does nothing
            return node, None
        if replaced is not None:
            self.deleted[new] = replaced
        self.table[old], self.table[new] = None, node
        node.path = new
        if node.is_dir or (node.first >= 0 and node.length == 0):  # a directory, or an older inode that may be one
            self._move_below(old + "/", new + "/")
        return node, replaced

    def exchange(self, one: str, other: str) -> Node:
        """Swap two names (RENAME_EXCHANGE); return the inode that had the first name."""
        first, second = self.node(one), self.node(other)
        self.table[one], self.table[other] = second, first
        first.path, second.path = other, one
        if first.is_dir or second.is_dir:
            between = f"{one}/\0"  # no path has this
            self._move_below(one + "/", between)
            self._move_below(other + "/", one + "/")
            self._move_below(between, other + "/")
        return first

    def lose(self, path: str) -> None:
        """Mark the file that a name leads to as uncertain."""
        self.node(path).doubt |= file_rules.FILE_LOST

    def mounted(self, path: str) -> None:
        """Forget the names at and below a path where a file system is mounted or unmounted."""
        for each in [name for name in self.table if name == path or name.startswith(path.rstrip("/") + "/")]:
            del self.table[each]

    def _move_below(self, old: str, new: str) -> None:
        for path in [path for path in self.table if path.startswith(old)]:
            moved = self.at(path)
            del self.table[path]  # first, as both paths may be the same
            self.table[new + path[len(old) :]] = moved
            if moved is not None:
                moved.path = new + path[len(old) :]
                moved.inside = self.inside(moved.path)
        # -y prints the paths that deleted files would have now
        for path in [path for path in self.deleted if path.startswith(old)]:
            node = self.deleted.pop(path)
            self.deleted[new + path[len(old) :]] = node
            node.path = new + path[len(old) :] if node.path == path else node.path


def above_of(path: str) -> str:
    """Return the path of the directory that holds a path."""
    return path.rpartition("/")[0] or ("/" if path[:1] == "/" else ".")


def is_special(path: str) -> bool:
    """Return whether a path is outside all file systems with data: in /proc, /sys, devices or anonymous memory."""
    return _SPECIAL(path) is not None
