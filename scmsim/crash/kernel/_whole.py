"""Check that a file system is whole after a crash: listings, link counts and names agree, and every name can be used."""

import collections
import os
from collections.abc import Sequence

from scmsim.fs.recovery.expected import Wrong
from scmsim.lab.persistence import SeenFile

UNREACHED, COUNT, UNUSABLE = "names and listings differ", "wrong link counts", "cannot be used"


def broken(seen: Sequence[SeenFile]) -> tuple[int, Wrong] | None:
    """Return (number of a path, its error), or None if every path is whole.

    Parameters
    ----------
    seen : sequence of SeenFile
        What the guest found at each path: a directory comes before the paths in it, and the root is the last.
    """
    names = collections.Counter(one.inode for one in seen[:-1])
    last = len(seen) - 1
    tries = [(number, _listing(one, number == last)) for number, one in enumerate(seen)]
    tries += [(number, _links(one, names[one.inode])) for number, one in enumerate(seen)]
    # Paths in a directory are tried first, because the error of a path explains the error of its directory.
    tries += [(number, _use(one)) for number, one in reversed(list(enumerate(seen)))]
    return next(((number, wrong) for number, wrong in tries if wrong), None)


def _listing(one: SeenFile, root: bool) -> Wrong | None:
    if not one.inode:
        text = f"is listed in its directory but cannot be reached: {_said(one.error)}"
        return Wrong(UNREACHED, text) if one.listed else None
    if not one.listed and not root:
        return Wrong(UNREACHED, "can be opened, but its directory does not list it")
    return Wrong(UNREACHED, f"cannot be listed: {_said(one.error)}") if one.error else None


def _links(one: SeenFile, names: int) -> Wrong | None:
    if not one.inode or one.directory or one.links == names:
        return None
    return Wrong(COUNT, f"has a link count of {one.links}, but {names} names")


def _use(one: SeenFile) -> Wrong | None:
    if not one.inode or not one.use:
        return None
    what = "does not let a file be made and removed in it, or be removed" if one.directory else "cannot be removed"
    return Wrong(UNUSABLE, f"{what}: {_said(one.use)}")


def _said(number: int) -> str:
    return os.strerror(number).lower()
