"""Files of a report, written atomically; charts as vector or pixel files for a paper."""

import os
import pathlib
from collections.abc import Sequence

from scmsim.core.atomic import whole, writable_folder
from scmsim.plot.library import Chart, altair, drawn

_PADDING = {"left": 24, "top": 8, "right": 12, "bottom": 8}  # px; fonts of a reader may be wider
_WIDTH = 560  # px of a figure on paper, where no container gives it


def write(path: pathlib.Path, content: bytes) -> pathlib.Path:
    """Write a file atomically."""
    with whole(path) as draft:
        draft.write_bytes(content)
    return path


def check_folder(folder: str | os.PathLike[str]) -> pathlib.Path:
    """Raise before the work if figures cannot be drawn or have no place: EnvironmentProblem, UsageError."""
    altair()
    return writable_folder(folder)


def write_charts(found: Sequence[Chart], folder: str | os.PathLike[str], suffix: str) -> list[pathlib.Path]:
    """Write each chart as DIR/NAME.suffix (svg, png or pdf) with its title, on white; returns the paths."""
    out = check_folder(folder)
    out.mkdir(exist_ok=True)
    paths = []
    for chart in found:
        width = {} if "facet" in chart.spec else {"width": _WIDTH}  # panels bring their own
        spec = {
            **chart.spec,
            **width,
            "title": {"text": chart.title, "anchor": "start"},
            "background": "white",
            "padding": _PADDING,
        }
        paths.append(write(out / f"{chart.name}.{suffix}", drawn(spec, suffix)))
    return paths
