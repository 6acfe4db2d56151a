"""`scmsim perf check`: show what can be measured here, and the obstacles."""

from collections.abc import Sequence
from typing import Any

import click

SUMMARY = "Show what perf can measure on this machine, and the command that removes each obstacle."


@click.command("check", help=SUMMARY)
@click.option("--require-pmu", is_flag=True, help="Exit with code 3 unless hardware counters can be used.")
@click.option("--root", default="/", hidden=True, help="Read /proc and /sys below this folder.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: possible, backend, event_tables, findings, mounts, regions."
)
def command(require_pmu: bool, root: str, as_json: bool) -> None:
    import json

    from scmsim.perf import check
    from scmsim.perf.machine import Machine

    machine = Machine(root)
    if require_pmu:
        check.require_pmu(machine)
    report = check.examine(machine)
    click.echo(json.dumps(report.as_dict(), indent=2) if as_json else _text(report))


def _text(report: Any) -> str:
    """Return findings, mounts, what is possible, and what to do, as aligned tables."""
    found = [(f.name, f.value, f.remark) for f in report.findings]
    mounted = [(m.point, m.type, f"{_yes(m.dax)}  {m.remark}") for m in report.mounts]
    possible = [(name.replace("_", " "), answer) for name, answer in report.possible.items()]
    to_do = [line for f in report.obstacles for line in _to_do(f)]
    return "\n".join(
        [
            *_aligned(found),
            "",
            "mounted file systems: DAX",
            *_aligned(mounted),
            "",
            "possible here",
            *_aligned(possible),
            f"  back end: {report.backend or 'none'}",
            "",
            *(["to do", *to_do] if to_do else ["nothing stands in the way"]),
        ]
    )


def _to_do(finding: Any) -> list[str]:
    why = f" ({finding.remark})" if finding.remark else ""
    return [
        f"  {finding.effect}: {finding.name}: {finding.value}{why}",
        *([f"    {finding.fix}"] if finding.fix else []),
    ]


def _yes(answer: bool | None) -> str:
    return {True: "yes", False: "no ", None: "?  "}[answer]


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    if not rows:
        return ["  (none)"]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    cells = ([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1]] for row in rows)
    return [f"  {'  '.join(row)}".rstrip() for row in cells]
