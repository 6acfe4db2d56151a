"""Reading what a user names as results: a file, a folder of results, or the folder of a sweep."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scmsim.result import Result


def read_results(path: str) -> "Result":
    """The runs under a path as one result; raises UsageError for anything else."""
    from scmsim.result import read_all
    from scmsim.sweep import table

    return table.read(path) if path and table.is_sweep(path) else read_all(path)
