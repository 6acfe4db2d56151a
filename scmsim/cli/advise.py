"""`scmsim advise`: find the page sizes, thresholds and granularity of copy-on-write that suit a trace."""

import json

import click

from scmsim.core.errors import UsageError

_FS = "ext4-dax,tmpfs"
SUMMARY = "Find the best page sizes, thresholds and copy-on-write grain for a trace (the Pareto front)."


@click.command(
    "advise",
    help=f"""{SUMMARY}

TRACE is a stored trace, an experiment file (.toml) or the name of a shipped experiment.  The command compares more than
10,000 combinations by page-walk cycles, wasted bytes and write amplification.  If the trace touches mapped files, each
file system of --fs also replays it with and without large pages, to show which files gain from large pages.""",
)
@click.argument("trace")
@click.option("--machine", default="i7-8700k", show_default=True, help="TLBs to use: a name, host or a .toml file.")
@click.option("--fs", default=_FS, show_default=True, help="File systems to replay mapped files on (scmsim list fs).")
@click.option("--capacity", help="Size of the device.  [default: 4 to 8 times the largest total size of the files]")
@click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="Number of threads to use.")
@click.option("--top", type=click.IntRange(1), default=15, show_default=True, help="Combinations of the front to show.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: recommended, the whole front, by_size and more.")
def command(trace: str, machine: str, fs: str, capacity: str | None, jobs: int, top: int, as_json: bool) -> None:
    from scmsim.cli import _mapped_files
    from scmsim.cli._progress import Progress
    from scmsim.cli.replay import source_of
    from scmsim.core.units import format_bytes, parse_bytes
    from scmsim.pipeline import open_source
    from scmsim.pipeline.arguments import names_of
    from scmsim.study.advise import text
    from scmsim.study.advise.profile import profile
    from scmsim.study.advise.search import advise

    size = 0 if capacity is None else parse_bytes(capacity)
    if size == 0 and capacity is not None:
        raise UsageError(
            f"--capacity {capacity!r} is 0; give the size of a device, like 64GiB, or leave --capacity out"
        )
    names = names_of(fs)
    source, _ = open_source(source_of(trace))
    with Progress() as progress:
        found = profile(source, progress)
    with Progress("placements") as progress:
        advice = advise(found, machine, size, jobs, progress)
    mapped = _mapped_files.worths(source, names, machine)
    if as_json:
        click.echo(json.dumps({**text.table(advice), **_mapped_files.table(mapped)}))
        return
    click.echo("\n".join(text.recommendation(advice)))
    click.echo(
        f"\n{len(advice.choices) + advice.infeasible:,} combinations ({advice.infeasible:,} do not fit a device of "
        f"{format_bytes(advice.capacity)}), {len(advice.front)} that no other beats"
    )
    if advice.profile.share < 1:
        click.echo(f"walks are those of {100 * advice.profile.share:.1f} % of the touches, in 16 stretches, scaled up")
    click.echo(f"{'walk cycles':>18}{'wasted bytes':>18}{'write ampl.':>13}")
    order = sorted(advice.front, key=lambda i: tuple(advice.costs[i]))
    for i in order[:: max(1, -(-len(order) // top))]:
        cost = advice.costs[i]
        click.echo(f"{cost[0]:>18,.0f}{cost[1]:>18,.0f}{cost[2]:>13.3f}  {text.sentence(advice.choices[i], advice)}")
    click.echo(
        f"\n{'files up to':>12}{'files':>10}{'touches':>10}{'overwritten':>18}{'on 4 KiB, wasted':>18}{'on 2 MiB':>18}  recommended"
    )
    for row in text.by_size(advice):
        click.echo(
            f"{format_bytes(row['up_to']):>12}{row['files']:>10,}{row['touches_percent']:>8.1f} %{row['overwritten_bytes']:>18,}"
            f"{row['waste_bytes']['4KiB']:>18,}{row['waste_bytes']['2MiB']:>18,}  {_pages(row['pages'])}"
        )
    for line in _mapped_files.lines(mapped, machine, top):
        click.echo(line)


def _pages(counts: dict[str, int]) -> str:
    """Return the recommended page size of a row's files, e.g. "2MiB", or the shares of several page sizes."""
    whole = sum(counts.values())
    used = {page: count for page, count in counts.items() if count}
    return (
        next(iter(used)) if len(used) == 1 else ", ".join(f"{page} {100 * n / whole:.0f} %" for page, n in used.items())
    )
