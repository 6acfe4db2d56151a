"""Locks of file systems: which calls of a model hold which lock exclusively, and what threads must share to wait for it.

Declared in a family's `models.toml` (`locks` names those of a row, `lock.NAME` declares one), or in `locks.toml` beside the
families, which has the locks of Linux that several families have.
"""

import pathlib
from typing import Any

from scmsim.core import toml
from scmsim.core.errors import UsageError
from scmsim.core.schema import Rule, named, one_of, several, table, text

SHARED = pathlib.Path(__file__).parents[1] / "fs" / "locks.toml"
WHOLE = "file system"
# scopes of a lock (one lock for each file system, process, directory or file), the widest first
SCOPES = (WHOLE, "process", "directory", "file")
# operations of `records.OPS` that may hold a lock; repeated here, so that listing models does not import NumPy
CALLS = (
    "create", "open", "read", "write", "fsync", "truncate", "fallocate", "unlink", "rename", "link", "mkdir", "rmdir", "stat",
    "readdir", "mmap", "munmap", "msync", "load", "store", "close", "sync", "madvise",
)  # fmt: skip


def _line(value: Any) -> str:
    if "\n" in text(value) or not value:
        raise UsageError("must be one line of text")
    return str(value)


DECLARED: Rule = table(
    {"of": one_of("scope of a lock", SCOPES), "calls": several(one_of("call", CALLS)), "source": _line, "note": _line},
    {"of": "say what has one", "calls": "name the calls that hold it", "source": "say where it is taken"},
)


declared = toml.reader(named(DECLARED))  # the locks that a file declares, such as SHARED
