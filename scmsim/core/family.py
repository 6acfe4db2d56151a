"""Read the models of a family of file systems: the rows of the family's `models.toml`.

Keys above the rows apply to every row; a row's own keys override them, and a row's own tables extend tables above the rows.

    source = "where the family is described"
    parameters = ["capacity", "journal"]            # in the order in which they are listed

    [parameter]                                     # default, unit, meaning
    journal = ["4MiB", "bytes", "size of the journal"]

    [model.mine-4k]
    summary = "one line"
    variant = { shift = 12 }                        # arguments of `start` in addition to the parameters and the files

`code` states where those of a model's functions are that are not at their default place (CODE): "file.name" in the family's
folder, or a full path such as "scmsim.fs.nova.operations.emit".  The table `by.PARAMETER.VALUE` is added to the variant if
PARAMETER has this VALUE.  `parameters.toml` beside the families has the parameters that several families share.
"""

import functools
import pathlib
import re
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from scmsim.core import locks, signature, toml
from scmsim.core.errors import UsageError, shown, unknown
from scmsim.core.file_cache import per_file
from scmsim.core.schema import Mistakes, Rule, both, flag, listed, named, table, text, unknown_key, whole
from scmsim.core.units import parse_param

TABLE = "models.toml"
SHARED = pathlib.Path(__file__).parents[1] / "fs" / "parameters.toml"
CODE = {"start": "state.start", "emit": "operations.emit", "space": "state.space", "SITES": "templates.SITES"}
# optional keys of `code`
_MAY = (
    "collect",
    "by_file",
    "extents",
    "unsynced",
    "quiet_until",
    "STATISTICS",
    "LARGEST_FILE",
    "KERNEL_OBJECTS",
    "mapped",
    "remarks",
)

_HEADER = re.compile(r"^\[model\.([a-z0-9-]+)\]", re.MULTILINE)
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_PLACE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


@per_file()
def names(file: pathlib.Path) -> list[str]:
    """Return the names of a family's models, from the headers of their rows alone."""
    return _HEADER.findall(file.read_text(encoding="utf-8"))


def check(file: pathlib.Path) -> None:
    """Raise ConfigError if a family's table has a mistake."""
    _rows(file)


def literals(file: pathlib.Path, name: str) -> dict[str, Any]:
    """Return a model's constants by the names that they would have in a `.py` file: SUMMARY, PARAMS, PAGE_BYTES ..."""
    row = _rows(file)[name]
    found = {key.upper(): row[key] for key in _CONSTANTS if key in row}
    if "locks" in row:
        found["LOCKS"] = {key: row["lock"][key] for key in row["locks"]}
    return {**found, "PARAMS": {key: tuple(row["parameter"][key]) for key in row["parameters"]}}


def bind(file: pathlib.Path, name: str, imported: Callable[[str], Any]) -> SimpleNamespace:
    """Return a model, that is a namespace of its literals and functions; `imported` returns the module for a path in `code`."""
    row = _rows(file)[name]
    found = literals(file, name)
    for attribute, place in row["code"].items():
        module, _, each = place.rpartition(".")
        try:
            found[attribute] = getattr(imported(module), each)
        except (ImportError, AttributeError) as error:
            raise UsageError(
                f"{file}: {name}: code.{attribute} = {place!r} cannot be imported ({error}); give module.name"
            ) from None
    return SimpleNamespace(**found | {"start": _start(found["start"], row)})


def _start(start: Callable[..., Any], row: Mapping[str, Any]) -> Callable[[Mapping[str, Any], Any], Any]:
    def started(params: Mapping[str, Any], files: Any) -> Any:
        """Return the state of an empty file system that knows the trace's files."""
        variant = dict(row["variant"])
        for parameter, values in row["by"].items():
            variant |= values[params[parameter]]
        return start(_Parameters(params), files, **variant)

    return started


class _Parameters(dict[str, Any]):
    """Parameters of a model; access to a missing one raises an error, because the model's row must list it in `parameters`."""

    def __missing__(self, key: str) -> Any:
        raise UsageError(
            f"the model's code needs the parameter {key!r}; add it to 'parameters' of the model's row (models.toml)"
        )


@per_file()
def _rows(file: pathlib.Path) -> dict[str, dict[str, Any]]:
    """Return every row of a file, merged with the keys above the rows."""
    found = toml.load(file, both(_FILE, _references, functools.partial(_starts, file)))
    return {name: _completed(found, row) for name, row in found["model"].items()}


def _completed(above: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row merged with the keys above it."""
    row = {**above, **own}
    for key in ("parameter", "code", "variant", "by", "lock"):
        row[key] = {**_table(above, key), **_table(own, key)}
    row.setdefault("parameters", list(row["parameter"]))
    return row | {
        "parameter": {**_parameters(SHARED), **row["parameter"]},
        "code": {**CODE, **row["code"]},
        "lock": {**locks.declared(locks.SHARED), **row["lock"]},
    }


def _table(of: Any, key: str) -> dict[str, Any]:
    """Return a table within another; an empty table if the key is missing or is not a table."""
    found = of.get(key) if isinstance(of, Mapping) else None
    return found if isinstance(found, dict) else {}


def _references(family: Any) -> None:
    """Check that each row has a source, each named parameter is declared, and `by` covers each choice of its parameter."""
    mistakes = Mistakes()
    for name, own in _table(family, "model").items():
        if not _NAME.fullmatch(name):
            mistakes.note(("model", name), "must be lower-case words joined by dashes")
        if not isinstance(own, dict):
            continue
        row = _completed(family, own)
        if "source" not in row:
            mistakes.note(("model", name, "source"), "is missing; say where it is described")
        known = row["parameter"]
        for key, values in row["by"].items():
            at = ("model", name, "by", key) if key in _table(own, "by") else ("by", key)
            choices = known[key][1].split("|") if isinstance(known.get(key), list) and len(known[key]) == 3 else []
            if key not in row["parameters"]:
                mistakes.note(at, unknown("parameter of this row", key, row["parameters"]))
            elif isinstance(values, dict) and sorted(values) != sorted(choices):
                mistakes.note(at, f"must have a table for each of {', '.join(choices)}")
    for many, one in (("parameters", "parameter"), ("locks", "lock")):
        _named(family, many, one, mistakes)
    _raise_once(mistakes)


def _named(family: Any, many: str, one: str, mistakes: Mistakes) -> None:
    """Check that each name in a row's list `many` is declared in its table `one`, and that each declaration is in a list."""
    used = set()
    for name, own in _table(family, "model").items():
        if not isinstance(own, dict):
            continue
        row = _completed(family, own)
        found = row.get(many)
        names = [key for key in found if isinstance(key, str)] if isinstance(found, list) else []
        used.update(names)
        for i, key in enumerate(names):
            if key not in row[one]:
                mistakes.note((*(("model", name) if many in own else ()), many, i), unknown(one, key, row[one]))
        for key in _table(own, one):
            if key not in names:
                mistakes.note(("model", name, one, key), unknown_key(f"{one} of this row", key, names))
    for key in _table(family, one):
        if key not in used:
            mistakes.note((one, key), f"no row has it in its {many}; {unknown_key(one, key, sorted(used))}")


def _starts(file: pathlib.Path, family: Any) -> None:
    """Check that each row passes only known arguments to `start`, and every required argument."""
    mistakes = Mistakes()
    for name, own in _table(family, "model").items():
        row = _completed(family, own if isinstance(own, dict) else {})
        taken = signature.arguments(file, row["code"]["start"]) if isinstance(row["code"]["start"], str) else None
        if taken is None:
            continue
        choices = [(key, value) for key, values in row["by"].items() if isinstance(values, dict) for value in values]
        for at in (("variant",), *(("by", *choice) for choice in choices)):
            for key, value in _within(row, at).items():
                above = key in _within(family, at) and key not in _within(own, at)
                place = (*at, key) if above else ("model", name, *at, key)
                mistakes.take(place, functools.partial(taken.check, key), value)
        by_all = [
            set.intersection(*({*_table(values, value)} for value in values)) for values in row["by"].values() if values
        ]
        for key in sorted({*taken.needed} - {*row["variant"]}.union(*by_all)):
            mistakes.note(("model", name, "variant", key), "is missing; start() needs it")
    _raise_once(mistakes)


def _within(of: Any, at: tuple[str, ...]) -> dict[str, Any]:
    """Return the nested table at a path of keys; an empty table if a key is missing."""
    return functools.reduce(_table, at, of)


def _raise_once(mistakes: Mistakes) -> None:
    """Raise the noted mistakes, if any, without duplicates, because a mistake above the rows was noted once per row."""
    mistakes.found = list(dict.fromkeys(mistakes.found))
    mistakes.done()


def _line(value: Any) -> str:
    if "\n" in text(value) or not value or value.endswith("."):
        raise UsageError("must be one line that does not end with a full stop")
    return str(value)


def _declaration(value: Any) -> list[str]:
    """Check a parameter's declaration: default, unit, meaning."""
    if not isinstance(value, list) or len(value) != 3 or not all(isinstance(part, str) for part in value):
        raise UsageError('must be ["default", "unit", "meaning"]')
    parse_param(value[0], value[1])
    return value


_parameters = toml.reader(named(_declaration))


def _place(value: Any) -> str:
    if not isinstance(value, str) or not _PLACE.fullmatch(value):
        raise UsageError(
            'must be "file.name" in this folder or a full path such as "scmsim.fs.nova.operations.emit", '
            f"not {shown(value)}"
        )
    return value


def _plain(value: Any) -> str | int:
    if not isinstance(value, str | int):
        raise UsageError("must be a whole number, a word, true or false")
    return value


_CONSTANTS: dict[str, Rule] = {
    "summary": _line,
    "source": _line,
    "paper": text,
    "paging": text,
    "kernel": text,
    "path_walk": text,
    "footprints": text,
    "mappings": _line,
    "unchecked": _line,
    "page_bytes": whole(1, 1 << 40),
    "tail_bytes": whole(1, 1 << 40),
    "holes": flag,
    "memory_objects": flag,
}
_KEYS: dict[str, Rule] = _CONSTANTS | {
    "parameters": listed(text),
    "parameter": named(_declaration),
    "locks": listed(text),
    "lock": named(locks.lock),
    "code": table(dict.fromkeys((*CODE, *_MAY), _place)),
    "variant": named(_plain),
    "by": named(named(named(_plain))),
}
_ABOVE = {key: rule for key, rule in _KEYS.items() if key != "summary"}
_FILE = table({**_ABOVE, "model": named(table(_KEYS, {"summary": "say in one line what it is"}))}, ["model"])
