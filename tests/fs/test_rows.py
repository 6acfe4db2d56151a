"""Rows of the arena: the fields of a row that a module declares do not overlap, and fit into the row."""

import importlib
import pathlib
import re

import pytest

import scmsim

ROOT = pathlib.Path(scmsim.__file__).parent
FIELD = re.compile(r"([A-Z]\w*) = [^#]+?(?:  # (.*))?$")
HEADING = re.compile(r"# .*\bone (?:arena word|word|column) each\b")
TABLE = "table (2 words)"
HANDLE = re.compile(r"\b(?:get|put|reserve|drop|words_to_hold)\((?:s, )?arena, \w+ \+ \w+\.([A-Z]\w*)\b")


def layouts():
    """Yield each row that a module declares: the module, and the fields with their comments; the last may be the row's length."""
    for path in sorted(ROOT.glob("fs/*/*.py")) + sorted(ROOT.glob("alloc/*.py")):
        module = ".".join(("scmsim", *path.relative_to(ROOT).with_suffix("").parts))
        lines = path.read_text(encoding="utf-8").splitlines()
        for number in (number for number, line in enumerate(lines) if HEADING.match(line)):
            fields = []
            for line in lines[number + 1 :]:
                field = FIELD.match(line)
                assert not line.endswith(" = ("), f"{path}: shorten the comment of {line!r}; a field takes one line"
                if HEADING.match(line) or not (field or line.startswith("#")):
                    break
                if field:
                    fields.append(field.groups())
                    if not field[2]:
                        break
            yield pytest.param(module, fields, id=f"{path.parent.name}/{path.stem}:{number + 1}")


ROWS = list(layouts())


@pytest.mark.parametrize(("module", "fields"), ROWS)
def test_fields_do_not_overlap_and_fit_into_the_row(module, fields):
    values, end = vars(importlib.import_module(module)), 0
    for name, comment in sorted((field for field in fields if field[1]), key=lambda field: values[field[0]]):
        assert values[name] >= end, name
        end = values[name] + (2 if TABLE in comment else 1)
    last = fields[-1][0]
    if last.endswith(("_WORDS", "_ORDER")):
        assert end <= (1 << values[last] if last.endswith("_ORDER") else values[last])


def test_every_table_of_a_row_is_declared_with_two_words():
    tables = {name for row in ROWS for name, comment in row.values[1] if comment and TABLE in comment}
    used = {name for path in ROOT.glob("fs/*/*.py") for name in HANDLE.findall(path.read_text(encoding="utf-8"))}
    assert used
    assert used <= tables
