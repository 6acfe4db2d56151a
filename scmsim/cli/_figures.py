"""Define the options of the commands that draw figures."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from scmsim.plot.library import Style

figure_format = click.option(
    "--format",
    "suffix",
    type=click.Choice(["svg", "png", "pdf"]),
    default="svg",
    show_default=True,
    help="File format of the figures.",
)
figure_title = click.option("--title", default="", help="Title of the figure.  [default: a description of the figure]")


def figure_style(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --width and --palette to a command that draws figures."""
    command = click.option(
        "--palette",
        default="",
        metavar="COLOURS",
        help="Colours of the figures: okabe-ito, bright, grey, or a list #rrggbb,#rrggbb.  [default: okabe-ito]",
    )(command)
    return click.option("--width", type=click.IntRange(200, 10_000), metavar="PX", help="Width of the figures, in px.")(
        command
    )


def chosen(width: int | None, title: str, palette: str) -> "Style":
    """Return the style given by the options; raise UsageError for an unknown palette."""
    from scmsim.plot import theme
    from scmsim.plot.library import Style

    return Style(width or 0, title, theme.palette(palette) if palette else ())
