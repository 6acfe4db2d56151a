"""The two record types and every other record: names that mean the same in plain Python and in compiled code."""

import importlib
import pkgutil

import numpy as np
import pytest

import scmsim
from scmsim.core import records
from scmsim.core.counters import COUNTERS, MILLI_FIELDS, SCHEMA, rounded
from tests.plain_records import HIDDEN

ROOMS = ("alloc", "core", "fs", "medium", "mmu", "paging", "trace", "workload")


def modules() -> list[str]:
    """Every module that may define a record, by name, not imported yet."""
    every = (info.name for info in pkgutil.walk_packages(scmsim.__path__, "scmsim."))
    return [name for name in every if name.split(".")[1] in ROOMS]


def fields(dtype: np.dtype) -> list[str]:
    """Names of all fields, nested records included."""
    names = []
    for name in dtype.names or ():
        names += [name, *fields(dtype[name].base)]
    return names


@pytest.mark.parametrize("module", modules())
def test_no_field_hides_behind_a_numpy_attribute(module: str) -> None:
    defined = vars(importlib.import_module(module)).values()
    names = [name for value in defined if isinstance(value, np.dtype) for name in fields(value)]
    assert not HIDDEN.intersection(names)


def test_the_guard_finds_a_hidden_field() -> None:
    dtype = np.dtype([("fine", "i8"), ("inner", [("size", "i8")], (3,))])
    assert fields(dtype) == ["fine", "inner", "size"] and {"scmsim.core.records", "scmsim.core.counters"} <= set(
        modules()
    )
    assert "size" in HIDDEN and "fine" not in HIDDEN


@pytest.mark.parametrize(
    ("kind", "columns", "aliases", "bytes_of"),
    [
        (records.OP, records.OP_COLUMNS, records.OP_ALIASES, 72),
        (records.EVENT, records.EVENT_COLUMNS, records.EVENT_ALIASES, 40),
    ],
)
def test_an_alias_names_the_bytes_of_a_column(
    kind: np.dtype, columns: tuple[str, ...], aliases: dict[str, str], bytes_of: int
) -> None:
    fields = kind.fields or {}
    assert kind.itemsize == bytes_of == sum(fields[name][0].itemsize for name in columns)  # the columns are packed
    assert kind.names == (*columns, *aliases) and not set(aliases) & set(columns)
    for alias, column in aliases.items():
        assert fields[alias] == fields[column]


def test_joined_records_keep_their_aliases() -> None:
    one, other = np.zeros(2, records.OP).view(np.recarray), np.ones(3, records.OP)
    found = records.joined([one, other])
    assert found.dtype == records.OP and np.concatenate([one, other]).dtype != records.OP
    found["parent"] = 7
    assert found["file2"].tolist() == found["replaced"].tolist() == [7] * 5 and found["op"].tolist() == [0, 0, 1, 1, 1]


def test_arrays_of_different_types_cannot_be_joined() -> None:
    with pytest.raises(TypeError, match="must have the same dtype"):
        records.joined([np.zeros(1, records.OP), np.concatenate([np.zeros(1, records.OP)])])


def test_codes_match_their_names() -> None:
    assert records.OPS[records.CREATE] == "create"
    assert records.OPS[records.FILE_TO_MM] == "file_to_mm"
    assert records.EVENTS[records.WORK] == "WORK"
    assert records.SPACES[records.STACK] == "stack"
    assert len(set(records.OPS)) == len(records.OPS)


def test_flag_bits_do_not_overlap() -> None:
    flags = [
        records.OFFSET_UNKNOWN, records.SETUP, records.CONTINUES, records.APPENDS, records.SYNCHRONOUS,
        records.DATA_ONLY, records.DIRECTORY, records.KEEP_SIZE, records.PUNCH_HOLE, records.WRITABLE_SHARED,
    ]  # fmt: skip
    assert sum(flags) == int(np.bitwise_or.reduce(flags)) == 2 ** len(flags) - 1


def test_packed_event_can_be_taken_apart() -> None:
    packed = records.pack(records.NTSTORE, 200, records.PM, 64)
    assert (packed & 255, packed >> 8 & 255, packed >> 16 & 255, packed >> 24) == (records.NTSTORE, 200, records.PM, 64)


def test_counters_in_thousandths_are_rounded_half_up() -> None:
    record = np.zeros(1, COUNTERS)[0]
    record["instructions"], record["mem_inst_retired_all_loads"], record["fences"] = 1500, 1499, 1500
    values = rounded(record)
    assert (values["instructions"], values["mem_inst_retired_all_loads"], values["fences"]) == (2, 1, 1500)
    assert set(values) == set(SCHEMA) >= set(MILLI_FIELDS)
