"""Check what every model declares: mechanisms, summary, parameters, sources, and fields of its record."""

import pytest

import scmsim
from scmsim.core import records, registry
from tests import plain_records
from tests.conformance.systems import SYSTEMS, side
from tests.fs import drive


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_record_has_no_field_that_numpy_hides(fs):
    names = drive.Model(fs, side()).state.record.dtype.names
    assert not plain_records.HIDDEN.intersection(names)


@pytest.mark.parametrize("fs", SYSTEMS)
def test_what_a_model_declares(fs):
    module, table = registry.load("fs", fs), registry.literals("fs", fs)
    assert module.SITES and set(module.SITES.values()) <= set(records.KINDS) and len(module.SITES) < 256
    assert module.SUMMARY and "\n" not in module.SUMMARY and module.SUMMARY == table["SUMMARY"]
    assert table["PARAMS"].keys() == module.PARAMS.keys() >= {"capacity"}
    for name, (default, unit, meaning) in module.PARAMS.items():
        assert scmsim.core.units.parse_param(default, unit) is not None and meaning, name
    head = registry.path("fs", fs).read_text(encoding="utf-8")
    assert head.startswith("# Models ") and "\n# Units: " in head and "\n# Source: " in head
