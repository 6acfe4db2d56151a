"""Reading a cost table."""

import pytest

from scmsim.core import toml
from scmsim.fs.engine import costs

TABLES = sorted(costs._FOLDER.glob("*/costs/*.toml"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(costs, "_FOLDER", tmp_path)
    (tmp_path / "t.toml").write_text(
        '[call]\nsite = "b"\ninstructions = 10.5\nloads = 2\nstores = 0.0004\n'
        '[line]\nsite = "a"\ninstructions = 1\nloads = 0\nstores = 1\n'
    )
    return tmp_path


def test_rows_come_in_the_order_asked_for_in_thousandths_with_their_site(folder):
    assert costs.load("t", ["line", "call"], ["a", "b"]).tolist() == [[1000, 0, 1000, 0], [10500, 2000, 0, 1]]
    assert costs.load("t", ["call"], ("b",)).tolist() == [[10500, 2000, 0, 0]]


@pytest.mark.parametrize(("names", "sites"), [(["nothing"], ["a", "b"]), (["call"], ["a"])])
def test_an_unknown_cost_or_site_is_an_error_of_the_model(folder, names, sites):
    with pytest.raises((KeyError, ValueError)):
        costs.load("t", names, sites)


@pytest.mark.parametrize("file", TABLES, ids=lambda file: file.stem)
def test_every_table_says_of_each_cost_what_it_is_and_where_it_comes_from(file):
    table = toml.load(file, costs.TABLE)
    assert table and all(set(cost) == {*costs.COLUMNS, "site", "per", "kind", "source"} for cost in table.values())
