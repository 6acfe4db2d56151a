"""`scmsim space`: show how file systems and page-size policies use the space of a device."""

import json
from typing import Any

import click

from scmsim.core.errors import UsageError, unknown
from scmsim.core.text import printable

SUMMARY = "Show waste, metadata, page tables and contiguity of free space of page-size policies and file systems."
_BY_FILE = {
    "waste_bytes": "waste",
    "allocated_bytes": "allocated",
    "file_bytes": "length",
    "mappable_2m_bytes": "by 2 MiB",
    "extents": "extents",
}
_ALL = "pages-4k,pages-2m,pages-1g,two-zone,one-zone,tps,virtual-superpages"


@click.command(
    "space",
    help=f"""{SUMMARY}

TRACE is a stored trace, an experiment file (.toml) or the name of a shipped experiment.  Without --fs and --policy, all page-size
policies are shown (scmsim list policy).  If the trace touches mapped files, each file system is also shown with large
pages allowed.""",
)
@click.argument("trace")
@click.option("--fs", help="File systems, separated by commas (scmsim list fs).")
@click.option("--policy", help="Page-size policies, separated by commas (scmsim list policy).")
@click.option("--set", "assignments", multiple=True, metavar="NAME.KEY=VALUE", help="A parameter; may be repeated.")
@click.option(
    "--aged", type=click.IntRange(1, 100), metavar="PERCENT", help="Policies: first age the device to this utilisation."
)
@click.option("--by-file", is_flag=True, help="Show the files with the most waste too.")
@click.option(
    "--top", default=20, show_default=True, type=click.IntRange(1, 1_000_000), help="Files to show with --by-file."
)
@click.option(
    "--extents",
    type=click.Path(),
    metavar="FILE",
    help="File systems: write the extents of every file and of the free space (.csv, .parquet).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: an object per policy or file system (every file).")
def command(
    trace: str,
    fs: str | None,
    policy: str | None,
    assignments: tuple[str, ...],
    aged: int | None,
    by_file: bool,
    top: int,
    extents: str | None,
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
    if extents is not None:
        _check_extents(extents, systems, policies)
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
    if extents is not None:
        _write_extents(found, source.files.path, extents)
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


def _check_extents(path: str, systems: list[str], policies: list[str]) -> None:
    """Raise UsageError if the extents of the named file systems cannot be written to a file; called before the work starts."""
    import pathlib

    from scmsim.core import registry
    from scmsim.core.atomic import writable
    from scmsim.result.extents import SUFFIXES, without

    if policies:
        raise UsageError("--extents works for file systems only; name them with --fs, and leave --policy out")
    if pathlib.Path(path).suffix not in SUFFIXES:
        raise UsageError(f"--extents {path!r}: the name must end in {' or '.join(SUFFIXES)}")
    writable(path)
    for name in systems:
        if not hasattr(registry.load("fs", name), "extents"):
            raise UsageError(without(name))


def _write_extents(found: list[Any], paths: Any, path: str) -> None:
    from scmsim.result.extents import frame, write

    write({one.name: frame(one.extents, paths) for one in found}, path)
    click.echo(f"wrote {path}", err=True)


def _ageing(policy: str, params: Any, percent: int) -> Any:
    from scmsim.pipeline import model_params
    from scmsim.workload import ageing

    return ageing.Workload(capacity=int(model_params("policy", policy, params)["capacity"]), utilisation=percent)


def _object(one: Any, files: Any, by_file: bool) -> dict[str, Any]:
    from scmsim.study.space import rows_by_file

    free_runs = {str(length): count for length, count in one.free_runs.items()}
    file_runs = {"file_runs": {str(length): count for length, count in one.file_runs.items()}} if one.file_runs else {}
    rows = {"by_file": list(rows_by_file(one, files))} if by_file else {}
    return {"name": one.name, **one.total, "free_runs": free_runs, **file_runs, **rows}


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
    for table, title in (("file_runs", "extents of files of at least"), ("free_runs", "free runs of at least")):
        lengths = sorted({length for one in found for length in getattr(one, table)})
        if lengths:
            rows.append([title, *[""] * len(found)])
            rows += [[f"  {format_bytes(length)}", *cells(table, length)] for length in lengths]
    click.echo(grid(rows, terminal_width()))


def _files(one: Any, files: Any, top: int) -> None:
    import itertools

    from scmsim.study.space import rows_by_file

    click.echo(f"\n{one.name}: files with the most waste")
    rows = list(itertools.islice(rows_by_file(one, files), top))
    if not rows:
        click.echo("  this model does not report waste by file" if not one.files else "  none")
        return
    columns = {name: title for name, title in _BY_FILE.items() if name in rows[0]}
    click.echo("".join(f"{title:>18}" for title in columns.values()) + "  path")
    for row in rows:
        click.echo("".join(f"{row[name]:>18,}" for name in columns) + f"  {printable(row['path'])}")
