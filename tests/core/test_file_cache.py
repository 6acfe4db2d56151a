"""The cache of files: an unchanged file is read once, a changed one again, and nobody sees what another caller changed."""

import os
import pathlib
import re

import pytest

from scmsim.core import file_cache, registry, toml
from scmsim.core.errors import UsageError
from scmsim.mmu import presets
from scmsim.perf import events, profile

ROOT = pathlib.Path(presets.__file__).parents[1]
OLD = 1_000_000_000  # seconds; older than any tick of a file system's clock


@pytest.fixture
def settled(monkeypatch):
    """Cache also files that a test has just written."""
    monkeypatch.setattr(file_cache, "_COARSEST_NS", -1 << 62)


@pytest.fixture
def reads():
    return []


@pytest.fixture
def read(reads):
    @file_cache.per_file(2)
    def read(file, key=0):
        reads.append((file.name, key))
        return [file.read_text(), key]

    return read


def test_an_unchanged_file_is_read_once(tmp_path, settled, read, reads):
    file = tmp_path / "a"
    file.write_text("one")
    first = read(file)
    first.append("changed by its caller")
    assert read(file) == ["one", 0] and reads == [("a", 0)]
    assert read(file, 1) == ["one", 1] and len(reads) == 2


@pytest.mark.parametrize("replace", [True, False])
def test_a_changed_file_is_read_again(tmp_path, settled, read, replace):
    """The new content is as long as the old one, and has its time of modification."""
    file, new = tmp_path / "a", tmp_path / "b"
    for content in ("one", "two", "six"):
        (new if replace else file).write_text(content)
        os.utime(new if replace else file, (OLD, OLD))
        if replace:
            new.replace(file)
        assert read(file) == [content, 0]


def test_a_file_that_has_just_changed_is_not_kept(tmp_path, read, reads):
    file = tmp_path / "a"
    for content in ("one", "two"):
        file.write_text(content)
        assert read(file) == [content, 0] == read(file)
    assert len(reads) == 4


def test_errors_and_special_files_are_not_kept(tmp_path, settled, read):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "a")
    with pytest.raises(UsageError, match="cannot read '/dev/null/none'"):
        toml.read("/dev/null/none")
    assert read(pathlib.Path("/dev/null")) == ["", 0]
    (tmp_path / "a").write_text("one")
    assert read(tmp_path / "a") == ["one", 0]


# place of a user's own file, and what a caller sees of its summary
SEEN = {
    "m.toml": lambda file: presets.read(str(file))["summary"],
    "perf/events/mine.toml": lambda file: events.table("mine").summary,
    "perf/sites/mine.toml": lambda file: profile.rules("mine")["f"][0][1],
    "fs/mine.py": lambda file: registry.literals("fs", "mine")["SUMMARY"],
}
MACHINE = (ROOT / "mmu/machines/i7-8700k.toml").read_text()
EVENTS = (ROOT / "perf/events/skylake.toml").read_text()
TEXTS = {
    "m.toml": re.sub('summary = ".*"', 'summary = "HERE"', MACHINE, count=1),
    "perf/events/mine.toml": re.sub('summary = ".*"', 'summary = "HERE"', EVENTS, count=1),
    "perf/sites/mine.toml": 'models = []\n[sites]\nHERE = ["f"]\n',
    "fs/mine.py": 'SUMMARY = "HERE"\nSITES = {}\nPARAMS = {}\nstart = emit = space = None\n',
}


@pytest.mark.parametrize("name", SEEN)
def test_a_users_file_that_changes_is_read_again(tmp_path, monkeypatch, name):
    monkeypatch.setenv(registry.OWN_FOLDER, str(tmp_path))
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    for summary in ("one", "two"):
        file.write_text(TEXTS[name].replace("HERE", summary))
        assert SEEN[name](file) == summary == SEEN[name](file)
