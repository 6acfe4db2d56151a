"""Atomic file writes: write to a temporary name in the same folder, then rename."""

import contextlib
import errno
import os
import pathlib
from collections.abc import Iterator

from scmsim.core.errors import EnvironmentProblem, ScmsimError, UsageError

OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)  # errors of the environment, not of the user


def writable(path: str | os.PathLike[str]) -> pathlib.Path:
    """The path of a file that may be written there, links followed; asked before the work.

    Raises
    ------
    UsageError
        Its folder is missing or not writable, or it is a folder itself, or a device or a pipe: the rename would put a file
        in its place.
    """
    if not os.fspath(path):
        raise UsageError("the name of the file to write is empty; give one")
    target = pathlib.Path(path)
    if target.is_dir():
        raise UsageError(f"{str(path)!r} is a folder; give the name of a file")
    if target.exists() and not target.is_file():
        raise UsageError(f"{str(path)!r} is a device or a pipe, which a file would replace; give the name of a file")
    _check_parent(target)
    return pathlib.Path(os.path.realpath(target))


def writable_folder(path: str | os.PathLike[str]) -> pathlib.Path:
    """The path of a folder for several files, there or to be made; asked before the work.  Raises UsageError."""
    folder = pathlib.Path(path)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{str(path)!r} is not a folder; give the name of a folder")
    if not folder.exists():
        _check_parent(folder.absolute())
    elif not os.access(folder, os.W_OK):
        raise UsageError(f"{str(path)!r} is not writable; choose another folder")
    return folder


def _check_parent(path: pathlib.Path) -> None:
    if not path.parent.is_dir():
        raise UsageError(f"no folder {str(path.parent)!r} for {path.name!r}; create it first")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"{str(path.parent)!r} is not writable; choose another place for {path.name!r}")


@contextlib.contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """Yield the path of a draft, which takes the place of `path` at the end, or is removed if that fails.

    The draft's name ends as `path` does, since writers go by the suffix.

    Raises
    ------
    UsageError, EnvironmentProblem
        What `writable` refuses; an error of the system while the draft was written, as `unwritten` words it.
    """
    target = writable(path)
    draft = target.with_name(f".{os.getpid()}.{target.name}")
    try:
        yield draft
        os.replace(draft, target)
    except OSError as error:
        raise unwritten(path, error) from None
    finally:
        draft.unlink(missing_ok=True)


def unwritten(path: str | os.PathLike[str], error: OSError) -> ScmsimError:
    """The error for a file that the system did not take; a full or broken disk is one of the environment."""
    kind = EnvironmentProblem if error.errno in OF_THE_DISK else UsageError
    reason = os.strerror(error.errno) if error.errno else str(error)  # pyarrow's and pandas' texts are their own
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    hint = "free some space and run the same command again" if full else "choose another place"
    return kind(f"cannot write {os.fspath(path)!r}: {reason.lower()}; {hint}")
