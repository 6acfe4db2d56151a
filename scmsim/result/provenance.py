"""Provenance of a result: scmsim's version, the machine, the inputs and the command."""

import datetime
import functools
import hashlib
import pathlib
import platform
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from scmsim import __version__
from scmsim.core import registry
from scmsim.result import SCHEMA

PACKAGES = ("numpy", "pandas", "numba", "llvmlite", "pyarrow", "click")


def build(
    inputs: Iterable[str | pathlib.Path] = (),
    seeds: Mapping[str, int] | None = None,
    argv: Iterable[str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return the manifest of a run.

    `inputs` are files that the result depends on; each is recorded with its size in bytes and its SHA-256.  `seeds` has every
    random seed by its purpose, `argv` is the command as given (by default `sys.argv`), and `more` has further entries, e.g. the
    trace's provenance.
    """
    return {
        "scmsim": __version__,
        "sources": registry.sources(),
        "schemas": {"result": SCHEMA},
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "argv": list(sys.argv if argv is None else argv),
        "host": platform.node(),
        "kernel": f"{platform.system()} {platform.release()}",
        "cpu": platform.machine(),
        "python": platform.python_version(),
        "packages": dict(_versions()),
        "seeds": dict(seeds or {}),
        "inputs": {str(path): digest(path) for path in inputs},
        **more,
    }


def digest(path: str | pathlib.Path) -> dict[str, Any]:
    """Return the size in bytes and the SHA-256 of a file."""
    with open(path, "rb") as file:
        return {"bytes": pathlib.Path(path).stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


@functools.cache
def _versions() -> dict[str, str]:
    from importlib import metadata  # importing it takes about 40 ms

    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
