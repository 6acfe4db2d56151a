"""The name space that the trace reveals: path -> inode, what is known to be absent, and where symbolic links lead.

With -y every opened path is followed by the path that the kernel resolved.  Where they differ, a symbolic link lies
between: equal last components mean a linked directory (all paths below it are translated), others a linked file.
"""

import re
from posixpath import normpath

from scmsim.trace.kernels import file_rules
from scmsim.trace.syscalls.state import Node

_SPECIAL = re.compile(r"/(?:proc|sys)(?:/|$)|/memfd:|/dev/(?!(?:shm|mqueue|hugepages)(?:/|$))").match


class Names:
    """Paths and the inodes behind them; `under` limits the trace to one directory (None: everything)."""

    def __init__(self, under: str | None) -> None:
        self.under = normpath(under) if under else None
        self.table: dict[str, Node | None] = {}  # None: known to be absent
        self.deleted: dict[str, Node] = {}  # the last inode that had this path
        self.links: dict[str, str] = {}  # a symbolic link to a file -> its target
        self._dirs: dict[str, str] = {}  # a directory -> the directory that its path leads to
        self.doubt = 0  # FILE_LOST: any name may mean another file than it seems to

    def join(self, base: str, path: str) -> str:
        """Absolute path, as far as `base` tells ("" if unknown), with known links to directories followed."""
        if not path.startswith("/") and base:
            path = f"{base}/{path}"
        if "//" in path or "/." in path or path[-1:] == "/" or path[:1] == ".":
            path = normpath(path)
        head, slash, tail = path.rpartition("/")
        other = self._dirs.get(head)
        return path if other is None or not slash else f"{other}/{tail}"

    def learn(self, asked: str, resolved: str) -> None:
        """Note where an open of `asked` led to."""
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
        """The path behind a symbolic link in the last component."""
        return self.links.get(path, path) if self.links else path

    def inside(self, path: str) -> bool:
        """Whether a path belongs to the traced directory."""
        under = self.under
        return under is None or path == under or path.startswith(under + "/") or under == "/"

    def is_plain(self, path: str) -> bool:
        """Whether nothing is known of a symbolic link at a path: it and what an open leads to are the same."""
        head = path.rpartition("/")[0]
        return path not in self.links and self._dirs.get(head, head) == head

    def seen(self, path: str) -> int:
        """What is known about a name: UNSEEN, ABSENT or PRESENT."""
        if self.table.get(path) is not None:
            return file_rules.PRESENT
        return file_rules.ABSENT if path in self.table else file_rules.UNSEEN

    def node(self, path: str, *, is_dir: bool = False) -> Node:
        """The inode at a path; one that was there before the trace if the path was never seen."""
        node = self.table.get(path)
        if node is None:
            node = self.table[path] = Node(path, self.inside(path), is_dir=is_dir)
        elif is_dir:
            node.is_dir = True
        node.doubt |= self.doubt
        return node

    def make(self, path: str, *, is_dir: bool = False) -> Node:
        """A new inode at a path."""
        node = self.table[path] = Node(path, self.inside(path), created=True, is_dir=is_dir)
        return node

    def nameless(self, path: str) -> Node:
        """A new inode without a name (O_TMPFILE); `path` is what -y calls it."""
        node = self.deleted[path] = Node(path, self.inside(path), created=True)
        return node

    def parent(self, path: str) -> Node:
        """The directory that holds a path."""
        return self.node(above_of(path), is_dir=True)

    def remove(self, path: str) -> Node:
        """Take a name away; returns the inode that had it."""
        node = self.node(path)
        self.table[path] = None
        self.deleted[path] = node
        return node

    def move(self, old: str, new: str) -> tuple[Node, Node | None]:
        """Rename; returns the moved inode and the one it replaced (None: nothing was there)."""
        node, replaced = self.node(old), self.table.get(new)
        if replaced is node:  # two names of one inode: the kernel does nothing
            return node, None
        if replaced is not None:
            self.deleted[new] = replaced
        self.table[old], self.table[new] = None, node
        node.path = new
        if node.is_dir or (node.first >= 0 and node.length == 0):  # a directory, or nothing tells that it is none
            self._move_below(old + "/", new + "/")
        return node, replaced

    def exchange(self, one: str, other: str) -> Node:
        """Swap two names (RENAME_EXCHANGE); returns the inode that was first."""
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
        """Doubt what a name means."""
        self.node(path).doubt |= file_rules.FILE_LOST

    def mounted(self, path: str) -> None:
        """Forget the names at and below a path, over which another file system is mounted, or from which one is removed."""
        for each in [name for name in self.table if name == path or name.startswith(path.rstrip("/") + "/")]:
            del self.table[each]

    def _move_below(self, old: str, new: str) -> None:
        for path in [path for path in self.table if path.startswith(old)]:
            node = self.table.pop(path)
            moved = self.table[new + path[len(old) :]] = node
            if moved is not None:
                moved.path = new + path[len(old) :]
                moved.inside = self.inside(moved.path)
        for path in [path for path in self.deleted if path.startswith(old)]:  # -y prints where they would be now
            node = self.deleted.pop(path)
            self.deleted[new + path[len(old) :]] = node
            node.path = new + path[len(old) :] if node.path == path else node.path


def above_of(path: str) -> str:
    """The path of the directory that holds a path."""
    return path.rpartition("/")[0] or ("/" if path[:1] == "/" else ".")


def is_special(path: str) -> bool:
    """Whether a path belongs to no file system with data: /proc, /sys, devices, anonymous memory."""
    return _SPECIAL(path) is not None
