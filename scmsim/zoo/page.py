"""Write the zoo as a Markdown page and as a CSV table; a version of scmsim writes the same bytes on every machine."""

from collections.abc import Iterator, Mapping, Sequence

from scmsim.core.text import printable
from scmsim.result.tables.figures import ABSENT, number
from scmsim.result.tables.layout import comma_separated, markdown
from scmsim.sweep.point import WARNINGS
from scmsim.zoo import FIGURES, SPANNED, Entry, Row, Zoo
from scmsim.zoo.compared import BESIDE, COLUMNS, SORTED_BY, compared, ranked

PICTURE = "zoo.svg"  # beside the page
_HEAD = ["file system", *FIGURES, "failed", "sha256"]
_PARTS = ("low", "high", "basis")  # parts of an interval
_DIGITS = 8  # hexadecimal digits of a hash in a row; the CSV has more (zoo._HASH)

_FIRST = """# Zoo
Every trace of `traces` and some workloads, on every file system. Machine {machine}, medium {medium}, each file system's own
mapping. What is dirty at the end is written back and counts. Walks and misses have what the kernel's own code touches in them,
[as measured](../validation/tlb.md) on Linux 5.10. File systems that refuse most calls (device-dax, famfs, hugetlbfs) have rows in
the entries that they run, [chase](#chase) and [kvcache](#kvcache).
"""
_MADE = """## How this page is made

    scmsim zoo -o zoo

replays all of it in minutes. `zoo/zoo.md` is this page, `zoo/zoo.svg` its picture, `zoo/zoo.csv` its tables as one, with longer
hashes. The same command resumes a run that was stopped; `--trace 'git,sqlite*'` and `--fs 'nova*'` narrow it. `zoo` is the folder
of a [sweep](../guide/sweep.md), whose `results.parquet` has every counter.

All counts of this page: `{sha256}`.
"""
_INTERVALS = """
## How far off a figure may be
[90 % intervals](../guide/intervals.md): the figures of the tables below, times these numbers. Where entries differ, the widest
is shown; calls of one kind (append) have narrower ones. `zoo.csv` has each figure's bounds. A dash, or a file system that is
missing here: nothing was measured. "All models": whole workloads were never measured on this file system, and the interval
assumes that it is modelled as well as the measured ones; a file system of class C may be further off.

"""
_COLUMNS = """| column | meaning |
|---|---|
| ns a call | an estimate; its class says how far to trust it |
| stored / written | bytes stored to memory per byte that the program wrote |
| loaded / read | bytes loaded from memory per byte that the program read |
| waste, % | bytes of last pages that hold nothing, of those allocated for data |
| failed | operations that failed, mostly for want of space; the column is shown where there are any |
| sha256 | its first digits: of a trace's file, of a workload's operations, of all counts of a replay |

A dash: nothing to divide by, or not in the model. On the file systems marked \\* some operations failed or were not replayed:
these rows come last, and no median has them.
"""


def text(zoo: Zoo, picture: bool = False) -> str:
    """Return the page; with `picture`, the page shows the file PICTURE in its folder."""
    return "\n".join(_lines(zoo, picture)) + "\n"


def table(zoo: Zoo) -> str:
    """Return the zoo as one CSV table, in which the columns that describe the entry come first."""
    entries = {entry.name: entry for entry in zoo.entries}
    head = [
        "entry",
        "what",
        "licence",
        "operations",
        "sha256",
        "fs",
        *FIGURES,
        "class",
        "failed",
        "counts",
        "warnings",
        "error",
        *(f"{part} of {column}" for column in SPANNED for part in _PARTS),
    ]
    rows: list[Sequence[object]] = [head]
    for row in zoo.rows:
        entry = entries[row.entry]
        about = [entry.name, entry.what, entry.licence, entry.operations, entry.sha256]
        rows.append(
            [
                *about,
                row.fs,
                *row.figures.values(),
                row.time_class,
                row.failed,
                row.sha256,
                row.warnings,
                row.error,
                *(row.intervals.get(column, {}).get(part) for column in SPANNED for part in _PARTS),
            ]  # fmt: skip
        )
    return comma_separated(rows) + "\n"


def _lines(zoo: Zoo, picture: bool) -> Iterator[str]:
    yield _FIRST.format(machine=zoo.machine, medium=zoo.medium)
    yield from _overview(zoo.rows, picture)
    yield "\n## How far a time may be trusted\n| class | meaning | file systems | from |\n|---|---|---|---|"
    for kind in zoo.classes:
        named = sorted({row.fs for row in zoo.rows if row.time_class == kind.name})
        if named:
            yield f"| {kind.name} | {kind.meaning} | {', '.join(named)} | {kind.source} |"
    yield from _spans(zoo.rows)
    yield "\n## What is replayed\n| entry | what it is | licence | operations | sha256 |\n|---|---|---|---:|---|"
    for entry in zoo.entries:
        about = f"[{entry.name}](#{entry.name}) | {printable(entry.what)} | {entry.licence}"
        yield f"| {about} | {entry.operations:,} | `{entry.sha256}` |"
    yield "\nTraces were recorded by this project and hold operations and names, no contents; generators are this project's own.\n"
    yield "## Columns of the tables below\n" + _COLUMNS
    yield _MADE.format(sha256=zoo.sha256)
    for entry in zoo.entries:
        yield from _section(entry, [row for row in zoo.rows if row.entry == entry.name])


def _overview(rows: Sequence[Row], picture: bool) -> Iterator[str]:
    """Yield the section with each file system's median ratios to the file system `compared.BESIDE`."""
    found = compared(rows)
    if not found:
        return
    yield f"## Beside {BESIDE}\nFigures divided by those of {BESIDE}: median over the entries, fewest loads and stores first.\n"
    if picture:
        yield f"![{', '.join(COLUMNS)} of every file system, as times those of {BESIDE}]({PICTURE})\n"
    yield markdown(
        [
            ["file system", *COLUMNS, "class"],
            *([each.fs, *map(number, each.medians), each.time_class] for each in found),
        ]
    )


def _spans(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the section of the 90 % intervals, with a row for each file system that has any, as multiples of figures."""
    found = []
    for fs in sorted({row.fs for row in rows}):
        own = [row for row in rows if row.fs == fs]
        cells, bases = zip(*(_span(own, column) for column in SPANNED), strict=True)
        if any(bases):
            found.append([fs, *cells, next(filter(None, bases))])
    if found:
        yield _INTERVALS + markdown([["file system", *SPANNED, "from"], *found])


def _span(rows: Sequence[Row], column: str) -> tuple[str, str]:
    """Return (widest interval of a file system's figure as multiples of the figure, its basis); (dash, "") if there is none."""
    found = []
    for row in rows:
        span, value = row.intervals.get(column, {}), row.figures[column]
        if span.get("low") and value:
            found.append((span["low"] / value, span["high"] / value, str(span["basis"])))
    if not found:
        return ABSENT, ""
    low, high, basis = max(found, key=lambda span: span[1] / span[0])
    return f"{low:.2f} to {high:.2f}", basis


def _section(entry: Entry, rows: Sequence[Row]) -> Iterator[str]:
    yield f"\n## {entry.name}\n{entry.what[:1].upper()}{entry.what[1:]}.\n"
    shown = ranked([row for row in rows if not row.error])
    if shown:
        yield _extremes([row for row in shown if row.whole])
        yield f"<details><summary>All {len(shown)} file systems, fewest loads and stores first</summary>\n"
        yield markdown(_without_empty([_HEAD, *map(_cells, shown)]))
        yield "\n</details>"
    yield from _notes({row.fs: row.error for row in rows}, "not on ")
    yield from _notes({row.fs: row.warnings for row in rows}, "")


def _extremes(rows: Sequence[Row]) -> str:
    """Return a sentence with the file systems of the fewest and the most loads and stores."""
    named = {row.fs: number(row.figures[SORTED_BY]) for row in rows if row.figures[SORTED_BY] is not None}
    if len(named) < 2:
        return ""
    (least, few), (most, many) = list(named.items())[0], list(named.items())[-1]
    beside = f"; {BESIDE} {named[BESIDE]}" if BESIDE in named and BESIDE not in (least, most) else ""
    return f"Fewest loads + stores a call: {least} {few}, most: {most} {many}{beside}.\n"


def _cells(row: Row) -> list[str]:
    name = row.fs if row.whole else f"{row.fs} \\*"
    figures = [number(value) for value in row.figures.values()]
    return [name, *figures, number(row.failed) if row.failed else ABSENT, f"`{row.sha256[:_DIGITS]}`"]


def _without_empty(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the table without columns that have a dash in every row."""
    kept = [i for i in range(len(rows[0])) if any(row[i] != ABSENT for row in rows[1:])]
    return [[row[i] for i in kept] for row in rows]


def _notes(said: Mapping[str, str], before: str) -> Iterator[str]:
    """Yield the notes on file systems, each text once."""
    names: dict[str, list[str]] = {}
    for fs, text in said.items():
        for each in filter(None, text.split(WARNINGS)):
            names.setdefault(printable(each), []).append(fs)
    for text, those in names.items():
        others = [fs for fs in said if fs not in those]
        but = f"all but {', '.join(others)}" if others else "all"
        who = but if len(those) > len(others) + 1 else ", ".join(those)
        yield f"\n{before}{who}: {text}"
