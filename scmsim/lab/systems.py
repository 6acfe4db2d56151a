"""The table of file systems: how the guest makes and mounts each."""

import pathlib
from dataclasses import dataclass
from typing import Any

from scmsim.core import toml
from scmsim.core.errors import UsageError, unknown

_TABLE = pathlib.Path(__file__).parent / "systems.toml"
_KEYS = {"modules": list, "mkfs": list, "type": str, "options": str, "source": str, "dax": bool}
_MAX_WORD = 400  # of a command


@dataclass(frozen=True)
class System:
    """One row; see systems.toml for the meaning of the fields."""

    name: str
    type: str
    modules: tuple[str, ...] = ()
    mkfs: tuple[str, ...] = ()
    options: str = ""
    source: str = "DEVICE"
    dax: bool = False


def load(own: str | pathlib.Path | None = None) -> dict[str, System]:
    """The file systems by name; those of the user's own file replace ours.

    Raises
    ------
    UsageError
        If the user's file cannot be read or has an unknown key or a value of the wrong type.
    """
    found = _read(_TABLE)
    return found | _read(pathlib.Path(own)) if own else found


def get(table: dict[str, System], name: str) -> System:
    """One file system; raises UnknownName with the nearest match."""
    if name not in table:
        raise unknown("file system of the lab", name, table)
    return table[name]


def _read(path: pathlib.Path) -> dict[str, System]:
    return {name: _system(path, name, row) for name, row in toml.read(path)[1].items()}


def _system(path: pathlib.Path, name: str, row: Any) -> System:
    where = f"{str(path)!r}: [{name}]"
    if not isinstance(row, dict):
        raise UsageError(f"{where} must be a table with type = ...")
    for key, value in row.items():
        if key not in _KEYS:
            raise UsageError(f"{where}: {unknown('key', key, _KEYS)}")
        words = value if isinstance(value, list) else [value]
        if not isinstance(value, _KEYS[key]) or not all(_is_word(word) for word in words):
            raise UsageError(f"{where}: {key} must be {_KEYS[key].__name__} of words without control characters")
    if "type" not in row:
        raise UsageError(f"{where} lacks type, the file system's name for mount")
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    return System(name, **values)


def _is_word(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, str) and value.isprintable() and len(value) <= _MAX_WORD)
