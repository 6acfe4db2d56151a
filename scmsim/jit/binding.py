"""Bind kernels that are written once to the subroutines of several families.

A module of kernels calls its subroutines by name.  `bind` copies the module's functions with some of these names replaced by
another family's subroutines or constants, as a subclass overrides methods.  Every call stays static, so numba compiles,
optimises and caches a copy like any other kernel.  The module does not refer to the families.  A copy may be bound again.
"""

import sys
import types
from collections.abc import Mapping
from typing import Any

from scmsim.jit import decorator_of, subroutine

Names = Mapping[str, Any]


def bind(family: str, module: types.ModuleType, replaced: Mapping[types.ModuleType, Names]) -> types.ModuleType:
    """Return a copy of `module` in which, at any depth of calls, the names in `replaced` have other values.

    Every module between `module` and a replaced name is copied, too; modules that reach no replaced name are shared.

    Parameters
    ----------
    family : str
        Name of the copy: numba's cache tells copies apart by this name.
    module : module
        The module of the wanted kernels.
    replaced : mapping of module to mapping
        For each module, new values of names: functions made by a decorator of `scmsim.jit`, or constants.

    Raises
    ------
    TypeError
        For a name that the module does not have; for a function whose arguments differ from those of the function or hook
        that it replaces; for a hook that a copied function calls and no family bound; and for a replaced function that a
        third module imported by name: that module would still call the original.
    """
    for changed, names in replaced.items():
        _check_names(family, changed, names)
    globals_of = {one: {**vars(one), **replaced.get(one, {})} for one in _reached(module, replaced)}
    _refuse_imported(family, replaced, globals_of)
    copies = {one: types.ModuleType(one.__name__, one.__doc__) for one in _leading_to(set(replaced), globals_of)}
    made: dict[int, Any] = {id(one): copy for one, copy in copies.items()}
    for one, copy in copies.items():
        for value in vars(one).values():
            if decorator_of(value) and _module_of(value) is one:
                made[id(value)] = _copied(value, copy, family)
    for one, copy in copies.items():
        vars(copy).update({name: made.get(id(value), value) for name, value in globals_of[one].items()})
    for copy in copies.values():
        _check_hooks(family, copy)
    return copies.get(module, module)


def compiled(module: types.ModuleType) -> types.ModuleType:
    """Return a copy of a plain Python module with its functions compiled as subroutines, for use in kernels."""
    made = types.ModuleType(module.__name__, module.__doc__)
    vars(made).update(vars(module))
    for name, function in vars(module).items():
        if isinstance(function, types.FunctionType):
            copy = types.FunctionType(function.__code__, vars(made), name, function.__defaults__)
            copy.__qualname__, copy.__module__, copy.__doc__ = name, module.__name__, function.__doc__
            setattr(made, name, subroutine(copy))
    return made


def _check_names(family: str, changed: types.ModuleType, names: Names) -> None:
    """Raise TypeError for a name that `changed` lacks, and for a function with other arguments than the replaced one."""
    if missing := names.keys() - vars(changed).keys():
        raise TypeError(f"{family} replaces {', '.join(sorted(missing))}, which {changed.__name__} does not have")
    for name, new in names.items():
        wanted, given = _arguments(vars(changed)[name]), _arguments(new)
        if wanted is not None and given is not None and wanted != given:
            raise TypeError(
                f"{family} binds {name} of {changed.__name__} to a function of ({', '.join(given)}): "
                f"it must take ({', '.join(wanted)})"
            )


def _arguments(value: Any) -> tuple[str, ...] | None:
    """Return the names of a kernel's, subroutine's or hook's arguments in their order; None for other values."""
    if decorator_of(value) is None and not hasattr(value, "is_hook"):
        return None
    code = getattr(value, "py_func", value).__code__
    return code.co_varnames[: code.co_argcount]


def _check_hooks(family: str, module: types.ModuleType) -> None:
    """Raise TypeError if a function of a bound module calls a hook that no family has bound."""
    names = vars(module)
    for function in tuple(names.values()):
        if decorator_of(function) and _module_of(function) is module:
            for name in getattr(function, "py_func", function).__code__.co_names:
                if hasattr(names.get(name), "is_hook"):
                    raise TypeError(f"{family} does not bind {name} of {module.__name__}: {names[name].__doc__}")


def _module_of(value: Any) -> types.ModuleType | None:
    """Return the module of a kernel or subroutine; a module itself if it has any; else None."""
    if isinstance(value, types.ModuleType):
        # iterate over a copy: another thread may import a submodule meanwhile, which adds a name
        return value if any(map(decorator_of, tuple(vars(value).values()))) else None
    return getattr(value, "bound_in", sys.modules[value.__module__]) if decorator_of(value) else None


def _named_by(names: Names) -> set[types.ModuleType]:
    return {found for value in names.values() if (found := _module_of(value))}


def _reached(module: types.ModuleType, replaced: Mapping[types.ModuleType, Names]) -> set[types.ModuleType]:
    """Return every module of kernels that `module` refers to, directly or through other modules."""
    found, ahead = set(), {module, *replaced}
    while ahead:
        found |= ahead
        ahead = {one for at in ahead for one in _named_by({**vars(at), **replaced.get(at, {})})} - found
    return found


def _leading_to(wanted: set[types.ModuleType], globals_of: Mapping[types.ModuleType, Names]) -> set[types.ModuleType]:
    """Return `wanted` and the modules that refer to one of them, directly or through other modules."""
    named = {one: _named_by(names) for one, names in globals_of.items()}
    while more := {one for one, seen in named.items() if seen & wanted} - wanted:
        wanted = wanted | more
    return wanted


def _refuse_imported(
    family: str, replaced: Mapping[types.ModuleType, Names], globals_of: Mapping[types.ModuleType, Names]
) -> None:
    """Raise TypeError if a module other than the replacing one imported a replaced function by name.

    The replacing module may import the original, to call it, as an override calls its base method.
    """
    old = {
        id(vars(changed)[name]): (changed, name, _module_of(new))
        for changed, names in replaced.items()
        for name, new in names.items()
        if _module_of(vars(changed)[name]) is changed
    }
    for one, names in globals_of.items():
        for value in names.values():
            changed, name, replacing = old.get(id(value), (one, "", one))
            if one not in (changed, replacing):
                raise TypeError(
                    f"{family} replaces {name} of {changed.__name__}, which {one.__name__} imports by its name: "
                    f"call it there by its module"
                )


def _copied(function: Any, module: types.ModuleType, family: str) -> Any:
    """Return a copy of a kernel or subroutine, with the names of `module` as its globals."""
    plain = getattr(function, "py_func", function)
    copy = types.FunctionType(plain.__code__, vars(module), plain.__name__, plain.__defaults__)
    copy.__qualname__, copy.__module__, copy.__doc__ = f"{family}.{plain.__qualname__}", plain.__module__, plain.__doc__
    made = decorator_of(function)(copy)
    made.bound_in = module
    return made
