"""Load the drawing library, define the types of a chart and its style, and convert a chart to the content of a file."""

import html
import json
import pathlib
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from scmsim.core.errors import EnvironmentProblem
from scmsim.core.extras import install
from scmsim.plot import theme

Rows = list[dict[str, Any]]
_ROUND = 2  # tolerated error of a width, px
_HERE = pathlib.Path(__file__).parent


@dataclass(frozen=True)
class Chart:
    """A chart and its texts: `name` for files, `title`, `caption` (one or two sentences with units), and the drawn `rows`."""

    name: str
    title: str
    caption: str
    rows: Rows
    spec: dict[str, Any]


@dataclass(frozen=True)
class Style:
    """The user's choices for a figure: width in px, title, colours; 0 or empty means the chart's own value."""

    width: int = 0
    title: str = ""
    palette: tuple[str, ...] = ()


def altair() -> Any:
    """Return Altair; if it is missing, raise EnvironmentProblem with the command that installs it."""
    try:
        import altair
        import vl_convert  # noqa: F401 - the page and the figures need it
    except ImportError:
        raise EnvironmentProblem(
            f"figures need altair and vl-convert-python; install them {install('report')}"
        ) from None
    return altair


def hues(names: Sequence[str]) -> Any:
    """Return the scale with a colour for each name, in order; colours repeat after the last one."""
    colours = [theme.COLOURS[i % len(theme.COLOURS)] for i in range(len(names))]
    return altair().Scale(domain=list(names), range=colours)


def drawn(spec: Mapping[str, Any], suffix: str, style: Style | None = None, caption: str = "") -> bytes:
    """Return a Vega-Lite chart as the content of a file: svg, png, pdf, or self-contained html.

    An html page has the chart's title, with `caption` below it.
    """
    import vl_convert

    style = style or Style()
    whole = {**spec, **_titled(spec, style)}
    whole = theme.recoloured(whole, style.palette) if style.palette else whole
    if suffix == "html":
        return _page(_wide(whole, style.width) if style.width else whole, caption).encode()
    whole = _exactly(whole, style.width) if style.width else whole
    if suffix == "svg":
        return bytes(vl_convert.vegalite_to_svg(whole, config=theme.config()).encode())
    if suffix == "png":
        return bytes(vl_convert.vegalite_to_png(whole, scale=2, config=theme.config()))
    return bytes(vl_convert.vegalite_to_pdf(whole, config=theme.config()))


def _titled(spec: Mapping[str, Any], style: Style) -> dict[str, Any]:
    known = spec.get("title")
    if style.width and isinstance(known, dict):  # a one-line subtitle would determine the width
        known = {key: value for key, value in known.items() if key != "subtitle"}
    if not style.title:
        return {"title": known} if known else {}
    return {"title": {**(known if isinstance(known, dict) else {"anchor": "start"}), "text": style.title}}


def _exactly(spec: dict[str, Any], width: int) -> dict[str, Any]:
    """Return the chart with a total width of `width` px, including axes, legends and labels, or as narrow as texts allow."""
    import vl_convert

    asked = width
    for _ in range(4):
        tried = _wide(spec, asked)
        svg = vl_convert.vegalite_to_svg(tried, config=theme.config())
        found = float(svg.partition(' width="')[2].partition('"')[0])
        if abs(found - width) <= _ROUND:
            break
        asked = max(60, asked + round(width - found))
    return tried


def _wide(spec: dict[str, Any], width: int) -> dict[str, Any]:
    """Return the chart with `width` px divided among the panels of a row."""
    one = dict(spec)
    across = len(one["hconcat"]) if "hconcat" in one else one.get("columns", 1) if "facet" in one else 1
    share = width // max(across, 1)
    for parts in ("vconcat", "hconcat", "concat"):
        if parts in one:
            one[parts] = [_wide(part, share) for part in one[parts]]
    if "spec" in one:
        one["spec"] = _wide(one["spec"], share)
    if not any(part in one for part in ("vconcat", "hconcat", "concat", "spec")):
        one["width"] = share
    return one


def _page(spec: dict[str, Any], caption: str) -> str:
    """Return a page with one chart; the chart's title is the heading."""
    title = spec.get("title", "")
    title = title.get("text", "") if isinstance(title, dict) else title
    bare = {key: value for key, value in spec.items() if key != "title"}
    found = string.Template((_HERE / "chart.html").read_text(encoding="utf-8"))
    escaped = {"title": html.escape(title), "caption": html.escape(caption)}
    return found.substitute(**escaped, wide=900, scripts=scripts({"page": bare}))


def scripts(specs: Mapping[str, Any]) -> str:
    """Return the scripts that draw charts into a page's elements chart-NAME; no text from a file can end a script."""
    data = {"specs": specs, "themes": {"light": theme.config(), "dark": theme.config(dark=True)}}
    told = "".join(
        f"const {name} = {json.dumps(value).replace('<', chr(92) + 'u003c')};\n" for name, value in data.items()
    )
    draw = (_HERE / "draw.js").read_text(encoding="utf-8")
    return f"<script>{bundle()}</script>\n<script>\n{told}{draw}</script>"


@cache
def bundle() -> str:
    """Return Vega, Vega-Lite and vega-embed as one script that sets `vegaEmbed`."""
    import vl_convert

    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")).replace("</script", "<\\/script")
