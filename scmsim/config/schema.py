"""The rules of an experiment file as pydantic models; `scmsim.config` is the face, this module loads when a file is
checked."""

import functools
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo, create_model

from scmsim.core import registry
from scmsim.core.errors import UsageError, unknown
from scmsim.core.positions import Path
from scmsim.core.units import parse_param
from scmsim.paging._choice import wanted
from scmsim.result import SUFFIXES, is_result

_WITH_PARAMS = ("fs", "paging")  # the kinds that [set.NAME] may name


def check(table: dict[str, Any], folder: pathlib.Path) -> tuple[dict[str, Any], list[tuple[Path, str]]]:
    """The fields of a `config.Experiment`, and every broken rule with its path (no fields if there is one)."""
    broken = _broken_together(table)
    try:
        model = _Experiment.model_validate(table, context={"folder": folder})
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        return {}, broken + [(detail["loc"], _rule(detail, table)) for detail in details]
    values = {name: getattr(model, name) for name in model.model_fields_set}
    if "workload" in values:
        values["workload_params"] = values["workload"]
        values["workload"] = values["workload_params"].pop("kind")
        for name, (_, unit, _) in registry.literals("workload", values["workload"])["PARAMS"].items():
            if unit == "file" and values["workload_params"].get(name):  # relative to the experiment, as a trace is
                values["workload_params"][name] = str(folder / values["workload_params"][name])
    return values, broken


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be text in quotes, not {_shown(value)}")
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {_shown(value)}")
    return value


def _plugin(kind: str) -> Callable[[Any], str]:
    """Validator of one plug-in name."""

    def checked(value: Any) -> str:
        try:
            registry.path(kind, _text(value))
        except UsageError as error:
            raise ValueError(str(error)) from None
        return str(value)

    return checked


def _listed(value: Any) -> list[Any]:
    """One name or a list of names, at least one and none twice."""
    names = value if isinstance(value, list) else [value]
    if not names:
        raise ValueError("must name at least one")
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise ValueError(f"{_shown(twice[0])} is listed twice; keep one")
    return names


def _existing(value: Any, info: ValidationInfo) -> pathlib.Path:
    path = pathlib.Path(os.path.normpath((info.context or {})["folder"] / _text(value)))
    if not path.is_file():
        raise ValueError(f"no file {value!r} beside the experiment (looked at {str(path)!r})")
    return path


def _machine(value: Any, info: ValidationInfo) -> str:
    """A machine's name, or the path of a TOML file of one's own."""
    return str(_existing(value, info)) if str(value).endswith(".toml") else _plugin("machine")(value)


def _output(value: Any, info: ValidationInfo) -> pathlib.Path:
    """Where a result goes: an experiment may come from a stranger, so it writes below its folder or the current one, and over
    nothing but a result."""
    folder = (info.context or {})["folder"]
    path = pathlib.Path(os.path.normpath(folder / _text(value)))
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{value!r} must end in {', '.join(SUFFIXES)}")
    real = pathlib.Path(os.path.realpath(path))
    if not any(real.is_relative_to(os.path.realpath(place)) for place in (folder, ".")):
        raise ValueError(
            f"{value!r} is neither below the experiment's folder nor below the current one; name a file there, or leave this "
            "key out and give -o"
        )
    if os.path.lexists(path) and not is_result(path):
        raise ValueError(f"{str(path)!r} exists and is no result of scmsim; name another file, or remove that one")
    return path


def _amount(unit: str) -> Callable[[Any], int | str]:
    """Validator of a parameter: a whole number or text in its unit, or one word of a choice ("a|b|c")."""

    def checked(value: Any) -> int | str:
        if not isinstance(value, str | int) or (isinstance(value, bool) and unit != "bool"):
            raise ValueError(f"must be a whole number or text ({unit}), not {_shown(value)}")
        try:
            amount = parse_param(value, unit)
        except UsageError as error:
            raise ValueError(str(error)) from None
        if isinstance(amount, int) and amount < 0:
            raise ValueError(f"must not be negative, not {_shown(value)}")
        return amount

    return checked


@functools.cache
def _params(kind: str, name: str) -> type[BaseModel]:
    """Model of a plug-in's parameters, from its PARAMS literal: {name: (default, unit, meaning)}."""
    params = registry.literals(kind, name).get("PARAMS", {})
    fields: dict[str, Any] = {
        f"p{i}": (Annotated[int | str, BeforeValidator(_amount(unit))], Field(0, alias=param))
        for i, (param, (_, unit, _)) in enumerate(params.items())
    }
    return create_model(f"{kind} {name}", __config__=ConfigDict(extra="forbid"), **fields)


def _given(kind: str, name: str, table: Mapping[str, Any]) -> dict[str, int | str]:
    """The parameters of one plug-in that `table` sets."""
    return _params(kind, name).model_validate(table).model_dump(by_alias=True, exclude_unset=True)


def _workload(value: Any) -> dict[str, Any]:
    """The [workload] table: `kind`, and the parameters of that kind."""
    if not isinstance(value, dict):
        raise ValueError(f"must be a table: [workload] with kind = one of {', '.join(registry.names('workload'))}")
    if "kind" not in value:
        raise ValueError(f"needs kind = one of {', '.join(registry.names('workload'))}")
    kind = _plugin("workload")(value["kind"])
    return {"kind": kind, **_given("workload", kind, {key: v for key, v in value.items() if key != "kind"})}


def _owner(name: str) -> str | None:
    """The kind that owns the parameters of [set.NAME]."""
    return next((kind for kind in _WITH_PARAMS if name in registry.names(kind)), None)


def _settings(value: Any) -> dict[str, dict[str, int | str]]:
    """The [set.NAME] tables."""
    if not isinstance(value, dict):
        raise ValueError("must be tables: [set.NAME] with parameters of the file system or paging policy NAME")
    return dict(_set_model(tuple(value)).model_validate(value).model_dump(by_alias=True, exclude_unset=True))


@functools.cache
def _set_model(names: tuple[str, ...]) -> type[BaseModel]:
    known = [(name, kind) for name in names if (kind := _owner(name))]
    fields: dict[str, Any] = {
        f"n{i}": (_params(kind, name), Field(None, alias=name)) for i, (name, kind) in enumerate(known)
    }
    return create_model("set", __config__=ConfigDict(extra="forbid"), **fields)


_LISTED = BeforeValidator(_listed)


class _Experiment(BaseModel):
    model_config = ConfigDict(extra="forbid")

    fs: Annotated[tuple[Annotated[str, BeforeValidator(_plugin("fs"))], ...], _LISTED]
    machine: Annotated[tuple[Annotated[str, BeforeValidator(_machine)], ...], _LISTED] = ()
    paging: Annotated[tuple[Annotated[str, BeforeValidator(_plugin("paging"))], ...], _LISTED] = ()
    medium: Annotated[tuple[Annotated[str, BeforeValidator(_plugin("medium"))], ...], _LISTED] = ()
    trace: Annotated[pathlib.Path | None, BeforeValidator(_existing)] = None
    workload: Annotated[dict[str, Any] | None, BeforeValidator(_workload)] = None
    by: Literal["site", "op", "file"] | None = None
    sync_at_end: Annotated[bool, BeforeValidator(_truth)] = False
    params: Annotated[dict[str, Any], BeforeValidator(_settings)] = Field({}, alias="set")
    out: Annotated[pathlib.Path | None, BeforeValidator(_output)] = None
    summary: Annotated[str, BeforeValidator(_text)] = ""


def _broken_together(table: dict[str, Any]) -> list[tuple[Path, str]]:
    """Rules that concern several keys at once."""
    broken: list[tuple[Path, str]] = []
    if ("trace" in table) == ("workload" in table):
        at: Path = ("workload",) if "workload" in table else ()
        broken.append((at, 'give either trace = "FILE" or [workload] with a kind, not both and not neither'))
    used = [name for kind in _WITH_PARAMS for name in _as_list(table.get(kind))]
    used += [wanted(name) for name in _as_list(table.get("fs")) if name in registry.names("fs")]  # paging is its own
    for name in table["set"] if isinstance(table.get("set"), dict) else ():
        if _owner(name) and name not in used:
            broken.append((("set", name), f"{name!r} is not used here; add it to fs or paging, or drop this table"))
    return broken


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _rule(detail: Any, table: dict[str, Any]) -> str:
    """pydantic's error in the words of this project."""
    match detail["type"]:
        case "value_error":
            return str(detail["ctx"]["error"])
        case "extra_forbidden":
            return _unknown_key(detail["loc"], table)
        case "missing":
            return f"is missing; choose from {', '.join(registry.names('fs'))}"
        case "model_type":
            return "must be a table of parameters"
        case "literal_error":
            return f"must be {detail['ctx']['expected']}"
    return str(detail["msg"][:1].lower() + detail["msg"][1:])


def _unknown_key(at: Path, table: dict[str, Any]) -> str:
    name = str(at[-1])
    if len(at) == 1:
        keys = (field.alias or key for key, field in _Experiment.model_fields.items())
        return str(unknown("key", name, keys))
    if at[0] == "set" and len(at) == 2:
        return str(unknown("file system or paging policy", name, _all_names(), "scmsim list"))
    kind, plugin = ("workload", table["workload"]["kind"]) if at[0] == "workload" else (_owner(str(at[1])), str(at[1]))
    params = registry.literals(str(kind), plugin).get("PARAMS", {})
    if not params:
        return f"{plugin!r} takes no parameters; drop this key"
    return str(unknown(f"parameter of {plugin!r}", name, params))


def _all_names() -> Iterable[str]:
    return (name for kind in _WITH_PARAMS for name in registry.names(kind))


def _shown(value: Any) -> str:
    """A TOML value as the user wrote it, shortened."""
    text = {True: "true", False: "false"}.get(value, repr(value)) if isinstance(value, bool) else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
