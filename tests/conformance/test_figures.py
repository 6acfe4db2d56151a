"""Check for every model that figures do not depend on chunks, buffers or the compiler, and that parts add up."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from scmsim.core import records
from scmsim.core.counters import MILLI_FIELDS, SCHEMA
from scmsim.core.records import CONTINUES, SETUP, joined
from tests.conformance.systems import COUNT, IN_DRAM, SYSTEMS, figures, mixed, page, replay, side
from tests.fs import drive


@pytest.mark.parametrize("fs", SYSTEMS)
def test_counters_do_not_depend_on_the_chunk(fs):
    batch = mixed(1, COUNT, holes=True)
    runs = [figures(replay(fs, batch, chunk=chunk)) for chunk in (1 << 14, 64, 1000, 1 << 14)]
    assert runs[0] == runs[1] == runs[2] == runs[3]
    assert (runs[0][0]["pm_stored_bytes"] > 0) == (fs not in IN_DRAM)


@pytest.mark.parametrize("fs", SYSTEMS)
def test_every_small_buffer_gives_the_same_events(fs):
    """One operation at a time or all at once, in a buffer of two events or of many."""
    batch = mixed(2, COUNT // 3, holes=True)
    wide = drive.Model(fs, side(), room=1 << 15)
    narrow = drive.Model(fs, side(), room=2)
    together = wide.feed(batch)
    one_by_one = joined([narrow.feed(batch[i : i + 1]) for i in range(len(batch))]).view(np.recarray)
    names = [name for name in together.dtype.names if name != "op"]  # the row in its batch
    assert together[names].tolist() == one_by_one[names].tolist()
    assert wide.space() == narrow.space()


@pytest.mark.parametrize("fs", SYSTEMS)
def test_each_event_belongs_to_its_operation(fs):
    """The rows that cause events come in order, and an event's site and space are known ones."""
    model = drive.Model(fs, side())
    events = model.feed(mixed(3, COUNT // 3))
    assert (np.diff(events["op"]) >= 0).all() and events["op"].min() >= 0
    assert events["site"].max() < len(model.sites) and events["space"].max() < len(records.SPACES)
    assert (events["code"] <= records.WORK).all() and (events["length"] >= 0).all()
    persistent = events[
        (events["space"] == records.PM) & np.isin(events["code"], [records.LOAD, records.STORE, records.NTSTORE])
    ]
    assert (persistent["addr"] >= 0).all()
    assert (persistent["addr"] + persistent["length"] <= model.space()["capacity_bytes"]).all()


@pytest.mark.parametrize("fs", SYSTEMS)
def test_setup_counts_nothing_but_does_everything(fs):
    batch = mixed(4, COUNT // 2)
    quiet = batch.copy()
    quiet.flag |= SETUP
    run, loud = replay(fs, quiet), replay(fs, batch)
    assert not any(run.counters.values()) and not run.sites and not any(run.stored_bytes.values())
    assert (run.operations, run.calls, run.payload) == (0, 0, {"written": 0, "read": 0})
    assert run.space == loud.space
    first, second = batch.copy(), batch.copy()
    first.flag[: len(batch) // 2] |= SETUP
    second.flag[len(batch) // 2 :] |= SETUP
    halves = [replay(fs, half).counters for half in (first, second)]
    for field in SCHEMA:  # thousandths are rounded at the end
        off = abs(halves[0][field] + halves[1][field] - loud.counters[field])
        assert off <= (1 if field in MILLI_FIELDS else 0), field


@pytest.mark.parametrize("fs", SYSTEMS)
def test_breakdowns_add_up(fs):
    batch = mixed(5, COUNT // 2)
    runs = {by: replay(fs, batch, by=by) for by in ("site", "op", "file")}
    total = runs["site"].counters
    for by, run in runs.items():
        assert run.counters == total
        for parts in (run.sites, run.groups) if by != "site" else (run.sites,):
            for field in SCHEMA:
                slack = len(parts) if field in MILLI_FIELDS else 0
                assert abs(sum(part[field] for part in parts.values()) - total[field]) <= slack, (by, field)
    assert sum(runs["op"].stored_bytes.values()) == total["pm_stored_bytes"]


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_call_that_continues_is_the_same_call(fs):
    batch = drive.ops(("create", 1), ("write", 1, 0, 4096), ("fsync", 1, 0, 0, -1, CONTINUES))
    run = replay(fs, batch)
    assert (run.operations, run.calls) == (3, 2)


@pytest.mark.parametrize("fs", SYSTEMS)
def test_an_empty_trace_and_empty_operations(fs):
    assert not any(replay(fs, drive.ops()).counters.values())
    run = replay(fs, drive.ops(("create", 1), ("write", 1, 0, 0), ("read", 1, 0, 0), ("read", 1, 1 << 30, 4096)))
    assert run.space["live_bytes"] == run.space["allocated_bytes"] == 0


PLAIN_SCRIPT = """
import json, sys
from tests.conformance import systems
run = systems.replay(sys.argv[1], systems.mixed(6, 40, holes=True))
print(json.dumps([run.counters, run.sites, run.stored_bytes, run.space]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("fs", SYSTEMS)
def test_compiled_and_plain_kernels_agree(fs):
    if page(fs) > 2 << 20:
        pytest.skip("plain Python takes minutes for the lines of a page of 1 GiB")
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", PLAIN_SCRIPT, fs], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    run = replay(fs, mixed(6, 40, holes=True))
    assert json.loads(done.stdout) == [run.counters, run.sites, run.stored_bytes, run.space]
