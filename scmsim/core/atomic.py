"""Atomic file writes: write to a temporary name in the same folder, then rename."""

import contextlib
import errno
import os
import pathlib
import stat
from collections.abc import Iterable, Iterator

from scmsim.core.errors import EnvironmentProblem, ScmsimError, UsageError

OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)  # errors of the disk, which the user did not cause

Path = str | os.PathLike[str]
# device and inode of each file that must not be overwritten; None outside a `protected` block
_inputs: list[tuple[int, int]] | None = None


@contextlib.contextmanager
def protected(paths: Iterable[Path]) -> Iterator[None]:
    """Refuse, within a block, to overwrite the files in `paths` (by any link) and the files that `protect` adds."""
    global _inputs
    outer = _inputs
    _inputs = [*(outer or ()), *_identities(paths)]
    try:
        yield
    finally:
        _inputs = outer


def protect(*paths: Path) -> None:
    """Add files that the enclosing `protected` block must not overwrite; outside of a block, do nothing."""
    if _inputs is not None:
        _inputs.extend(_identities(paths))


def _identities(paths: Iterable[Path]) -> Iterator[tuple[int, int]]:
    """Yield (device, inode) of each regular file, which is the same for all links to the file; skip everything else."""
    for path in paths:
        with contextlib.suppress(OSError, ValueError):  # ValueError: a NUL in the name
            found = os.stat(path)
            if stat.S_ISREG(found.st_mode):
                yield found.st_dev, found.st_ino


def draft_of(target: pathlib.Path) -> pathlib.Path:
    """Return a temporary name in the target's folder, with the target's suffix, that no other writer uses."""
    return target.with_name(f".{os.getpid()}-{os.urandom(4).hex()}.{target.name}")


def writable(path: str | os.PathLike[str]) -> pathlib.Path:
    """Return the path of a file that may be written, with links followed; call this before the work starts.

    Raises
    ------
    UsageError
        If the file's folder is missing or not writable; if the path is a folder; if it is a device or a pipe, which the rename
        would replace by a file; or if it is an input (see `protected`).
    """
    if not os.fspath(path):
        raise UsageError("the name of the file to write is empty; give a name")
    target = pathlib.Path(path)
    if target.is_dir():
        raise UsageError(f"{str(path)!r} is a folder; give the name of a file")
    if target.exists() and not target.is_file():
        raise UsageError(f"{str(path)!r} is a device or a pipe, which a file would replace; give the name of a file")
    if _inputs and set(_identities([target])) & set(_inputs):
        raise UsageError(
            f"{str(path)!r} is an input of this command, which the output would replace; choose another name"
        )
    _check_parent(target)
    return pathlib.Path(os.path.realpath(target))


def writable_folder(path: str | os.PathLike[str]) -> pathlib.Path:
    """Return the path of a folder for several files, which exists or can be made; call this before the work starts.

    Raises UsageError if the folder cannot be used.
    """
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
    """Yield the path of a draft, which replaces `path` at the end of the block, or is removed if the block fails.

    The draft keeps the suffix of `path`, because writers choose the format by the suffix.

    Raises
    ------
    UsageError, EnvironmentProblem
        If `writable` refuses the path, or if an OSError occurs while the draft is written (see `unwritten`).
    """
    target = writable(path)
    draft = draft_of(target)
    try:
        yield draft
        os.replace(draft, target)
    except OSError as error:
        raise unwritten(path, error) from None
    finally:
        draft.unlink(missing_ok=True)


def unwritten(path: str | os.PathLike[str], error: OSError) -> ScmsimError:
    """Return the error for a failed write: EnvironmentProblem if the disk is full or broken, else UsageError."""
    kind = EnvironmentProblem if error.errno in OF_THE_DISK else UsageError
    reason = os.strerror(error.errno) if error.errno else str(error)  # pyarrow and pandas give no number
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    hint = "free some space and run the same command again" if full else "choose another place"
    return kind(f"cannot write {os.fspath(path)!r}: {reason.lower()}; {hint}")
