"""Write files of a report atomically, and charts as vector or pixel files for a paper."""

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from scmsim.core.atomic import whole, writable, writable_folder
from scmsim.core.errors import UsageError
from scmsim.plot.library import Chart, Style, altair, drawn

SUFFIXES = (".svg", ".png", ".pdf", ".html")

PADDING = {"left": 24, "top": 8, "right": 12, "bottom": 8}  # px; the reader's fonts may be wider than ours
_WIDTH = 560  # px of a figure on paper, where no container sets the width


def write(path: pathlib.Path, content: bytes) -> pathlib.Path:
    """Write a file atomically."""
    with whole(path) as draft:
        draft.write_bytes(content)
    return path


def check_folder(folder: str | os.PathLike[str]) -> pathlib.Path:
    """Raise EnvironmentProblem if figures cannot be drawn, UsageError if the folder is not writable."""
    altair()
    return writable_folder(folder)


def check(path: str | os.PathLike[str]) -> pathlib.Path:
    """Return the path; raise UsageError if it cannot be drawn to, EnvironmentProblem without the library.

    Call this before the work starts.
    """
    suffix = pathlib.Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(f"{os.fspath(path)!r} must end in one of {', '.join(SUFFIXES)}; the ending selects the format")
    writable(path)
    altair()
    return pathlib.Path(path)


def save(
    spec: Mapping[str, Any],
    path: str | os.PathLike[str],
    style: Style | None = None,
    caption: str = "",
    title: str = "",
) -> None:
    """Write a chart in the format of the file's suffix (see `drawn`), below its title and caption."""
    out, heading = (
        pathlib.Path(path),
        {"title": {"text": title, "subtitle": caption, "anchor": "start"}} if title else {},
    )
    write(out, drawn({"padding": PADDING, **spec, **heading}, out.suffix.lower()[1:], style, caption))


def write_charts(
    found: Sequence[Chart], folder: str | os.PathLike[str], suffix: str, style: Style | None = None
) -> list[pathlib.Path]:
    """Write each chart as DIR/NAME.suffix (svg, png or pdf) with its title, on white; return the paths."""
    out = check_folder(folder)
    out.mkdir(exist_ok=True)
    paths = []
    for chart in found:
        one = "layer" in chart.spec or "mark" in chart.spec  # charts of panels have their own width
        width = {"width": _WIDTH} if one else {}
        paths.append(out / f"{chart.name}.{suffix}")
        save({**chart.spec, **width, "title": {"text": chart.title, "anchor": "start"}}, paths[-1], style)
    return paths
