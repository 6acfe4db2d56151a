"""Read the table of file systems, which states how the guest makes and mounts each of them."""

import pathlib
from dataclasses import dataclass
from typing import Any

from scmsim.core import toml
from scmsim.core.errors import UsageError, unknown
from scmsim.core.schema import flag, listed, named, table, whole

_TABLE = pathlib.Path(__file__).parent / "systems.toml"
_MAX_WORD = 400  # maximum characters of a word of a command


@dataclass(frozen=True)
class System:
    """A file system of the table; see systems.toml for the meaning of the fields."""

    name: str
    type: str
    modules: tuple[str, ...] = ()
    mkfs: tuple[str, ...] = ()
    options: str = ""
    format_options: str = ""
    source: str = "DEVICE"
    dax: bool = False
    cpus: int = 1

    def mount_options(self, fresh: bool) -> str:
        """Return the mount options; with `fresh`, they include those with which the first mount formats the device."""
        return ",".join(filter(None, (self.format_options if fresh else "", self.options)))


def load(own: str | pathlib.Path | None = None) -> dict[str, System]:
    """Return the file systems by name; entries of the user's file replace bundled ones.

    Raises UsageError if the user's file cannot be read, or has mistakes (the message lists them all).
    """
    found = _read(_TABLE)
    return found | _read(pathlib.Path(own)) if own else found


def get(known: dict[str, System], name: str, cpus: int = 1) -> System:
    """Return one file system for a guest of `cpus` CPUs.

    Raises UsageError for an unknown name, or if the file system needs more CPUs.
    """
    if name not in known:
        raise unknown("file system of the lab", name, known)
    if (least := known[name].cpus) > cpus:
        raise UsageError(f"{name!r} needs a guest with {least} CPUs, not {cpus}; run it with --cpus {least}")
    return known[name]


def _read(path: pathlib.Path) -> dict[str, System]:
    return {name: System(name, **row) for name, row in toml.load(path, _SYSTEMS).items()}


def _word(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable() or len(value) > _MAX_WORD:
        raise UsageError(f"must be text of at most {_MAX_WORD} characters, none of them a control character")
    return value


def _words(value: Any) -> tuple[str, ...]:
    return tuple(listed(_word, "must be a list of words")(value))


_SYSTEMS = named(
    table(
        {
            "modules": _words,
            "mkfs": _words,
            "type": _word,
            "options": _word,
            "format_options": _word,
            "source": _word,
            "dax": flag,
            "cpus": whole(1, 64),
        },
        {"type": "give the file system's name for mount"},
        form="must be a table with type = ...",
    )
)
