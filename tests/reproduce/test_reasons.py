"""docs/validation/reproduce.md tests every reason that `scmsim reproduce` gives: a change moves the figure."""

import pathlib
import re

from scmsim.reproduce.rows import DOCUMENTS, _module, published

PAGE = (pathlib.Path(__file__).parents[2] / "docs/validation/reproduce.md").read_text()
_FAMILY = re.compile(r"\b(SCMFS|TLB|VSM|SCMM)(?=-\d)")
_NUMBER = re.compile(r"-(\d+)(?: to -(\d+))?")


def names(cell: str) -> list[str]:
    """The rows that a cell such as "TLB-1, -7" or "SCMM-11 to -13, NAND" is of."""
    family = _FAMILY.search(cell)
    spans = [(int(first), int(last or first)) for first, last in _NUMBER.findall(cell)]
    return [f"{family[1]}-{n}" for first, last in spans for n in range(first, last + 1)] if family else []


def experiments() -> dict[str, list[tuple[str, str]]]:
    """Row -> (figure as it is, figure changed) of each line of the page's table."""
    table = PAGE.split("| row | what is changed |", 1)[1].split("\n\n", 1)[0]
    found: dict[str, list[tuple[str, str]]] = {}
    rows: list[str] = []
    for line in table.splitlines()[2:]:
        row, _, before, after, *_ = (cell.strip() for cell in line.strip("|").split("|"))
        rows = names(row) or rows
        for name in rows:
            found.setdefault(name, []).append((before, after))
    return found


def _moved(before: str, after: str) -> bool:
    return bool(re.search(r"\d", after)) and before != after


def test_cells_are_read():
    assert names("SCMM-11 to -13, NAND") == ["SCMM-11", "SCMM-12", "SCMM-13"]
    assert names("TLB-1, -7, -8") == ["TLB-1", "TLB-7", "TLB-8"] and names("") == []


def test_every_reason_has_an_experiment_that_moved_the_figure():
    reasons = {row for document in DOCUMENTS for row in _module(document).REASONS}
    assert reasons <= {row.id for row in published()}
    found = experiments()
    still = {row for row in reasons if not any(_moved(*pair) for pair in found.get(row, []))}
    assert not still, f"no experiment of docs/validation/reproduce.md moves {sorted(still)}"
