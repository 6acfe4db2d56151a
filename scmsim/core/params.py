"""Parameters of plug-ins: what each declares in its PARAMS, and values by their units.

A declaration is name -> (default, unit, meaning); `units.parse_param` knows the units.
"""

from collections.abc import Iterable
from typing import Any

from scmsim.core import registry, schema
from scmsim.core.errors import UsageError, unknown
from scmsim.core.schema import Rule, quoted, unknown_key
from scmsim.core.units import format_bytes, parse_param

Declared = dict[str, tuple[Any, str, str]]


def declared(kind: str, name: str) -> Declared:
    """The parameters of a plug-in."""
    found: Declared = registry.literals(kind, name).get("PARAMS", {})
    return found


def owner(name: str, kinds: Iterable[str], what: str) -> str:
    """The kind of the plug-in that a name stands for; raises UnknownName, which says `what` was looked for."""
    kinds = list(kinds)
    for kind in kinds:
        if name in registry.names(kind):
            return kind
    raise unknown(what, name, [each for kind in kinds for each in registry.names(kind)], "scmsim list")


def parsed(kind: str, name: str, key: str, value: Any) -> int | str:
    """A parameter of a plug-in in its base unit; raises UsageError for one that it does not declare, or a value of another unit."""
    known = declared(kind, name)
    if key not in known:
        raise unknown_key(f"parameter of {name!r}", key, known)
    return parse_param(value, known[key][1])


def table(kind: str, name: str) -> Rule:
    """Rule of a table of a plug-in's parameters."""
    rules = {key: amount(unit) for key, (_, unit, _) in declared(kind, name).items()}
    return schema.table(rules, form="must be a table of parameters", what=f"parameter of {name!r}")


def amount(unit: str) -> Rule:
    """Rule of a parameter in a file: a whole number or text in its unit, or one word of a choice ("a|b|c"); not negative."""

    def checked(value: Any) -> int | str:
        if not isinstance(value, str | int) or (isinstance(value, bool) and unit != "bool"):
            raise UsageError(f"must be a whole number or text ({unit}), not {quoted(value)}")
        found = parse_param(value, unit)
        if isinstance(found, int) and found < 0:
            raise UsageError(f"must not be negative, not {quoted(value)}")
        return found

    return checked


def shown(value: Any, unit: str) -> str:
    """A value as it is written for --set."""
    return format_bytes(value) if unit == "bytes" and isinstance(value, int) else str(value)
