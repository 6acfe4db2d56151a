"""Read from the source which arguments a model's `start` has in addition to the parameters and the files."""

import ast
import pathlib
import re
from typing import Any, NamedTuple

from scmsim.core import syntax
from scmsim.core.errors import UsageError
from scmsim.core.schema import quoted, unknown_key

_PACKAGE = pathlib.Path(__file__).parents[1]
_TYPES = {"bool": (bool, "true or false"), "int": (int, "a whole number"), "str": (str, "text in quotes")}


class Arguments(NamedTuple):
    """Arguments that a row's `variant` may have: name -> name of the type ("" if not in `_TYPES`), and the required names."""

    types: dict[str, str]
    needed: tuple[str, ...]

    def check(self, key: str, value: Any) -> None:
        """Raise UsageError for an argument that the function does not have, or a value of another type."""
        if key not in self.types:
            raise unknown_key("argument of start()", key, self.types)
        kind, form = _TYPES.get(self.types[key], (object, ""))
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise UsageError(f"must be {form}, not {quoted(value)}")


def arguments(table: pathlib.Path, place: str) -> Arguments | None:
    """Return the arguments of the function at `place` ("state.start") for a table of models; None if it has **kwargs.

    Also returns None if the file or a plain `def` of the function is missing; binding the model reports that error.
    """
    module, _, name = place.rpartition(".")
    outside = "." in module
    file = (
        _PACKAGE.parent.joinpath(*module.split(".")).with_suffix(".py") if outside else table.with_name(f"{module}.py")
    )
    try:
        found = re.search(
            rf"^def {re.escape(name)}\(.*?\)\s*(->[^\n]*)?:[ \t]*(#[^\n]*)?$",
            file.read_text(encoding="utf-8"),
            re.M | re.S,
        )
        node = syntax.parsed(f"{found[0]}\n    pass").body[0] if found else None
    except (OSError, ValueError, SyntaxError):
        return None
    if not isinstance(node, ast.FunctionDef) or node.args.kwarg:
        return None
    plain = [*node.args.posonlyargs, *node.args.args]
    with_default = plain[len(plain) - len(node.args.defaults) :]
    needed = [each for each in plain[2:] if each not in with_default]
    needed += [
        each for each, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if default is None
    ]
    types = {each.arg: _type(each.annotation) for each in [*plain[2:], *node.args.kwonlyargs]}
    return Arguments(types, tuple(each.arg for each in needed))


def _type(annotation: ast.expr | None) -> str:
    return annotation.id if isinstance(annotation, ast.Name) else ""
