"""`scmsim trace convert`: convert any format to a trace, or a trace to a writable format.

`scmsim capture` also uses this module to report losses.
"""

import json
import os
from typing import Any

import click

from scmsim.cli._progress import amount
from scmsim.core import atomic
from scmsim.core.errors import UsageError, unknown
from scmsim.core.text import printable

INCOMPLETE = 4  # exit code: more is lost or uncertain than allowed


def convert(source: str, out: str, name: str | None, to: str | None, given: dict[str, str], **more: Any) -> Any:
    """Convert a file; return (name of the format, its Report); `more` goes to the importer."""
    atomic.writable(out)
    under = more.get("under")
    if under and not os.path.isabs(under):
        raise UsageError(
            f"--under {under!r} is not an absolute path; give the path as the traced program saw it, like '/var/db'"
        )
    return _export(source, out, to, name, given, more) if to else _import(source, out, name, given, more)


def by_ending(out: str) -> str | None:
    """Return the writable format with the suffix of a file's name, or None."""
    from scmsim.core import registry
    from scmsim.trace.formats import writable

    ending = os.path.splitext(out)[1].lower()
    return next((name for name in writable() if registry.literals("format", name).get("ENDING") == ending), None)


def _import(source: str, out: str, name: str | None, given: dict[str, str], more: dict[str, Any]) -> Any:
    from scmsim.trace import TraceWriter
    from scmsim.trace.formats import find
    from scmsim.trace.reading.input import Input

    columns = more.pop("columns", None)
    if columns:
        given, name = {**given, "columns": columns}, name or "csv"
    with Input(source) as opened:
        name, importer = find(opened, name)
        options = {**_params(name, "PARAMS", given), **({"under": more["under"]} if more["under"] else {})}
        with TraceWriter(out, {}) as writer, amount("converting") as progress:
            report = importer.convert(opened, writer, strict=more["strict"], progress=progress, **options)
    return name, report


def _export(source: str, out: str, to: str, name: str | None, given: dict[str, str], more: dict[str, Any]) -> Any:
    from scmsim.core import registry
    from scmsim.trace import open_trace
    from scmsim.trace.formats import writable

    if to not in writable():
        raise unknown("format that can be written", to, writable())
    for option, value in (("--format", name), ("--under", more["under"]), ("--columns", more["columns"])):
        if value:
            raise UsageError(f"{option} is for reading a format, not for writing {to}; leave {option} out")
    options = _params(to, "EXPORT_PARAMS", given)
    with amount("writing") as progress:
        return to, registry.load("format", to).export(open_trace(source), out, progress=progress, **options)


def _params(name: str, which: str, given: dict[str, str]) -> dict[str, Any]:
    """Parse the values of --set by the units that the format declares."""
    from scmsim.core import registry
    from scmsim.core.units import parse_param

    declared = registry.literals("format", name).get(which, {})
    if given and not declared and name in registry.names("workload"):
        raise UsageError(f"{name} has no options here; 'scmsim synth {name}' generates the same workload, with options")
    out: dict[str, Any] = {}
    for key, text in given.items():
        if key not in declared:
            raise unknown(f"option of {name}", key, declared) if declared else UsageError(f"{name} has no options")
        unit = declared[key][1]
        try:
            out[key] = parse_param(text, unit)
        except UsageError as error:
            raise UsageError(f"{name}.{key}: {error}") from None
    return out


def pairs(texts: tuple[str, ...]) -> dict[str, str]:
    """Parse NAME=VALUE texts to a dictionary."""
    for text in texts:
        if "=" not in text:
            raise UsageError(f"--set {text!r} is not NAME=VALUE, like --set unit=512")
    return dict(text.split("=", 1) for text in texts)


class Share(click.ParamType):
    """A share from 0 to 1, or in percent: 0.05 or 5%."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value)
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            self.fail(f"{text!r} is not a share; give a number from 0 to 1, or a percentage like 5%", param, ctx)
        return share


allow_loss = click.option(
    "--allow-loss",
    type=Share(),
    metavar="SHARE",
    help="Accept that up to this share of rows or bytes is lost or uncertain, e.g. 5%; above it, exit code 4.  "
    "[default: 1%, and no lost event]",
)


def loss(out: str, report: Any, allowed: float | None) -> int:
    """Print on stderr what was lost, if it is more than allowed; return the exit code."""
    if not report.is_incomplete(allowed):
        return 0
    first = f", the first in line {report.bad_lines[0][0]}: {report.bad_lines[0][1]}" if report.bad_lines else ""
    line = (
        f"scmsim: incomplete: {', '.join(report.losses())}{first}; {out} was written all the same, "
        "accept it with --allow-loss SHARE"
    )
    click.echo(printable(line), err=True)
    return INCOMPLETE


def summary_line(out: str, name: str, report: Any, *, exported: bool) -> str:
    """Return one line about a finished conversion."""
    if exported:
        return f"{out}: {report.rows} lines of {name} from {report.calls} of {report.lines} rows, {report.files} files"
    return f"{out}: {report.rows} rows from {report.calls} calls ({report.lines} lines of {name}), {report.files} files"


def as_json(source: str, out: str, name: str, report: Any) -> str:
    """Return everything about a finished conversion, as JSON."""
    return json.dumps({"in": source, "out": out, "format": name, **report.as_dict()}, indent=2)


def left_out(report: Any) -> list[str]:
    """Return a line for each reason why rows were left out, the most frequent first."""
    ordered = sorted(report.left_out.items(), key=lambda item: -item[1])
    return [f"  left out {count:>10}  {reason}{_names(reason, report)}" for reason, count in ordered]


def _names(reason: str, report: Any) -> str:
    """Return the names and counts of the calls that were left out for a reason, the most frequent first."""
    if not reason.startswith(("failed", "not a file op")):
        return ""
    counts = report.failed if reason.startswith("failed") else report.other
    return ": " + ", ".join(f"{name} {count}" for name, count in counts.most_common(6)) if counts else ""
