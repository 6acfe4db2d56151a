"""`scmsim mrc`: count the TLB misses of every geometry, or of every capacity, in one pass."""

import json
import pathlib
from collections.abc import Iterator
from itertools import chain
from typing import Any

import click

from scmsim.cli._figures import chosen, figure_style, figure_title
from scmsim.core.errors import UsageError

SUMMARY = "Count the exact LRU misses of all TLB geometries, or of all capacities, in one pass."
_FEWEST = 100  # minimum number of sampled pages that a capacity must hold
_PAGES = "4KiB,64KiB,2MiB,1GiB"


@click.command(
    "mrc",
    help=f"""{SUMMARY}

FILE has memory accesses (see scmsim mmu --help) or is a trace. A trace of file operations is first replayed on --fs; an
access is then the touch of a 4 KiB page. Without --fs, an access is a 4 KiB page of a request (block traces), or an
object (object traces, always as --curve). Page runs (.pages.npz) get the page sizes of --page, not their own. The
table has the columns page, sets, ways, misses; with --curve page, entries, misses.""",
)
@click.argument("file", type=click.Path())
@click.option("--sets", default=",".join(str(1 << k) for k in range(12)), show_default=True, help="Powers of two.")
@click.option("--ways", default="1-16", show_default=True, help="Ways: a range, or numbers with commas, up to 16.")
@click.option("--page", default=_PAGES, show_default=True, help="Page sizes: powers of two from 4KiB to 1GiB.")
@click.option("--curve", is_flag=True, help="Fully associative arrays of all capacities (2^k and 3 x 2^k are shown).")
@click.option(
    "--sample",
    type=float,
    metavar="RATE",
    help="Follow only this share of the pages and estimate the misses (for 100,000 pages or more).",
)
@click.option("--fs", help="File system to replay a trace on.  [default: nova-cow; block and object traces: no replay]")
@click.option("--paging", help="How the file system's memory is mapped.  [default: the file system's choice]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: accesses, access, replayed_on, rows.")
@click.option("-o", "--out", type=click.Path(), help="Write the rows to F.csv or F.parquet.")
@click.option(
    "--plot", type=click.Path(), help="Draw the misses: F.svg, F.png, F.pdf, F.html (needs the extra 'report')."
)
@figure_title
@figure_style
def command(
    file: str,
    sets: str,
    ways: str,
    page: str,
    curve: bool,
    sample: float | None,
    fs: str | None,
    paging: str | None,
    **how: Any,
) -> None:
    from scmsim.cli._accesses import OBJECT, of_file
    from scmsim.core.atomic import writable
    from scmsim.mmu import mrc, order_of

    style = chosen(how["width"], how["title"], how["palette"])
    _unused(file, curve or sample is not None)
    if sample is not None and not 0 < sample <= 1:
        raise UsageError(f"--sample {sample} is not a share of the pages; give a number above 0 and at most 1")
    out, plot = how["out"], how["plot"]
    for path, kinds in ((out, (".csv", ".parquet")), (plot, (".svg", ".png", ".pdf", ".html"))):
        if path is not None and pathlib.Path(path).suffix not in kinds:
            raise UsageError(f"{path!r}: the name must end in {' or '.join(kinds)}")
        if path is not None:
            writable(path)
    orders = {text.strip(): order_of(text.strip()) for text in page.split(",")}
    counts, widths = _numbers(sets, "sets"), _numbers(ways, "ways")
    if any(count & (count - 1) or count > 1 << 20 for count in counts):
        raise UsageError(f"--sets {sets}: each must be a power of two up to {1 << 20}")
    if max(widths) > mrc.WAYS:
        raise UsageError(f"--ways {ways}: at most {mrc.WAYS}; use --curve for full associativity")
    given = of_file(file, fs, paging)
    if given.access == OBJECT:
        _no_pages(file)
        orders, curve = {"object": order_of("4KiB")}, True
    parts = (addresses for _, addresses in given.batches)
    first = next(parts, None)  # raises for an unreadable file before kernels are compiled
    tables: dict[str, Any] = {}
    for text, order in orders.items():
        if sample is not None:
            tables[text] = mrc.Sample(order, sample, [1 << k for k in range(4, 31)])
        else:
            tables[text] = mrc.Curve(order) if curve else mrc.Geometries(order, counts)
    try:
        for part in chain([] if first is None else [first], parts):
            for table in tables.values():
                table.add(part)
    except ValueError:
        raise UsageError("the addresses are in more than 255 regions of 2^24 pages; use --curve") from None
    rows = [row for text, table in tables.items() for row in _rows(text, table, counts, widths)]
    if not rows:
        raise UsageError(
            f"--sample {sample} follows too few pages for any capacity ({_FEWEST} are needed); "
            "give a larger share, or use --curve, which is exact"
        )
    accesses = next(iter(tables.values())).accesses
    if out is not None:
        _write(out, rows)
    if plot is not None:
        from scmsim.plot.misses import draw

        draw(rows, plot, given.label(file, paging), style)
    for path in filter(None, (out, plot)):
        click.echo(f"wrote {path}", err=True)
    if how["as_json"]:
        click.echo(json.dumps({"accesses": accesses, "access": given.access, "replayed_on": given.fs, "rows": rows}))
    elif not out and not plot:
        _print(rows, accesses)
    if note := given.note(file):
        click.echo(note, err=True)


def _unused(file: str, curve: bool) -> None:
    """Raise UsageError for options that would have no effect."""
    from scmsim.mmu import accesses

    context = click.get_current_context()
    given = [
        name
        for name in ("sets", "ways", "fs", "paging")
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    ]
    shapes = [f"--{name}" for name in given if name in ("sets", "ways")]
    models = [f"--{name}" for name in given if name in ("fs", "paging")]
    if curve and shapes:
        raise UsageError(
            f"--curve and --sample (fully associative) ignore {' and '.join(shapes)}; leave one or the other out"
        )
    if models and accesses.is_access_file(file):
        raise UsageError(f"{file!r} has addresses, so it is not replayed; leave {' and '.join(models)} out")


def _no_pages(file: str) -> None:
    """Raise UsageError for options that would have no effect on objects."""
    context = click.get_current_context()
    for name in ("page", "sets", "ways"):
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise UsageError(
                f"--{name} has no effect on {file!r}, whose objects have no pages and no sets; leave --{name} out, or add --fs"
            )


def _numbers(text: str, what: str) -> list[int]:
    """Parse the numbers of "1,2,4" or "1-16"."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not dash)) or len(part) > 20:
            raise UsageError(f"--{what} {text!r}: write numbers with commas, or a range such as 1-16")
        low, high = int(first), int(last or first)
        if not 1 <= low <= high or high - low > 1 << 16:
            raise UsageError(f"--{what} {text!r}: {part.strip()!r} must ascend from 1 or more and span up to 65,536")
        numbers.update(range(low, high + 1))
    return sorted(numbers)


def _rows(page: str, table: Any, sets: list[int], ways: list[int]) -> Iterator[dict[str, Any]]:
    from scmsim.mmu import mrc

    if isinstance(table, mrc.Geometries):
        misses = table.misses()
        for k, count in enumerate(sets):
            for way in ways:
                yield {"page": page, "sets": count, "ways": way, "misses": int(misses[k, way - 1])}
    elif isinstance(table, mrc.Curve):
        steps = sorted({*(1 << k for k in range(31)), *(3 << k for k in range(30))})
        shown = [entries for entries in steps if entries < table.pages] + [max(table.pages, 1)]
        for entries, count in zip(shown, table.misses(shown), strict=True):
            yield {"page": page, "entries": entries, "misses": int(count)}
    else:
        for entries, count, spread in zip(table.capacities, *table.misses(), strict=True):
            if entries * table.rate < _FEWEST or entries > 2 * table.pages:
                continue  # too few sampled pages for an estimate, or the capacity holds all pages
            yield {"page": page, "entries": int(entries), "misses": round(count), "interval_95": round(spread)}


def _write(path: str, rows: list[dict[str, Any]]) -> None:
    import pandas as pd

    from scmsim.core.atomic import whole

    frame = pd.DataFrame(rows)
    with whole(path) as draft:
        if draft.suffix == ".csv":
            frame.to_csv(draft, index=False)
        else:
            frame.to_parquet(draft)


def _print(rows: list[dict[str, Any]], accesses: int) -> None:
    click.echo(f"{accesses:,} accesses")
    if "ways" not in rows[0]:
        click.echo("".join(f"{name:>16}" for name in rows[0]) + f"{'miss ratio':>14}")
        for row in rows:
            cells = "".join(f"{row[name]:>16,}" if name != "page" else f"{row[name]:>16}" for name in row)
            click.echo(cells + f"{row['misses'] / max(accesses, 1):>14.6f}")
        return
    ways = sorted({row["ways"] for row in rows})
    for page in dict.fromkeys(row["page"] for row in rows):
        click.echo(f"\nmiss ratio, pages of {page}\n{'sets':>6} " + "".join(f"{way:>9}" for way in ways) + "  ways")
        found = {(row["sets"], row["ways"]): row["misses"] for row in rows if row["page"] == page}
        for count in sorted({sets for sets, _ in found}):
            ratios = "".join(f"{found[count, way] / max(accesses, 1):>9.6f}" for way in ways)
            click.echo(f"{count:>6} {ratios}")
