"""`scmsim space`: show how the space of a device is used, on file systems and page-size policies."""

import json
from typing import Any

import click

from scmsim.core.errors import UsageError, unknown
from scmsim.core.text import printable

SUMMARY = "Waste, metadata, page tables and contiguity of free space, on page-size policies and file systems."
_ALL = "pages-4k,pages-2m,pages-1g,two-zone,one-zone,tps,virtual-superpages"


@click.command(
    "space",
    help=f"""{SUMMARY}

TRACE is a stored trace, an experiment file (.toml) or the name of a shipped experiment.  Without --fs and --policy, all page-size
policies are shown (scmsim list policy).  If the trace touches mapped files, a file system is shown with large pages allowed,
too.""",
)
@click.argument("trace")
@click.option("--fs", help="File systems, separated by commas (scmsim list fs).")
@click.option("--policy", help="Page-size policies, separated by commas (scmsim list policy).")
@click.option("--set", "assignments", multiple=True, metavar="NAME.KEY=VALUE", help="A parameter; may be repeated.")
@click.option(
    "--aged", type=click.IntRange(1, 100), metavar="PERCENT", help="Policies: age the device to this use first."
)
@click.option("--by-file", is_flag=True, help="Show the files with the most waste too.")
@click.option(
    "--top", default=20, show_default=True, type=click.IntRange(1, 1_000_000), help="Files to show with --by-file."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: one object a policy or file system (every file).")
def command(
    trace: str,
    fs: str | None,
    policy: str | None,
    assignments: tuple[str, ...],
    aged: int | None,
    by_file: bool,
    top: int,
    as_json: bool,
) -> None:
    from scmsim.cli._progress import Progress
    from scmsim.cli.replay import _params, source_of
    from scmsim.core import registry
    from scmsim.pipeline import open_source
    from scmsim.study import space

    systems = registry.select("fs", fs) if fs else []
    policies = (
        registry.select("policy", policy or "") if policy else _ALL.split(",") if fs is None and policy is None else []
    )
    if not systems and not policies:
        raise UsageError("no file system or policy given; name one or more, e.g. --policy two-zone")
    for kind, names in (("fs", systems), ("policy", policies)):
        for name in names:
            registry.path(kind, name)
    if aged and systems:
        raise UsageError("--aged works for page-size policies only; leave --fs out, or age with 'scmsim synth ageing'")
    params = _params(assignments)
    for name in params:
        if name not in (*systems, *policies):
            raise unknown("file system or policy shown here", name, (*systems, *policies))
    source, _ = open_source(source_of(trace))
    found: list[Any] = []
    left_out: list[space.NoRoom] = []
    with Progress() as progress:
        for name in policies:
            before = _ageing(name, params.get(name, {}), aged) if aged else None
            try:
                found.append(space.of_policy(source, name, params.get(name), aged=before, progress=progress))
            except space.NoRoom as error:
                left_out.append(error)
        for name in systems:
            found += _with_large_pages(source, name, params.get(name, {}), progress)
    if left_out and (policy is not None or not found):
        raise left_out[0]
    for reason in left_out:
        click.echo(f"scmsim: warning: left out: {reason}", err=True)
    if as_json:
        click.echo(json.dumps([_object(one, source.files, by_file) for one in found]))
        return
    _table(found)
    for one in found if by_file else ():
        _files(one, source.files, top)


def _with_large_pages(source: Any, fs: str, params: dict[str, str], progress: Any) -> list[Any]:
    """Return a file system's space; for mapped files, also with the parameter that allows large pages, if any."""
    import dataclasses

    from scmsim.study import space
    from scmsim.study.page_size.benefit import setting_of

    found = [space.of_fs(source, fs, params, progress=progress)]
    if "mapped_files" in found[0].total and (setting := setting_of(fs, params)):
        key, _, value = setting.partition("=")
        large = space.of_fs(source, fs, {**params, key: value}, progress=progress)
        found.append(dataclasses.replace(large, name=f"{fs} {setting}"))
    return found


def _ageing(policy: str, params: Any, percent: int) -> Any:
    from scmsim.pipeline import model_params
    from scmsim.workload import ageing

    return ageing.Workload(capacity=int(model_params("policy", policy, params)["capacity"]), utilisation=percent)


def _object(one: Any, files: Any, by_file: bool) -> dict[str, Any]:
    from scmsim.study.space import rows_by_file

    free_runs = {str(length): count for length, count in one.free_runs.items()}
    rows = {"by_file": list(rows_by_file(one, files))} if by_file else {}
    return {"name": one.name, **one.total, "free_runs": free_runs, **rows}


def _table(found: list[Any]) -> None:
    """Print rows of figures with their units, with one column per policy or file system."""
    from scmsim.core.units import format_bytes
    from scmsim.result import glossary
    from scmsim.result.tables.layout import grid, terminal_width

    def cells(table: str, key: Any) -> list[str]:
        values = (getattr(one, table).get(key) for one in found)
        return ["-" if value is None else f"{value:,}" for value in values]

    rows = [["", *(one.name for one in found)]]
    for name in dict.fromkeys(name for one in found for name in one.total):
        unit = f", {glossary.unit(name)}" if glossary.unit(name) in ("bytes", "ns") else ""
        rows.append([f"{glossary.label(name)}{unit}", *cells("total", name)])
    lengths = sorted({length for one in found for length in one.free_runs})
    if lengths:
        rows.append(["free runs of at least", *[""] * len(found)])
        rows += [[f"  {format_bytes(length)}", *cells("free_runs", length)] for length in lengths]
    click.echo(grid(rows, terminal_width()))


def _files(one: Any, files: Any, top: int) -> None:
    import itertools

    from scmsim.study.space import rows_by_file

    click.echo(f"\n{one.name}: files with the most waste")
    rows = list(itertools.islice(rows_by_file(one, files), top))
    if not rows:
        click.echo("  this model does not tell by file" if not one.files else "  none")
        return
    large = "mappable_2m_bytes" in rows[0]
    click.echo(f"{'waste':>16}{'allocated':>18}{'length':>18}{'by 2 MiB' if large else '':>{18 * large}}  path")
    for row in rows:
        told = f"{row['mappable_2m_bytes']:>18,}" if large else ""
        click.echo(
            f"{row['waste_bytes']:>16,}{row['allocated_bytes']:>18,}{row['file_bytes']:>18,}{told}  {printable(row['path'])}"
        )
