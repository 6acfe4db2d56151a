"""Protect the folders from which code is loaded: other users must not be able to put files into such a folder.

numba's index of compiled kernels is a pickle, and the lab runs programs from its folder, so a file that another user put
there would run with the user's rights.
"""

import os
import pathlib
import stat

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def make(path: str | os.PathLike[str]) -> None:
    """Make a folder and its missing parents, accessible only to the user."""
    missing = pathlib.Path(path)
    todo = []
    while not missing.exists():
        todo.append(missing)
        missing = missing.parent
    for folder in reversed(todo):
        try:
            folder.mkdir(0o700)
        except FileExistsError:  # another process was faster
            if not folder.is_dir():
                raise
    if not missing.is_dir():
        raise NotADirectoryError(20, os.strerror(20), str(missing))


def fault(path: str | os.PathLike[str]) -> str:
    """Return why other users could put files into a folder, or "" if they cannot.

    The folder and its parents must belong to the user or root.  Others must not be able to write to any of them, except to a
    parent with the sticky bit, such as /tmp, where they cannot replace files of other users.  For a folder that does not exist,
    the check starts at its first existing parent.
    """
    folder = pathlib.Path(os.path.realpath(path))
    last = True
    for each in (folder, *folder.parents):
        try:
            found = each.stat()
        except (FileNotFoundError, NotADirectoryError):
            last = False
            continue
        except OSError as error:
            return (error.strerror or str(error)).lower()
        if found.st_uid not in (0, os.geteuid()):
            return f"{str(each)!r} belongs to another user"
        if _writable(found) and (last or not found.st_mode & stat.S_ISVTX):
            return f"others can write to {str(each)!r}"
        last = False
    return ""


def foreign(descriptor: int) -> bool:
    """Return whether an open file belongs to another user, or others can write to it."""
    found = os.fstat(descriptor)
    return found.st_uid not in (0, os.geteuid()) or _writable(found)


def wider(folder: str | os.PathLike[str], root: str | os.PathLike[str]) -> bool:
    """Return whether a user who cannot write to `root` can write to `folder` or to a folder between the two.

    A folder that is not below `root` must pass `fault`.
    """
    top, inner = os.stat(root), pathlib.Path(folder)
    if not inner.is_relative_to(root):
        return bool(fault(folder))
    for each in (inner, *inner.parents):
        if not each.exists():
            continue
        found = each.stat()
        if found.st_uid not in (0, os.geteuid(), top.st_uid) or found.st_mode & _OTHERS & ~top.st_mode:
            return True
        if os.path.samestat(found, top):
            break
    return False


def _writable(found: os.stat_result) -> bool:
    """Return whether other users can write; the user's private group, which has the user's number, does not count."""
    own = found.st_gid == os.getegid() == os.geteuid()
    return bool(found.st_mode & (stat.S_IWOTH if own else _OTHERS))
