"""The library that draws, and what all charts share: colours, the record of a chart, files."""

from dataclasses import dataclass
from typing import Any

from scmsim.core.errors import EnvironmentProblem
from scmsim.core.extras import install

# Okabe and Ito's (2008), told apart with every kind of colour vision
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8B6D00", "#6A51A3", "#999999")

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Chart:
    """A chart with its words: `name` for files, `title`, `caption` (one sentence or two, with units), `rows` as drawn."""

    name: str
    title: str
    caption: str
    rows: Rows
    spec: dict[str, Any]


def altair() -> Any:
    """The library, or EnvironmentProblem with the command that installs it."""
    try:
        import altair
        import vl_convert  # noqa: F401 - the page and the figures need it
    except ImportError:
        raise EnvironmentProblem(
            f"figures need altair and vl-convert-python; install them {install('report')}"
        ) from None
    return altair


def drawn(spec: dict[str, Any], suffix: str) -> bytes:
    """A Vega-Lite chart as the content of a file: svg, png, pdf, or html without outside parts."""
    import vl_convert

    if suffix == "svg":
        return bytes(vl_convert.vegalite_to_svg(spec).encode())
    if suffix == "html":
        return bytes(vl_convert.vegalite_to_html(spec, bundle=True).encode())
    return bytes(vl_convert.vegalite_to_png(spec, scale=2) if suffix == "png" else vl_convert.vegalite_to_pdf(spec))
