"""`scmsim artifact verify`: check an artifact's files, run it again, and print a verdict on every claim."""

import json
import math
from typing import TYPE_CHECKING

import click

from scmsim.core.text import printable

if TYPE_CHECKING:
    from scmsim.artifact import Verification
    from scmsim.artifact.claims import Claim

SUMMARY = "Check the files of an artifact, run it again, and print a verdict on every claim."

_SHOWN = 20  # most claims, files and notes to list
_SAME = "the same sources"


@click.command(
    "verify",
    help=f"""{SUMMARY}

FOLDER comes from artifact make; the command writes nothing into it. Exit code 1 if a file has changed (then nothing is
run) or a claim is not met. If versions of scmsim, Python or packages differ, the command lists them and checks the
claims all the same.""",
)
@click.argument("folder", type=click.Path())
@click.option("--files", is_flag=True, help="Check the files and the versions only; run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: verdict, counts, changed, versions, claims.")
def command(folder: str, files: bool, as_json: bool) -> int:
    from scmsim.artifact import verify
    from scmsim.cli._progress import is_quiet

    found = verify(folder, not files, is_quiet())
    click.echo(json.dumps(found.as_dict(), indent=2, allow_nan=False) if as_json else _text(found))
    return 0 if found.verdict in ("reproduced", "files only") else 1


def _text(found: "Verification") -> str:
    lines = [*_files(found), *_versions(found), *_listed("note", found.notes)]
    if found.claims:
        lines += ["", *_quantities(found.claims), *_listed("out", map(_told, _of(found, "out")))]
        lines += _listed("differs, without a tolerance", map(_told, _of(found, "differs")))
    return "\n".join([*map(printable, lines), "", _verdict(found)])


def _files(found: "Verification") -> list[str]:
    changes = found.changes
    lines = changes.lines or ["files: all unchanged"]
    return [*lines, *(f"not part of the artifact: {name}" for name in changes.extra[:_SHOWN])]


def _versions(found: "Verification") -> list[str]:
    lines = [f"{name} {here} here, {packed} in the artifact" for name, (packed, here) in found.versions.items()]
    if found.changes.lines:
        return lines
    if not found.sources:
        return [*lines, f"scmsim's code and tables: {_SAME}"]
    return [*lines, *_listed(f"{len(found.sources)} of scmsim's files differ", found.sources)]


def _of(found: "Verification", verdict: str) -> list["Claim"]:
    return [claim for claim in found.claims if claim.verdict == verdict]


def _quantities(claims: list["Claim"]) -> list[str]:
    """Return a table with a line for each quantity that has a tolerance, and one line for all figures without."""
    from scmsim.artifact.claims import SHOWN, VERDICTS, off_percent

    groups: dict[tuple[str, str], list[Claim]] = {}
    for claim in claims:
        name = "figures without a tolerance" if claim.basis == SHOWN else claim.quantity
        limit = "" if not claim.percent else f" {claim.percent:g} %"
        groups.setdefault((name, claim.basis + limit), []).append(claim)
    width = max(len(name) for name, _ in groups)
    lines = [
        f"{'claim':{width}}  {'basis':14}" + "".join(f"{verdict:>9}" for verdict in VERDICTS) + "  largest difference"
    ]
    for (name, basis), members in sorted(groups.items(), key=lambda one: one[0][1].startswith(SHOWN)):
        counts = [sum(claim.verdict == verdict for claim in members) for verdict in VERDICTS]
        off = max((abs(part) for claim in members if (part := off_percent(claim)) is not None), default=0.0)
        said = "" if not off else f"  {off:.3g} %" if math.isfinite(off) else "  from 0"
        lines.append(f"{name:{width}}  {basis:14}" + "".join(f"{count or '-':>9}" for count in counts) + said)
    return lines


def _told(claim: "Claim") -> str:
    found = "missing" if claim.found is None else claim.found
    return f"{claim.about}: {claim.quantity} {found}, expected {claim.packed}"


def _listed(title: str, lines: object) -> list[str]:
    """Return a title and at most _SHOWN indented lines; empty if there are no lines."""
    found = list(lines)  # type: ignore[call-overload]
    more = [f"  and {len(found) - _SHOWN} more; see --json"] if len(found) > _SHOWN else []
    return [f"{title}:", *(f"  {line}" for line in found[:_SHOWN]), *more] if found else []


def _verdict(found: "Verification") -> str:
    counts = found.counts
    if found.verdict == "changed":
        return f"changed: files that are not those of the artifact: {len(found.changes.lines)}; nothing was run"
    if found.verdict == "files only":
        return "files only: nothing was run"
    other = "" if not found.sources else f"; with other sources of scmsim ({len(found.sources)} files differ)"
    figures = ", ".join(
        f"{count:,} {verdict}" for verdict, count in counts.items() if count or verdict in ("equal", "out")
    )
    return (
        f"{'not reproduced' if counts['out'] else 'reproduced'}: {figures}, of {sum(counts.values()):,} figures{other}"
    )
