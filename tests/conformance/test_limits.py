"""A model starts with the least and the largest value of each parameter, and with none beyond (tests/golden/limits.txt)."""

import pytest

from tests.golden import limits, options


@pytest.mark.parametrize("fs", sorted(options.LARGER))
def test_a_model_starts_with_the_stored_limits_and_no_further(fs: str) -> None:
    rows = [line.split()[1:] for line in limits.PATH.read_text(encoding="utf-8").splitlines() if line.split()[0] == fs]
    assert [name for name, *_ in rows] == sorted(limits.numbers_of(fs))
    for name, least, most in rows:
        for end, beyond in ((least, -1), (most, 1)):
            if end != limits.UNLIMITED:
                assert limits.starts(fs, name, int(end)), f"{name} = {end} was accepted"
                assert not limits.starts(fs, name, int(end) + beyond), f"{name} = {int(end) + beyond} was refused"
