"""How a model's kernels write events: single ones, WORK, and templates."""

import contextlib
import functools
import sys
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core import registry
from scmsim.core.records import EVENT, EVENT_COLUMNS, FENCE, FLUSH, KERNEL, LOAD, PM, STORE, TEXT, WORK, pack
from scmsim.fs.engine.events import FREE_COST, HEADER, emit_run, emit_template, emit_work, load_templates, new_state
from scmsim.pipeline import model_params
from tests.conftest import NO_JIT
from tests.fs import drive

STATE = np.dtype((np.record, HEADER))
COSTS = np.array([[1000, 200, 30, 4], [5000, 0, 1000, 7], [100, 10, 1, 4]], np.int64)
REGISTERS = 32


def fresh(table=COSTS):
    return new_state(STATE, 64, table)


def played(state, template, room=512):
    """Events of one template as (code, site, space, addr, length, width)."""
    out = np.zeros(room, EVENT).view(np.recarray)
    state.record.emitted = 0
    emit_template(state.record[0], out, template)
    return [
        (int(e.code), int(e.site), int(e.space), int(e.addr), int(e.length), int(e.width))
        for e in out[: int(state.record.emitted[0])]
    ]


def test_a_run_is_one_event():
    state, out = fresh(), np.zeros(4, EVENT).view(np.recarray)
    state.record.op = 9
    emit_run(state.record[0], out, pack(STORE, 200, KERNEL, -16), 4096, 8192)
    emit_work(state.record[0], out, 1, 3)
    assert int(state.record.emitted[0]) == 2
    assert out[[*EVENT_COLUMNS]][0].tolist() == (STORE, 200, KERNEL, 0, 9, -16, 4096, 8192, 0)
    assert out[[*EVENT_COLUMNS]][1].tolist() == (WORK, 7, TEXT, 0, 9, 3000, 15000, 0, 0)


def test_steps_take_address_length_and_width_from_registers():
    state = fresh()
    steps = [
        (pack(LOAD, 1, PM, 8), 2, 100, 64, 0, 0),
        (pack(STORE, 2, PM), 0, 4096, 0, 3, 4),
        (pack(FENCE, 3, PM), 0, 0, 2, 0, 0),
        (pack(FLUSH, 3, PM), 2, 0, 0, 5, 0),  # register 5 is 0: skipped
    ]
    load_templates(state, {0: [], 1: steps})
    state.record.reg[0, 2:5] = 1 << 20, 128, 5
    assert played(state, 0) == []
    assert played(state, 1) == [
        (LOAD, 1, PM, (1 << 20) + 100, 64, 8),
        (STORE, 2, PM, 4096, 128, 5),
        (FENCE, 3, PM, 0, 2, 0),
    ]


def test_work_of_a_site_becomes_one_event():
    """Site 4: twice cost 0 and once cost 2 for each unit of register 1; site 7: register 2 times cost 1."""
    steps = [(WORK, 0, 0, 2, 0, 0), (WORK, 0, 1, 0, 2, 0), (WORK, 0, 2, 0, 1, 0)]
    merged, plain = fresh(), fresh()
    load_templates(merged, {0: steps})
    load_templates(plain, {0: steps}, merge=False)
    for state in (merged, plain):
        state.record.reg[0, 1:3] = 10, 3
    assert played(merged, 0) == [(WORK, 4, TEXT, 3000, 500, 70), (WORK, 7, TEXT, 15000, 0, 3000)]
    assert len(played(plain, 0)) == 3
    merged.record.reg[0, 1:3] = 0
    assert played(merged, 0) == [(WORK, 4, TEXT, 2000, 400, 60)]


@functools.cache
def model_templates(fs):
    """(templates, cost rows) of a shipped model, as its `start` hands them to `load_templates`."""
    found = []

    def note(state, templates, merge=True):
        cost = state.record.cost[0]
        found.append((dict(templates), cost[cost[:, 3] != FREE_COST].copy()))

    module = registry.load("fs", fs)
    users = [m for name, m in sys.modules.items() if name.startswith("scmsim.fs.") and hasattr(m, "load_templates")]
    with contextlib.ExitStack() as stack:
        for user in users:
            stack.enter_context(mock.patch.object(user, "load_templates", note))
        module.start(model_params("fs", fs, {}), drive.files(0, -1, dirs=[0]))
    return found[-1]  # a model on another's kernels loads its own last


@pytest.mark.parametrize("fs", registry.names("fs"))
@settings(max_examples=3 if NO_JIT else 20)
@given(st.lists(st.integers(0, 5000), min_size=REGISTERS - 1, max_size=REGISTERS - 1))
def test_merged_work_sums_to_what_the_steps_say(fs, registers):
    """Any values of the registers: every template charges each site the same, and other events are untouched."""
    templates, table = model_templates(fs)
    assert list(templates) == list(range(len(templates)))
    merged, plain = fresh(table), fresh(table)
    load_templates(merged, templates)
    load_templates(plain, templates, merge=False)
    for state in (merged, plain):
        state.record.reg[0, 1:] = registers
    for template in templates:
        results = []
        for state in (merged, plain):
            events = played(state, template)
            sums = {}
            for code, site, _, *amounts in events:
                if code == WORK:
                    sums[site] = np.add(sums.get(site, 0), amounts).tolist()
            results.append(({k: v for k, v in sums.items() if any(v)}, [e for e in events if e[0] != WORK]))
        assert results[0] == results[1]
