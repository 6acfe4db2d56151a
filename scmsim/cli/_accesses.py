"""Read the accesses that `scmsim mrc` and `scmsim mmu` count: a file's addresses, a trace's requests, or a replay's touches."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from scmsim.core.errors import UsageError
from scmsim.core.text import printable, shortened

ADDRESS, REQUEST, OBJECT, REPLAY = "address", "page of a request", "object", "page of a replay"
_DEFAULT_FS = "nova-cow"


class Accesses(NamedTuple):
    """Accesses to count: their kind (ADDRESS to REPLAY), the file system of a replay, else None, and batches of them.

    A batch is (event codes, None if all are loads; addresses).
    """

    access: str
    fs: str | None
    batches: Iterator[tuple[Any, Any]]

    def note(self, file: str, replays: str = "--fs") -> str:
        """Return a line for stderr on what was counted; "" for a file of addresses.  `replays` is the option of a replay."""
        name = printable(file)
        return {
            REQUEST: f"scmsim: {name} holds requests of block devices: an access is a page of 4 KiB that a request touches; "
            f"{replays} replays them on a file system",
            OBJECT: f"scmsim: {name} holds requests of objects: an access is a request, and an entry holds one object of any "
            f"size; {replays} replays them on a file system",
            REPLAY: f"scmsim: {name} holds operations, not addresses: they were replayed on {self.fs} (--fs), and an access is "
            "its touch of a 4 KiB page",
        }.get(self.access, "")

    def label(self, file: str, paging: str | None) -> str:
        """Return a label for a figure: the file's name, and for a replay the file system."""
        import pathlib

        name = shortened(pathlib.Path(file).name, 60)
        return f"{name} on {self.fs}{f' ({paging})' if paging else ''}" if self.fs else name


def of_file(file: str, fs: str | None, paging: str | None) -> Accesses:
    """Return the accesses of a file; a block or object trace is replayed only if a file system is given."""
    from scmsim.mmu import accesses

    if accesses.is_access_file(file):
        return Accesses(ADDRESS, None, ((None, part) for part in accesses.loads(file)))
    from scmsim.pipeline import open_source, requests

    source, _ = open_source(file)
    kind = requests.granularity(source.header)
    if fs is None and kind in (requests.BLOCK, requests.OBJECT):
        if paging:
            raise UsageError(f"--paging {paging!r} needs a replay; add a file system, e.g. --fs {_DEFAULT_FS}")
        return Accesses(REQUEST if kind == requests.BLOCK else OBJECT, None, requests.accesses(source))
    fs = fs or _DEFAULT_FS
    return Accesses(REPLAY, fs, _replayed(source, fs, paging))


def _replayed(source: Any, fs: str, paging: str | None) -> Iterator[tuple[None, Any]]:
    from scmsim.cli._progress import Progress
    from scmsim.pipeline import touches

    with Progress() as progress:
        for part in touches(source, fs, paging=paging, progress=progress):
            yield None, part
