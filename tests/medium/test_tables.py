"""Media as tables: the package's own are right, and a wrong one of the user's own is told with its lines."""

import pytest

from scmsim import medium
from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.core.toml import ConfigError


@pytest.mark.parametrize("name", registry.names("medium"))
def test_every_medium_is_whole(name):
    table = medium.read(name)
    assert set(table) - {"cached", "stream_ns"} == {
        *("summary", "source", "granule", "buffer", "load_ns", "store_ns", "fence_ns", "read_gb_s", "write_gb_s")
    }
    assert isinstance(table["buffer"], int) and table["read_gb_s"] > 0


def test_a_wrong_medium_is_told_with_its_lines(tmp_path, monkeypatch):
    (tmp_path / "medium").mkdir()
    (tmp_path / "medium" / "mine.toml").write_text('granule = 0\nload_ns = "5"\nsource = "x"\nlatency = 3\n')
    monkeypatch.setenv(registry.OWN_FOLDER, str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        medium.read("mine")
    assert [(problem.line, problem.key) for problem in caught.value.problems] == [
        (1, "buffer"),
        (1, "granule"),
        (2, "load_ns"),
        (4, "latency"),
    ]
    with pytest.raises(UsageError, match="no medium named 'optain'; did you mean 'optane'"):
        medium.read("optain")
