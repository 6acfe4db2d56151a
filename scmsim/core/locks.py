"""Read the locks of file systems: which calls wait for each other, and what threads must share for that (file, directory ...).

A family's `models.toml` declares locks (`locks` in a row names the row's locks, `lock.NAME` declares a lock).  `locks.toml`
beside the families declares the Linux locks that several families use.
"""

import pathlib
from typing import Any

from scmsim.core import toml
from scmsim.core.errors import UsageError
from scmsim.core.schema import Rule, flag, named, number, one_of, several, table, text

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


# held_ns: time that a call holds the lock; without it, the whole call.  together: one turn serves all calls that wait.
DECLARED: Rule = table(
    {
        "of": one_of("scope of a lock", SCOPES), "calls": several(one_of("call", CALLS)), "source": _line, "note": _line,
        "held_ns": number(0.1, 1e9), "together": flag,
    },
    {"of": "say what has one", "calls": "name the calls that hold it", "source": "say where it is taken"},
)  # fmt: skip


declared = toml.reader(named(DECLARED))  # the locks that a file declares, such as SHARED
