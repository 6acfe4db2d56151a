"""Define the colours and the Vega-Lite theme of all charts, for light and dark backgrounds.

Most hues are Okabe and Ito's (2008), which are distinct for every kind of colour vision.  A mechanism (site) of a file system has
the same colour in every chart: its function determines the hue, its place in the table the shade.
"""

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from scmsim.core.errors import UsageError

# blue, orange, green, pink, sky, vermilion, brown, violet, grey, yellow, wine
COLOURS = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8b6d00", "#6a51a3", "#999999", "#d4c400", "#882255",
)  # fmt: skip
OTHER = "other"
LIGHT = {"ink": "#1b1f24", "line": "#d8dee4", "paper": "#ffffff"}
DARK = {"ink": "#e6edf3", "line": "#30363d", "paper": "#0d1117"}
PALETTES = {
    "okabe-ito": COLOURS,
    "bright": ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb"),  # Paul Tol's
    "grey": ("#333333", "#777777", "#aaaaaa", "#555555", "#cccccc", "#111111", "#999999"),
}
SAME = {"copy": "data copy", "block zeroing": "zeroing", "writeback": "write-back"}  # other names of the same mechanism
# index in COLOURS -> names of mechanisms, the most frequent first; each name has the hue's next shade
_FAMILIES: dict[int, tuple[str, ...]] = {
    0: ("data copy", "cow copy", "user copy", "mcow data", "mcow copy", "second copy", "shadow copy", "partial block"),
    1: ("zeroing", "migration", "conversion"),
    2: ("log append", "log scan", "log extension", "log commit", "operation log", "mcow log", "zfdm log", "log gc"),
    3: (
        "inode",
        "entry update",
        "entry invalidation",
        "metadata write-back",
        "mcow commit",
        "zfdm commit",
        "zfdm flag",
    ),
    4: ("journal", "journal handle", "transaction", "checkpoint", "orphan list", "truncate list"),
    5: ("allocation", "free list", "memory object", "staging", "nftl", "nftl fold", "collector", "log cleaner"),
    6: ("namespace", "directory", "directory index", "directory scan", "chain walk"),
    7: ("syscall", "fsync", "user library", "page fault", "mapped access", "mapped write-back", "unmapping"),
    8: (OTHER,),
    9: ("page cache", "write-back", "relink", "read-in", "mcow complete", "zfdm complete"),
    10: ("index", "radix tree", "mapping", "page table", "mcow index", "zfdm index", "mcow swap", "zfdm swap"),
}
# other charts' names for the same things: kinds of stored bytes, and of space
_ALSO = {
    "data": "data copy", "file data": "data copy", "log": "log append", "metadata": "inode", "allocated ahead": "allocation",
    "page tables": "page table", "waste in last pages": "zeroing",
}  # fmt: skip
_SHADES = (0.0, 0.42, -0.36, 0.22, -0.58, 0.62, -0.18, 0.76)  # fraction of white, or, if negative, of black


def shade(colour: str, step: float) -> str:
    """Return a colour mixed with white, or, for a negative step, with black."""
    end = 255 if step > 0 else 0
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part + (end - part) * abs(step)):02x}" for part in parts)


_SITES = {
    name: (hue, place) for hue, names in _FAMILIES.items() for place, name in enumerate(names)
}  # name -> (hue, shade)


def site_colour(name: str) -> str:
    """Return the colour of a mechanism; if the table lacks the mechanism, the colour is derived from its name."""
    name = SAME.get(name, name)
    known = _SITES.get(_ALSO.get(name, name))
    if known is None:
        spread = zlib.crc32(name.encode()) % (len(COLOURS) * (len(_SHADES) - 1))
        known = spread % len(COLOURS), 1 + spread // len(COLOURS)
    hue, place = known
    return shade(COLOURS[hue], _SHADES[place])


def is_site(name: str) -> bool:
    """Return whether the table has a colour for the name."""
    return _ALSO.get(SAME.get(name, name), SAME.get(name, name)) in _SITES


def colours(names: Sequence[str]) -> list[str]:
    """Return the colours of a chart's names: mechanisms have the table's, other names the first unused colours."""
    taken = {name: site_colour(name) for name in names if is_site(name)}
    free = [colour for colour in COLOURS if colour not in taken.values()] or list(COLOURS)
    others = [name for name in names if name not in taken]
    taken |= {name: free[i % len(free)] for i, name in enumerate(others)}
    return [taken[name] for name in names]


def config(dark: bool = False) -> dict[str, Any]:
    """Return the Vega-Lite configuration with colours of texts, axes and lines for a light or dark background."""
    colour = DARK if dark else LIGHT
    ink, line = colour["ink"], colour["line"]
    words = {"labelColor": ink, "titleColor": ink, "labelFontSize": 12, "titleFontSize": 12}
    return {
        "background": "transparent" if dark else colour["paper"],
        # px; Vega's size of a chart excludes half of an axis's last label, and the reader's font may be wider
        "padding": {"left": 5, "top": 5, "right": 16, "bottom": 5},
        "view": {"stroke": None},
        "range": {"category": list(COLOURS)},
        "text": {"color": ink},
        "title": {"color": ink, "subtitleColor": ink, "anchor": "start"},
        "rule": {"color": ink},
        "axis": {**words, "gridColor": line, "domainColor": line, "tickColor": line},
        "axisX": {"labelSeparation": 8, "labelBound": True},
        **{mark: {"color": COLOURS[0]} for mark in ("bar", "line", "point")},
        "header": words,
        "legend": {**words, "symbolStrokeColor": ink, "symbolBaseFillColor": ink,
                   "layout": {"bottom": {"direction": "vertical", "anchor": "start"}}},
    }  # fmt: skip


def palette(text: str) -> tuple[str, ...]:
    """Return the colours of a named palette, or of "#rrggbb,#rrggbb,...".

    Raises UsageError for a name that is not in PALETTES, or a colour that is not six hexadecimal digits.
    """
    if text in PALETTES:
        return PALETTES[text]
    found = [part.strip().lower() for part in text.split(",")]
    for part in found:
        if len(part) != 7 or part[0] != "#" or not set(part[1:]) <= set("0123456789abcdef"):
            raise UsageError(
                f"--palette {text!r}: {part!r} is not a colour; give one of {', '.join(PALETTES)}, or #rrggbb with commas"
            )
    return tuple(found)


def recoloured(spec: Any, own: Sequence[str]) -> Any:
    """Return a chart with its colours and their shades replaced by another palette's; its data are unchanged."""
    table = {
        shade(colour, step): shade(own[i % len(own)], step) for i, colour in enumerate(COLOURS) for step in _SHADES
    }
    return _replaced(spec, table)


def _replaced(part: Any, table: dict[str, str]) -> Any:
    if isinstance(part, dict):
        return {key: part[key] if key in ("values", "datasets") else _replaced(part[key], table) for key in part}
    if isinstance(part, list):
        return [_replaced(each, table) for each in part]
    return table.get(part.lower(), part) if isinstance(part, str) else part


def adaptive(svg: str) -> str:
    """Return a light SVG with a style rule that makes it dark for readers who prefer dark, even when shown as an image."""
    pairs = [(LIGHT[name], DARK[name]) for name in LIGHT]
    rules = "".join(_rule(name, light, dark) for name in ("fill", "stroke") for light, dark in pairs)
    head, _, rest = svg.partition(">")
    return f"{head}><style>@media (prefers-color-scheme: dark) {{{rules}}}</style>{rest}"


def _rule(name: str, light: str, dark: str) -> str:
    also = f',[{name}="white"]' if light == LIGHT["paper"] else ""
    return f'[{name}="{light}"]{also}{{{name}:{dark}}}'


def names() -> Iterable[str]:
    """Return every name that has a colour of its own."""
    return _SITES
