"""The cost tables: every number has a unit, a kind and a source, and goes to a mechanism that a model has."""

import pathlib
import tomllib

import pytest

import scmsim
from scmsim.core import registry
from scmsim.fs.mapping import mechanisms

FOLDER = pathlib.Path(scmsim.__file__).parent / "fs"
SITES = {site for fs in registry.names("fs") for site in registry.load("fs", fs).SITES} | set(mechanisms.SITES)
TABLES = {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*/costs/*.toml"))}
ENTRIES = [(table, name) for table, entries in TABLES.items() for name in entries]


@pytest.mark.parametrize(("table", "name"), ENTRIES)
def test_a_cost_says_what_it_is(table: str, name: str) -> None:
    entry = TABLES[table][name]
    assert entry["site"] in SITES
    assert all(entry[field] >= 0 for field in ("instructions", "loads", "stores"))
    assert entry["loads"] + entry["stores"] <= 2 * entry["instructions"] or entry["instructions"] == 0
    assert entry["kind"] in ("derived", "measured", "fitted", "estimate") and entry["source"] and entry["per"]


def test_every_table_is_found() -> None:
    assert {"nova-5.13", "ext4-5.13"} <= set(TABLES) and len(ENTRIES) > 50
