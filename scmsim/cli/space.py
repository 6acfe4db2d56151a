"""`scmsim space`: where the space of a device goes, on file systems and page-size policies."""

import json
from typing import Any

import click

SUMMARY = "Waste, metadata, page tables and contiguity of free space, on page-size policies and file systems."
_ALL = "pages-4k,pages-2m,pages-1g,two-zone,one-zone,tps,virtual-superpages"


@click.command(
    "space",
    help=f"""{SUMMARY}

TRACE is a stored trace, an experiment file (.toml) or the name of a shipped experiment.  Without --fs and --policy, all page-size
policies are shown (scmsim list policy).""",
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
    from scmsim import registry, space
    from scmsim.cli._progress import Progress
    from scmsim.cli.replay import _params, source_of
    from scmsim.errors import UsageError, unknown
    from scmsim.pipeline import opened

    systems, policies = _names(fs or ""), _names(_ALL if fs is None and policy is None else policy or "")
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
    source, _ = opened(source_of(trace))
    found = []
    with Progress() as progress:
        for name in policies:
            before = _ageing(name, params.get(name, {}), aged) if aged else None
            found.append(space.of_policy(source, name, params.get(name), aged=before, progress=progress))
        found += [space.of_fs(source, name, params.get(name), progress=progress) for name in systems]
    if as_json:
        click.echo(json.dumps([_object(one, source.files, by_file) for one in found]))
        return
    _table(found)
    for one in found if by_file else ():
        _files(one, source.files, top)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _ageing(policy: str, params: Any, percent: int) -> Any:
    from scmsim.pipeline import model_params
    from scmsim.workload import ageing

    return ageing.source(capacity=int(model_params("policy", policy, params)["capacity"]), utilisation=percent)


def _object(one: Any, files: Any, by_file: bool) -> dict[str, Any]:
    from scmsim.space import rows_by_file

    free_runs = {str(length): count for length, count in one.free_runs.items()}
    rows = {"by_file": list(rows_by_file(one, files))} if by_file else {}
    return {"name": one.name, **one.total, "free_runs": free_runs, **rows}


def _table(found: list[Any]) -> None:
    """Rows of figures, one column a policy or file system."""
    from scmsim.units import format_bytes

    names = list(dict.fromkeys(name for one in found for name in one.total))
    width = max(16, *(len(one.name) + 2 for one in found))
    click.echo(f"{'':24}" + "".join(f"{one.name:>{width}}" for one in found))
    for name in names:
        cells = (f"{one.total[name]:,}" if name in one.total else "-" for one in found)
        click.echo(f"{name:24}" + "".join(f"{cell:>{width}}" for cell in cells))
    lengths = sorted({length for one in found for length in one.free_runs})
    if lengths:
        click.echo("free runs of at least")
    for length in lengths:
        cells = (f"{one.free_runs[length]:,}" if length in one.free_runs else "-" for one in found)
        click.echo(f"  {format_bytes(length):22}" + "".join(f"{cell:>{width}}" for cell in cells))


def _files(one: Any, files: Any, top: int) -> None:
    import itertools

    from scmsim.printable import printable
    from scmsim.space import rows_by_file

    click.echo(f"\n{one.name}: files with the most waste")
    rows = list(itertools.islice(rows_by_file(one, files), top))
    if not rows:
        click.echo("  this model does not tell by file" if not one.files else "  none")
        return
    click.echo(f"{'waste':>16}{'allocated':>18}{'length':>18}  path")
    for row in rows:
        click.echo(
            f"{row['waste_bytes']:>16,}{row['allocated_bytes']:>18,}{row['file_bytes']:>18,}  {printable(row['path'])}"
        )
