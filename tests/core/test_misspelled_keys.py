"""Every key of every bundled TOML file, misspelled or with a value of another type: each is refused, in lines with a place."""

import copy
import functools
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scmsim import config, medium, system
from scmsim.config import matrix
from scmsim.core import family, file_cache, locks, toml
from scmsim.core.errors import UsageError
from scmsim.core.positions import Path
from scmsim.lab import job, systems
from scmsim.mmu import presets
from scmsim.perf import events, profile
from scmsim.sweep import config as sweeps
from scmsim.zoo import _table as zoo

ROOT = pathlib.Path(family.__file__).parents[1]
CONFIGS = ROOT.parent / "configs"
Table = dict[str, Any]


def configured(file: pathlib.Path) -> Any:
    if file.name.startswith("sweep"):
        return sweeps.load(file)
    return matrix.load(file) if file.name.startswith("perf") else config.load(file)


# pattern of files -> what reads one of them
READERS: dict[str, Callable[[pathlib.Path], Any]] = {
    "fs/*/models.toml": family.check,
    "fs/locks.toml": locks.declared,
    "mmu/machines/*.toml": lambda file: presets.read(str(file)),
    "medium/*.toml": lambda file: medium.read(file.stem),
    "system/*.toml": lambda file: system.read(str(file)),
    "perf/events/*.toml": lambda file: events.table(file.stem),
    "perf/sites/*.toml": profile._read,
    "lab/systems.toml": systems._read,
    "lab/jobs/*.toml": lambda file: job.load(str(file), {}),
    "zoo/zoo.toml": lambda file: zoo(),
    "../configs/*.toml": configured,
}
# Names of the user's choice, with the number of levels above them: another name is another thing, not a mistake.
NAMED: dict[str, tuple[str, ...]] = {
    "models.toml": ("model.*",),
    "locks.toml": ("*",),  # a row that names another lock is refused
    "systems.toml": ("*",),
    "zoo.toml": ("set.*", "set.*.*", "only.*"),  # `scmsim zoo` checks them when it builds the sweep
    **{file.name: ("sites.*",) for file in ROOT.glob("perf/sites/*.toml")},  # tests/perf compare them with the models
    **{file.name: ("fs.*",) for file in CONFIGS.glob("perf-*.toml")},
    # `scmsim check` builds each point of a sweep, and finds an array of a TLB that the machine lacks
    "sweep-page-sizes.toml": ("axes.machine.*",),
}
FILES = [(file.resolve(), read) for pattern, read in READERS.items() for file in sorted(ROOT.glob(pattern))]


def keys(value: Any, at: Path = ()) -> Iterator[Path]:
    """Yield the place of every key of a table."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if isinstance(key, str):
            yield (*at, key)
        yield from keys(inner, (*at, key))


def changed(table: Table, at: Path, change: Callable[[str, Any], tuple[str, Any]]) -> Table:
    new = copy.deepcopy(table)
    inner: Any = functools.reduce(lambda value, key: value[key], at[:-1], new)  # type: ignore[index]
    items = [change(key, value) if key == at[-1] else (key, value) for key, value in inner.items()]
    inner.clear()
    inner.update(items)
    return new


def misspelled(key: str, value: Any) -> tuple[str, Any]:
    return f"x{key}", value


def of_another_type(key: str, value: Any) -> tuple[str, Any]:
    return key, {"x": [1.5]} if isinstance(value, list) else [[1.5]]


def is_name(file: pathlib.Path, at: Path) -> bool:
    """Return whether a key is a name of the user's choice."""
    return any(
        len(at) == len(parts) and all(part in ("*", str(key)) for part, key in zip(parts, at, strict=True))
        for parts in (pattern.split(".") for pattern in NAMED.get(file.name, ()))
    )


def accepted(file: pathlib.Path, read: Callable[[pathlib.Path], Any], change: Any, monkeypatch: Any) -> list[str]:
    """Return the keys of a file whose change is accepted, or is not refused with lines that name the file."""
    text, table = toml.read(file)
    original, version, found = toml.read, file_cache._version, []
    monkeypatch.setattr(
        file_cache, "_version", lambda path: None if pathlib.Path(path).resolve() == file else version(path)
    )
    for at in keys(table):
        if change is misspelled and is_name(file, at):
            continue
        new = changed(table, at, change)

        def replaced(path: Any, new: Table = new) -> tuple[str, Table]:
            return (text, copy.deepcopy(new)) if pathlib.Path(path).resolve() == file else original(path)

        monkeypatch.setattr(toml, "read", replaced)
        try:
            read(file)
        except UsageError as error:
            if not all(str(file.name) in line and "\n" not in line for line in str(error).splitlines()):
                found.append(f"{'.'.join(map(str, at))}: without a place: {error}")
        except Exception as error:
            found.append(f"{'.'.join(map(str, at))}: {type(error).__name__}: {error}")
        else:
            found.append(".".join(map(str, at)))
        finally:
            monkeypatch.setattr(toml, "read", original)
    return found


@pytest.mark.parametrize("change", [misspelled, of_another_type])
@pytest.mark.parametrize(("file", "read"), FILES, ids=[str(file.relative_to(ROOT.parent)) for file, _ in FILES])
def test_a_wrong_key_or_type_is_refused(
    file: pathlib.Path, read: Callable[[pathlib.Path], Any], change: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(file)  # unchanged, it is accepted
    assert not accepted(file, read, change, monkeypatch)


def test_every_folder_of_tables_is_read() -> None:
    """A new kind of table needs a reader above, or is named here with what checks it."""
    elsewhere = {
        "fs/parameters.toml",  # a parameter that a row does not find is refused in the row
        *(str(file.relative_to(ROOT)) for file in ROOT.glob("fs/*/costs/*.toml")),  # tests/fs/engine/test_costs.py
        *(str(file.relative_to(ROOT)) for file in ROOT.glob("result/glossary/*.toml")),  # tests/cli/test_glossary.py
    }
    known = {str(file.relative_to(ROOT)) for file, _ in FILES if file.is_relative_to(ROOT)} | elsewhere
    assert {str(file.relative_to(ROOT)) for file in ROOT.rglob("*.toml")} <= known
