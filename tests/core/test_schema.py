"""Declared tables: every mistake at once, each with its place; what is right is kept."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from scmsim.core.errors import UsageError
from scmsim.core.schema import (
    Broken,
    both,
    flag,
    listed,
    named,
    number,
    one_of,
    one_or_several,
    several,
    size,
    table,
    text,
    then,
    whole,
)

RULE = table(
    {
        "name": text,
        "on": flag,
        "sizes": several(size(1, 1 << 20)),
        "rows": listed(table({"ways": whole(1, 8)}, {"ways": "give 1 to 8"})),
        "by": named(number(0, 1), one_of("colour", ("red", "green"))),
    },
    ["name"],
)


def mistakes(rule: Any, value: Any) -> dict[str, str]:
    with pytest.raises(UsageError) as caught:
        rule(value)
    found = caught.value.mistakes if isinstance(caught.value, Broken) else [((), str(caught.value))]
    assert len({at for at, _ in found}) == len(found)
    return {".".join(map(str, at)): rule for at, rule in found}


def test_what_is_right_is_kept() -> None:
    value = {"by": {"red": 1}, "rows": [{"ways": 3}], "name": "x", "sizes": ["4KiB", 1], "on": True}
    assert RULE(value) == {**value, "sizes": (4096, 1)}
    assert RULE({"name": ""}) == {"name": ""}


def test_every_mistake_has_its_place() -> None:
    value = {
        "nmae": "x",
        "on": 1,
        "sizes": ["1KiB", "2MiB", "3 x"],
        "rows": [{"ways": 1}, {"ways": 9}, {}, 4],
        "by": {"rde": 0.5, "green": True},
    }
    assert mistakes(RULE, value) == {
        "nmae": "no key named 'nmae'; did you mean 'name'? choose from name, on, sizes, rows, by",
        "name": "is missing",
        "on": "must be true or false, not 1",
        "sizes.1": "'2MiB' is not between 1 and 1048576 bytes",
        "sizes.2": "'3 x' is not a number of bytes; write it like 4096, 4KiB, 2MiB or 1GiB",
        "rows.1.ways": "must be a whole number from 1 to 8, not 9",
        "rows.2.ways": "is missing; give 1 to 8",
        "rows.3": "must be a table",
        "by.rde": "no colour named 'rde'; did you mean 'red'? choose from red, green",
        "by.green": "must be a number from 0 to 1, not true",
    }


def test_lists() -> None:
    assert mistakes(several(text), []) == {"": "must be a list with at least one element"}
    assert mistakes(several(size(1, 9000)), ["4KiB", 4096]) == {"": "4096 is listed twice; keep one"}
    assert one_or_several(text)("a") == ("a",) and one_or_several(text)(["a", "b"]) == ("a", "b")
    assert mistakes(one_or_several(text), 3) == {"": "must be text in quotes, not 3"}
    assert mistakes(one_or_several(text), ["a", 3]) == {"1": "must be text in quotes, not 3"}


def test_rules_together() -> None:
    def no_both(value: dict[str, Any]) -> None:
        if len(value) > 1:
            raise Broken([(("b",), "not beside a")])

    rule = {"a": whole(0, 1), "b": whole(0, 1)}
    assert mistakes(both(table(rule), no_both), {"a": 2, "b": 0}).keys() == {"a", "b"}
    assert mistakes(then(table(rule), no_both), {"a": 2, "b": 0}).keys() == {"a"}
    assert both(table(rule), no_both)({"a": 1}) == {"a": 1}


_VALUES = some.recursive(
    some.none() | some.booleans() | some.integers(-3, 3) | some.floats(-3, 3) | some.sampled_from(["red", "4KiB", ""]),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.sampled_from([*"ab", "ways"]), inner),
    max_leaves=8,
)


@given(some.dictionaries(some.sampled_from(["name", "on", "sizes", "rows", "by", "x"]), _VALUES))
def test_no_value_is_worse_than_a_mistake(value: dict[str, Any]) -> None:
    """Whatever a file holds is kept or told; a mistake stands at a place of the value, or at a key that is missing."""
    try:
        RULE(value)
    except Broken as broken:
        for at, rule in broken.mistakes:
            inner: Any = value
            for key in at[:-1]:
                inner = inner[key]
            assert "is missing" in rule or not at or at[-1] in inner or isinstance(inner, list)
