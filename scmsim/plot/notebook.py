"""Show a notebook's charts in the report's theme, as SVG pictures that are light or dark like the page around them."""

from typing import Any

from scmsim.plot import theme
from scmsim.plot.library import altair, drawn


def enable() -> None:
    """Make Altair show charts as SVG in the report's colours from now on.

    Raises EnvironmentProblem without the extra `report`.
    """
    alt = altair()
    alt.renderers.register("scmsim", _shown)
    alt.renderers.enable("scmsim")


def _shown(spec: dict[str, Any], **_: Any) -> dict[str, str]:
    return {"image/svg+xml": theme.adaptive(drawn(spec, "svg").decode())}
