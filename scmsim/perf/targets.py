"""Check, mark, watch and clean the directories that a measurement may write to.

Nothing outside these directories is written.  A directory must be empty or have the harness's marker file (left by a run that
was killed), so that a mistyped path does no damage.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.perf.matrix import Target

MARKER = ".scmsim-perf"
DATA = "scmsim-perf.data"
_OURS = {MARKER, DATA, "lost+found"}  # mkfs.ext4 makes lost+found
_NOTE = "scmsim perf run works in this directory; without one running, this file may be removed\n"
_MADE = "it made the directory\n"
_RESERVE = 16 << 20  # bytes left free in addition to the file: metadata, logs, journals


@dataclass
class Place:
    """An opened target, and the identity (device and inode) of its directory when it was opened."""

    target: Target
    device: int
    inode: int
    made: bool = False

    @property
    def data(self) -> str:
        """Return the path of the one file that is written here."""
        return os.path.join(self.target.path, DATA)

    def check(self) -> None:
        """Raise EnvironmentProblem if another directory has taken the place of the one that was opened."""
        try:
            now = os.stat(self.target.path)
        except OSError as error:
            raise failed(error.errno, self.target) from None
        if (now.st_dev, now.st_ino) != (self.device, self.inode):
            raise EnvironmentProblem(
                f"{self.target.path!r} is no longer the directory that it was; was {self.target.label} unmounted? mount it "
                "and run the same command again"
            )

    def clean(self) -> None:
        """Remove the data file."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.data)


@contextlib.contextmanager
def opened(targets: Sequence[Target], needed: int, allow_other_files: bool = False) -> Iterator[dict[str, Place]]:
    """Check and mark all targets for a block; at its end remove the markers, the data files and the directories made here.

    Raises UsageError if a target is not a dedicated directory (it is missing, is a block device, or holds other files);
    EnvironmentProblem if a target is read-only or has less than `needed` bytes free.
    """
    for target in targets:
        check(target, needed, allow_other_files)
    places: dict[str, Place] = {}
    try:
        for target in targets:
            places[target.label] = _open(target)
            places[target.label].clean()
        yield places
    finally:
        for place in places.values():
            _leave(place)


def sweep(targets: Sequence[Target]) -> None:
    """Remove the files that a killed run left, if nothing remains to be measured."""
    for target in targets:
        if os.path.lexists(os.path.join(target.path, MARKER)):
            with contextlib.suppress(EnvironmentProblem):
                _leave(_open(target))


def check(target: Target, needed: int, allow_other_files: bool = False) -> None:
    """Check a target as far as possible without touching it; raises as `opened` does."""
    path = target.path
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        if target.create and os.path.isdir(os.path.dirname(path)):
            return _check_space(os.path.dirname(path), target, needed)
        hint = "make it, or set create = true" if not target.create else "its parent does not exist either"
        raise UsageError(f"no directory {path!r} for {target.label}; mount the file system there; {hint}") from None
    except OSError as error:
        raise failed(error.errno, target) from None
    if stat.S_ISBLK(mode):
        raise UsageError(f"{path!r} is a block device, and only directories are written to; give its mount point")
    if not stat.S_ISDIR(mode):
        raise UsageError(f"{path!r} is not a directory; give the directory where {target.label} is mounted")
    names = set(os.listdir(path))
    if not allow_other_files and MARKER not in names and names - _OURS:
        other = sorted(names - _OURS)[0]
        raise UsageError(
            f"{path!r} is not empty, it holds {other!r}; give an empty directory, or set allow_other_files = true"
        )
    if os.path.lexists(os.path.join(path, DATA)) and MARKER not in names:
        raise UsageError(f"{path!r} holds a file {DATA!r} without the harness's marker; remove the file yourself")
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        raise EnvironmentProblem(f"{path!r} ({target.label}) is read-only; 'mount -o remount,rw' it")
    _check_space(path, target, needed)


def _check_space(path: str, target: Target, needed: int) -> None:
    about = os.statvfs(path)
    free = about.f_bavail * about.f_frsize
    if free < needed + _RESERVE:
        raise EnvironmentProblem(
            f"{target.path!r} ({target.label}) has {free >> 20} MiB free, the largest file needs {(needed + _RESERVE) >> 20} "
            "MiB; free some space, or measure smaller files"
        )


def _open(target: Target) -> Place:
    marker = os.path.join(target.path, MARKER)
    try:
        made = target.create and not os.path.isdir(target.path)
        if made:
            os.mkdir(target.path, 0o700)
        with os.fdopen(os.open(marker, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "r+") as file:
            made = made or file.read(1000).endswith(_MADE)  # made by a run that was killed
            file.seek(0)
            file.write(_NOTE + (_MADE if made else ""))
            file.truncate()
        found = os.stat(target.path)
    except OSError as error:
        raise failed(error.errno, target) from None
    return Place(target, found.st_dev, found.st_ino, made)


def _leave(place: Place) -> None:
    """Remove the harness's files, unless the directory is not the one that was marked."""
    with contextlib.suppress(OSError, EnvironmentProblem):
        place.check()
        place.clean()
        os.unlink(os.path.join(place.target.path, MARKER))
        if place.made:
            os.rmdir(place.target.path)


def failed(number: int | None, target: Target) -> EnvironmentProblem:
    """Return the error for an errno on a target, with advice; None means EIO."""
    number = number or errno.EIO
    what = {
        errno.ENOSPC: "is full; free some space, or measure smaller files",
        errno.EDQUOT: "is over its quota; free some space, or measure smaller files",
        errno.EROFS: "is read-only; 'mount -o remount,rw' it",
        errno.EACCES: "may not be written by this user; change its owner, or run as root",
        errno.EFBIG: "does not take files of this size; measure smaller files, or raise 'ulimit -f'",
        errno.ENOENT: "has vanished; mount it and run the same command again",
        errno.EIO: "fails with input/output errors; look at 'dmesg'",
    }.get(number, f"fails: {os.strerror(number).lower()}; run the same command again to go on")
    return EnvironmentProblem(f"{target.path!r} ({target.label}) {what}")
