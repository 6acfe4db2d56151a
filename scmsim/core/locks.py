"""Read the locks of file systems: which calls wait for each other, and what threads must share for that (file, directory ...).

A family's `models.toml` declares locks (`locks` in a row names the row's locks, `lock.NAME` declares a lock).  `locks.toml`
beside the families declares the Linux locks that several families use.
"""

import pathlib
from collections.abc import Mapping
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


def is_short(lock: Mapping[str, Any]) -> bool:
    """Return whether calls release a lock before they end: it has a time, or sites whose work is under it."""
    return "held_ns" in lock or "sites" in lock


def share(lock: Mapping[str, Any], call: str) -> float:
    """Return the share of a call's work at the lock's sites that is done under the lock."""
    found = lock.get("share", 1.0)
    return float(found.get(call, 0.0) if isinstance(found, Mapping) else found)


def _line(value: Any) -> str:
    if "\n" in text(value) or not value:
        raise UsageError("must be one line of text")
    return str(value)


def _share(value: Any) -> Any:
    return _SHARES(value) if isinstance(value, dict) else _SHARE(value)


_SHARE = number(0.001, 1)
_SHARES = named(_SHARE, one_of("call", CALLS))
# held_ns: time of a call under the lock.  sites: the mechanisms of the model whose work is under the lock; share: the part of that
# work, one number or one for each call.  Without held_ns and sites a call holds the lock from its entry to its end.
# together: one turn serves all that wait.
_FIELDS: Rule = table(
    {
        "of": one_of("scope of a lock", SCOPES), "calls": several(one_of("call", CALLS)), "source": _line, "note": _line,
        "held_ns": number(0.1, 1e9), "sites": several(text), "share": _share, "together": flag,
    },
    {"of": "say what has one", "calls": "name the calls that hold it", "source": "say where it is taken"},
)  # fmt: skip


def lock(value: Any) -> dict[str, Any]:
    """Return a checked lock; raises UsageError if the keys for its time contradict each other."""
    found: dict[str, Any] = _FIELDS(value)
    if "held_ns" in found and "sites" in found:
        raise UsageError("has both held_ns and sites; keep the one from which the time under the lock follows")
    if "share" in found and "sites" not in found:
        raise UsageError("has a share but no sites; name the sites whose work is under the lock")
    if isinstance(found.get("share"), dict) and {*found["share"]} != {*found["calls"]}:
        raise UsageError("share must have a number for each of its calls, and for no other")
    return found


declared = toml.reader(named(lock))  # the locks that a file declares, such as SHARED
