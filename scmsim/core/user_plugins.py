"""Check the plug-ins in the user's folder, so that a mistake is reported in one line and does not affect other plug-ins.

To list plug-ins, a file is checked without running it: that it can be parsed, that it defines the names that its kind requires,
and that its literals have the form that lists and options need.  `mistake` finds the place of an error that is raised while the
plug-in's code runs.
"""

import ast
import os
import pathlib
import re
import traceback
from collections.abc import Iterable
from typing import Any

from scmsim.core import family, syntax, toml
from scmsim.core.errors import ScmsimError, UsageError, shown, unknown
from scmsim.core.file_cache import per_file
from scmsim.core.units import parse_param

FOLDER = "SCMSIM_PLUGINS"
_NUMBA_PLACE = re.compile(r'File "([^"\n]+)", line (\d+)')
_NAMES_KIND = re.compile(r"[A-Z]\w+(?:Error|Exception): ")
_NUMBA_NOISE = re.compile(
    r"Failed in|No implementation|There are|- (?:Of|During|Resolution)|During:|File \"|<source|\^|$"
)


@per_file()
def problem(file: pathlib.Path, required: tuple[str, ...]) -> str | None:
    """Return what is wrong with a plug-in's file, as one line that begins with the place; None if nothing is wrong.

    Parameters
    ----------
    file : Path
        A module, a TOML table or a family's table of models.
    required : tuple of str
        Names that a module must define.
    """
    try:
        if file.name == family.TABLE:
            family.check(file)
        elif file.suffix == ".toml":
            toml.read(file)
        else:
            _check_module(file, required)
    except ScmsimError as error:
        return str(error).partition("\n")[0]
    return None


def _check_module(file: pathlib.Path, required: Iterable[str]) -> None:
    tree = parsed(file)
    defined = {name: node for node in tree.body for name in _names(node)}
    missing = [name for name in required if name not in defined]
    if missing and "*" not in defined:
        raise UsageError(
            f"{str(file)!r}: must define {', '.join(missing)}; add {'it' if len(missing) == 1 else 'them'}"
        )
    for name, check in (("SUMMARY", _check_summary), ("PARAMS", _check_params), ("SITES", _check_sites)):
        node = defined.get(name)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            try:
                check(ast.literal_eval(node.value))
            except UsageError as error:
                raise UsageError(f"{str(file)!r}, line {node.lineno}: {name} {error}") from None
            except (ValueError, TypeError):
                if name == "SUMMARY":
                    place = f"{str(file)!r}, line {node.lineno}"
                    raise UsageError(f"{place}: SUMMARY must be one text in quotes, not an expression") from None


def parsed(file: pathlib.Path) -> ast.Module:
    """Return the syntax tree of a file; raises UsageError with the line of a syntax error."""
    try:
        return syntax.parsed(file.read_bytes(), str(file))
    except OSError as error:
        raise UsageError(f"cannot read {str(file)!r}: {(error.strerror or str(error)).lower()}") from None
    except SyntaxError as error:
        raise UsageError(f"{str(file)!r}, line {error.lineno or 1}: not Python: {error.msg}; fix the line") from None
    except (ValueError, RecursionError, MemoryError) as error:  # a NUL byte; nested too deeply
        raise UsageError(f"{str(file)!r}: not Python: {error}; fix the file") from None


def _names(node: ast.stmt) -> list[str]:
    """Return the names that a top-level statement defines; "*" if it may define any name."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [inner.id for target in targets for inner in ast.walk(target) if isinstance(inner, ast.Name)]
    return ["*"] if isinstance(node, ast.If | ast.Try | ast.With | ast.For) else []


def _check_summary(value: Any) -> None:
    if not isinstance(value, str) or not value.strip() or "\n" in value:
        raise UsageError(f"must be one line of text in quotes, not {shown(value)}")


def _check_params(value: Any) -> None:
    if not isinstance(value, dict):
        raise UsageError(f'must be a dict such as {{"log": ("16MiB", "bytes", "size of the log")}}, not {shown(value)}')
    for name, declared in value.items():
        if not isinstance(declared, tuple | list) or len(declared) != 3 or not isinstance(declared[1], str):
            raise UsageError(f'of {shown(name)} must be (default, unit, meaning) such as ("16MiB", "bytes", "size")')
        try:
            parse_param(declared[0], declared[1])
        except UsageError as error:
            raise UsageError(f"has a wrong default for {shown(name)}: {error}") from None


def _check_sites(value: Any) -> None:
    if not isinstance(value, dict) or not all(isinstance(text, str) for pair in value.items() for text in pair):
        raise UsageError(f'must be a dict such as {{"log": "log", "copy": "data"}}, not {shown(value)}')
    from scmsim.core.records import KINDS  # imports NumPy, which a list of plug-ins without SITES does not need

    for site, kind in value.items():
        if kind not in KINDS:
            raise UsageError(f"of {shown(site)}: {unknown('kind of bytes', kind, KINDS)}")


def mistake(error: BaseException, running: pathlib.Path | None = None) -> str | None:
    """Return one line about an error caused by code of the user's folder, with the place; None if other code caused it.

    Parameters
    ----------
    error : BaseException
        The caught error with its traceback.
    running : Path, optional
        File of the plug-in that was running: numba does not always report where an error is.
    """
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    root = os.path.abspath(folder) + os.sep
    text = str(error).strip()
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    compiled = [(match[1], int(match[2])) for match in _NUMBA_PLACE.finditer(text)]
    places = [(os.path.abspath(file), line) for file, line in (*frames, *compiled)]
    places = [(file, line) for file, line in places if file.startswith(root)]
    if places:
        place = f"{places[-1][0]!r}, line {places[-1][1]}"
    elif running is not None and os.path.abspath(running).startswith(root):
        place = f"{str(running)!r}{_line_of_name(running, text)}"
    else:
        return None
    told = next((line.strip() for line in text.splitlines() if not _NUMBA_NOISE.match(line.strip())), "")
    kind = type(error).__name__
    return f"{place}: {told if _NAMES_KIND.match(told) else f'{kind}: {told}'}; fix this plug-in, or unset {FOLDER}"


def _line_of_name(file: pathlib.Path, text: str) -> str:
    """Return ", line N" for the first line in which a file uses the name that numba reports as not defined; "" if none."""
    match = re.search(r"name '(\w+)' is not defined", text)
    used = [
        node.lineno for node in ast.walk(parsed(file)) if match and isinstance(node, ast.Name) and node.id == match[1]
    ]
    return f", line {min(used)}" if used else ""
