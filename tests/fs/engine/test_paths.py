"""The walk of a path: what a call takes more for each directory, on every model of a file system of Linux."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core import registry
from scmsim.core.records import WORK, Files
from scmsim.fs.engine import costs, paths
from tests.fs import drive

WALKING = [fs for fs in registry.names("fs") if "kernel" in (known := registry.literals("fs", fs)).get("PARAMS", {})
           or {"KERNEL", "PATH_WALK"} & {*known}]  # fmt: skip
PATHS = {"create": 1, "open": 1, "stat": 1, "unlink": 1, "mkdir": 1, "rmdir": 1, "rename": 2, "link": 2}
LIFE = ("create", "write", "close", "stat", "open", "read", "close", "link", "unlink", "rename", "unlink")


def side(depths):
    """Files in a chain of directories, each so many directories below the first."""
    names = [f"/d{'/e' * depth}/f{i}" for i, depth in enumerate(depths)]
    return Files(["/d", *names], np.array([0, *(-1 for _ in depths)]), np.array([True, *(False for _ in depths)]))


def work(fs, files, batch, room=1 << 12):
    """Instructions, loads and stores of a model's events, and the events."""
    events = drive.Model(fs, files, room).feed(batch)
    found = events[events.code == WORK]
    return np.array([found.instructions.sum(), found.loads.sum(), found.stores.sum()]), events


def lives(depths):
    """A life of each file, and the directories that its calls search beyond the first."""
    rows = [
        (op, i, 0, 100, 0 if op in PATHS and op != "rename" else -1) for i in range(1, len(depths) + 1) for op in LIFE
    ]
    return drive.ops(*rows), sum(PATHS.get(op, 0) for op in LIFE) * sum(depths)


def cost(fs):
    """The cost of a directory, thousandths."""
    known = registry.literals("fs", fs)
    version = known.get("PATH_WALK") or (known.get("PARAMS", {}).get("kernel") or [known.get("KERNEL")])[0]
    return costs.load(paths.TABLE, [version], [paths.SITE])[0, :3]


@pytest.mark.parametrize("fs", WALKING)
def test_each_directory_takes_its_cost_for_each_path_of_a_call(fs):
    depths = (0, 1, 4, 2)
    batch, directories = lives(depths)
    flat, _ = work(fs, side((0,) * len(depths)), batch)
    deep, _ = work(fs, side(depths), batch)
    assert directories == 9 * 7
    assert (deep - flat == directories * cost(fs)).all()


@settings(max_examples=20)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.sampled_from(["tmpfs", "nova-cow", "xfs-dax"]))
def test_events_do_not_depend_on_the_buffer(depths, fs):
    batch, _ = lives(depths)
    _, events = work(fs, side(depths), batch)
    _, small = work(fs, side(depths), batch, room=1)
    assert (events == small).all()


def test_a_name_that_is_no_path_is_taken_to_be_where_the_costs_were_measured():
    files = Files(["/a/b", "/a/b/c/d/f", "volume"], np.zeros(3, np.int64), np.array([True, False, False]))
    assert paths.beyond_measured(files).tolist() == [0, 2, 0]
