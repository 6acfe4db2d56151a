"""The zoo as a page of Markdown and as one table of CSV; a page is the same bytes wherever the same version made it."""

import statistics
from collections.abc import Iterator, Mapping, Sequence

from scmsim.core.text import printable
from scmsim.result.tables.figures import number
from scmsim.result.tables.layout import comma_separated, markdown
from scmsim.zoo import FIGURES, Entry, Row, Zoo

_BESIDE = "ext4-dax"  # what the overview compares with
_COMPARED = ("loads + stores a call", "stored / written", "ns a call")
_HEAD = ["file system", *FIGURES, "class", "failed", "sha256 of the counts"]

_FIRST = """# Zoo
Made by

    scmsim zoo -o zoo

which replays every trace of `traces` and some workloads on every file system, in minutes. `zoo/zoo.md` is this page, `zoo/zoo.csv`
its tables as one. The same command resumes a run that was stopped; `--trace 'git,sqlite*'` and `--fs 'nova*'` narrow it. `zoo`
is the folder of a [sweep](sweep.md), whose `results.parquet` has every counter.

Machine {machine}, medium {medium}, each file system's own mapping. What is dirty at the end is written back and counts. Walks and
misses have what the kernel's own code touches in them, [as measured](validation-tlb.md) on Linux 5.10.

| column | meaning |
|---|---|
| stored / written | bytes stored to memory per byte that the program wrote |
| loaded / read | bytes loaded from memory per byte that the program read |
| waste, % | bytes of last pages that hold nothing, of those allocated for data |
| ns a call | an estimate; its class says how far to trust it |
| failed | operations that failed, mostly for want of space |
| sha256 | its first digits: of a trace's file, of a workload's operations, of all counts of a replay |

A dash: nothing to divide by, or not in the model. All counts of this page: `{sha256}`.
"""


def text(zoo: Zoo) -> str:
    """The page."""
    return "\n".join(_lines(zoo)) + "\n"


def table(zoo: Zoo) -> str:
    """All of it as one table, what an entry is and its licence first."""
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
    ]
    rows: list[Sequence[object]] = [head]
    for row in zoo.rows:
        entry = entries[row.entry]
        about = [entry.name, entry.what, entry.licence, entry.operations, entry.sha256]
        rows.append(
            [*about, row.fs, *row.figures.values(), row.time_class, row.failed, row.sha256, row.warnings, row.error]
        )
    return comma_separated(rows) + "\n"


def _lines(zoo: Zoo) -> Iterator[str]:
    yield _FIRST.format(machine=zoo.machine, medium=zoo.medium, sha256=zoo.sha256)
    yield "## What is replayed\n| entry | what it is | licence | operations | sha256 |\n|---|---|---|---:|---|"
    for entry in zoo.entries:
        about = f"[{entry.name}](#{entry.name}) | {printable(entry.what)} | {entry.licence}"
        yield f"| {about} | {entry.operations:,} | `{entry.sha256}` |"
    yield "\nTraces were recorded by this project and hold operations and names, no contents; generators are this project's own.\n"
    yield "## How far a time may be trusted\n| class | meaning | file systems | from |\n|---|---|---|---|"
    for kind in zoo.classes:
        named = sorted({row.fs for row in zoo.rows if row.time_class == kind.name})
        if named:
            yield f"| {kind.name} | {kind.meaning} | {', '.join(named)} | {kind.source} |"
    yield from _overview(zoo.rows)
    for entry in zoo.entries:
        yield from _section(entry, [row for row in zoo.rows if row.entry == entry.name])


def _overview(rows: Sequence[Row]) -> Iterator[str]:
    """The median ratio of each file system to one of them, over the entries that both have."""
    base = {row.entry: row.figures for row in rows if row.fs == _BESIDE and not row.error}
    if not base:
        return
    yield f"\n## Beside {_BESIDE}\nMedian, over the entries, of a file system's figure divided by that of {_BESIDE}.\n"
    lines = [["file system", *_COMPARED, "class"]]
    for fs in dict.fromkeys(row.fs for row in rows):
        own = [row for row in rows if row.fs == fs and row.entry in base]
        medians = []
        for column in _COMPARED:
            pairs = [(row.figures[column], base[row.entry][column]) for row in own]
            ratios = [mine / other for mine, other in pairs if mine is not None and other]
            medians.append(number(statistics.median(ratios) if ratios else None))
        if own:
            lines.append([fs, *medians, own[0].time_class])
    yield markdown(lines)


def _section(entry: Entry, rows: Sequence[Row]) -> Iterator[str]:
    yield f"\n## {entry.name}\n{entry.what[:1].upper()}{entry.what[1:]}.\n"
    lines = [_HEAD]
    for row in rows:
        if not row.error:
            figures = [number(value) for value in row.figures.values()]
            lines.append([row.fs, *figures, row.time_class, number(row.failed), f"`{row.sha256}`"])
    if len(lines) > 1:
        yield markdown(lines)
    yield from _notes({row.fs: row.error for row in rows}, "not on ")
    yield from _notes({row.fs: row.warnings for row in rows}, "")


def _notes(said: Mapping[str, str], before: str) -> Iterator[str]:
    """What is said of file systems, each text once."""
    names: dict[str, list[str]] = {}
    for fs, text in said.items():
        if text:
            names.setdefault(printable(text), []).append(fs)
    for text, those in names.items():
        others = [fs for fs in said if fs not in those]
        but = f"all but {', '.join(others)}" if others else "all"
        who = but if len(those) > len(others) + 1 else ", ".join(those)
        yield f"\n{before}{who}: {text}"
