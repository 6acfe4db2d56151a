"""Kernels written once and bound to the subroutines of several families.

A module of kernels calls its subroutines by name.  `bind` makes a second set of its functions in which some of these names stand
for another family's subroutines or constants, as a subclass overrides methods.  Every call stays static, so numba compiles,
optimises and caches a copy as any other kernel.  The module that is bound does not know for whom.  A copy may be bound again.
"""

import sys
import types
from collections.abc import Mapping
from typing import Any

from scmsim.jit import decorator_of, subroutine

Names = Mapping[str, Any]


def bind(family: str, module: types.ModuleType, replaced: Mapping[types.ModuleType, Names]) -> types.ModuleType:
    """A copy of `module` in which, however deep, the names that `replaced` gives stand for something else.

    Every module between `module` and a replaced name is copied, too; those that reach none are shared.

    Parameters
    ----------
    family : str
        Whose copy it is: numba's cache tells copies apart by it.
    module : module
        With the kernels that are wanted.
    replaced : mapping of module to mapping
        What the names of a module stand for in the copy: functions made by a decorator of `scmsim.jit`, or constants.

    Raises
    ------
    TypeError
        For a name that the module does not have, and for a function that a third module imported by its name: it would stay
        what it was there.
    """
    for changed, names in replaced.items():
        if missing := names.keys() - vars(changed).keys():
            raise TypeError(f"{family} replaces {', '.join(sorted(missing))}, which {changed.__name__} does not have")
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
    return copies.get(module, module)


def compiled(module: types.ModuleType) -> types.ModuleType:
    """A copy of a module of plain Python whose functions are subroutines: what is said there holds in kernels, too."""
    made = types.ModuleType(module.__name__, module.__doc__)
    vars(made).update(vars(module))
    for name, function in vars(module).items():
        if isinstance(function, types.FunctionType):
            copy = types.FunctionType(function.__code__, vars(made), name, function.__defaults__)
            copy.__qualname__, copy.__module__, copy.__doc__ = name, module.__name__, function.__doc__
            setattr(made, name, subroutine(copy))
    return made


def _module_of(value: Any) -> types.ModuleType | None:
    """The module of a kernel or subroutine, or a module that has some."""
    if isinstance(value, types.ModuleType):
        # a copy: another thread may import a part of a package meanwhile, which becomes a name in it
        return value if any(map(decorator_of, tuple(vars(value).values()))) else None
    return getattr(value, "bound_in", sys.modules[value.__module__]) if decorator_of(value) else None


def _named_by(names: Names) -> set[types.ModuleType]:
    return {found for value in names.values() if (found := _module_of(value))}


def _reached(module: types.ModuleType, replaced: Mapping[types.ModuleType, Names]) -> set[types.ModuleType]:
    """Every module of kernels that `module` leads to, itself or through others."""
    found, ahead = set(), {module, *replaced}
    while ahead:
        found |= ahead
        ahead = {one for at in ahead for one in _named_by({**vars(at), **replaced.get(at, {})})} - found
    return found


def _leading_to(wanted: set[types.ModuleType], globals_of: Mapping[types.ModuleType, Names]) -> set[types.ModuleType]:
    """Those that lead to one of `wanted`."""
    named = {one: _named_by(names) for one, names in globals_of.items()}
    while more := {one for one, seen in named.items() if seen & wanted} - wanted:
        wanted = wanted | more
    return wanted


def _refuse_imported(
    family: str, replaced: Mapping[types.ModuleType, Names], globals_of: Mapping[types.ModuleType, Names]
) -> None:
    """Only the module that replaces a function may have the old one by its name: to call it, as an override calls its base."""
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
    """A kernel or subroutine once more, with the names of `module` as its globals."""
    plain = getattr(function, "py_func", function)
    copy = types.FunctionType(plain.__code__, vars(module), plain.__name__, plain.__defaults__)
    copy.__qualname__, copy.__module__, copy.__doc__ = f"{family}.{plain.__qualname__}", plain.__module__, plain.__doc__
    made = decorator_of(function)(copy)
    made.bound_in = module
    return made
