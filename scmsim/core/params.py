"""Look up the parameters that plug-ins declare in PARAMS, and parse their values according to the parameter's unit.

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
    """Return the declared parameters of a plug-in."""
    found: Declared = registry.literals(kind, name).get("PARAMS", {})
    return found


def owner(name: str, kinds: Iterable[str], what: str) -> str:
    """Return the kind of the plug-in called `name`.

    Raises UnknownName, in whose text `what` is the word for the kind of name, if no plug-in has this name.
    """
    kinds = list(kinds)
    for kind in kinds:
        if name in registry.names(kind):
            return kind
    raise unknown(what, name, [each for kind in kinds for each in registry.names(kind)], "scmsim list")


def parsed(kind: str, name: str, key: str, value: Any) -> int | str:
    """Return the value of a plug-in's parameter in the parameter's base unit.

    Raises UsageError for a parameter that the plug-in does not declare, or a value in another unit.
    """
    known = declared(kind, name)
    if key not in known:
        raise unknown_key(f"parameter of {name!r}", key, known)
    return parse_param(value, known[key][1])


def table(kind: str, name: str) -> Rule:
    """Return the rule for a table of a plug-in's parameters."""
    rules = {key: amount(unit) for key, (_, unit, _) in declared(kind, name).items()}
    return schema.table(rules, form="must be a table of parameters", what=f"parameter of {name!r}")


def amount(unit: str) -> Rule:
    """Return the rule for a parameter's value in a file.

    The value must be text in the parameter's unit, a whole number that is not negative, or one word of a choice ("a|b|c").
    """

    def checked(value: Any) -> int | str:
        if not isinstance(value, str | int) or (isinstance(value, bool) and unit != "bool"):
            raise UsageError(f"must be a whole number or text ({unit}), not {quoted(value)}")
        found = parse_param(value, unit)
        if isinstance(found, int) and found < 0:
            raise UsageError(f"must not be negative, not {quoted(value)}")
        return found

    return checked


def shown(value: Any, unit: str) -> str:
    """Return a value as text that --set accepts."""
    return format_bytes(value) if unit == "bytes" and isinstance(value, int) else str(value)
