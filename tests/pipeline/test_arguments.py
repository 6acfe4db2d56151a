"""Arguments of the Python API: a wrong one is a UsageError of one line that names it."""

import pytest

import scmsim
from scmsim import mmu
from scmsim.core.errors import UsageError
from scmsim.mmu import mrc
from scmsim.pipeline import touches
from scmsim.result import read, read_all
from scmsim.workload.microbench import Workload

WORK = Workload("append", 4096, 8192)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"trace": None}, "trace must be"), ({"trace": [WORK]}, "trace must be"), ({"trace": Workload}, "trace must be"),
        ({"fs": 5}, "fs must be"), ({"fs": [5]}, "fs must be"), ({"fs": None}, "fs must be"),
        ({"machine": ["zen4", "zen5"]}, "machine must be"), ({"machine": 7}, "machine must be"),
        ({"machine": {}}, "machine table: "), ({"paging": 3}, "paging must be"), ({"medium": 3}, "medium must be"),
        ({"by": None}, "by must be"), ({"by": []}, "by must be"), ({"chunk": -1}, "chunk must be"),
        ({"kernel": 6.1}, "kernel must be"), ({"kernel": "2.6"}, "no kernel with costs or footprints named '2.6'"),
        ({"chunk": 2.5}, "chunk must be"), ({"chunk": True}, "chunk must be"), ({"progress": 1}, "progress must be"),
        ({"sync_at_end": 1}, "sync_at_end must be"), ({"params": "nova-cow.capacity=1GiB"}, "params must be"),
        ({"params": {"nova-cow": "capacity"}}, r"params\['nova-cow'\] must be"),
        ({"params": {"nova-cow": {"capacity": 1e9}}}, "nova-cow.capacity: 1000000000.0 is not a number of bytes"),
        ({"params": {"nova-cow": {"capacity": None}}}, "nova-cow.capacity: None is not"),
        ({"params": {"nova-cow": {5: 1}}}, "parameter of nova-cow must be a name"),
        ({"params": {5: {}}}, "model in this replay must be a name"),
    ],
)  # fmt: skip
def test_replay(given, text):
    with pytest.raises(UsageError, match=text) as caught:
        scmsim.replay(**{"trace": WORK, "fs": "nova-cow", **given})
    lines = str(caught.value).splitlines()
    assert len(lines) == 1 or all(
        line.startswith("machine table: ") for line in lines
    )  # all mistakes of a table at once


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"fs": ["nova-cow"]}, "fs must be"), ({"paging": 3}, "paging must be"), ({"params": 3}, "params must be"),
        ({"trace": 3}, "trace must be"), ({"progress": 3}, "progress must be"),
    ],
)  # fmt: skip
def test_touches_says_it_at_once(given, text):
    with pytest.raises(UsageError, match=text):
        touches(**{"trace": WORK, "fs": "nova-cow", **given})


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: mmu.simulate(None), "addresses = None"),
        (lambda: mmu.simulate([0], ["zen4"]), "machine must be"),
        (lambda: mmu.simulate([0], page=None), "page: None is not"),
        (lambda: mmu.simulate([0], page=4096.0), "page: 4096.0 is not"),
        (lambda: mmu.simulate([0], access=["load"]), "access must be"),
        (lambda: mmu.simulate([0], contiguous="yes"), "contiguous must be"),
        (lambda: mmu.simulate([0], scm_tables=1), "scm_tables must be"),
        (lambda: mmu.simulate_frame([0], [5]), "machine must be"),
        (lambda: mmu.simulate_frame([0], page=("4KiB", "2MiB")), "page: "),
        (lambda: mmu.plain_misses([0], 64), "first must be"),
        (lambda: mmu.plain_misses([0], "64x4", 5), "second must be"),
        (lambda: mrc.Geometries("4KiB"), "order must be"),
        (lambda: mrc.Geometries(12, [3]), "sets must be"),
        (lambda: mrc.Geometries(12, 4), "sets must be"),
        (lambda: mrc.Curve(4096), "order must be"),
        (lambda: mrc.Sample(12, 0, [64]), "rate must be"),
        (lambda: scmsim.Result.from_json(5), "text must be"),
        (lambda: scmsim.Result().rows("sites"), "no level 'sites'"),
        (lambda: scmsim.Result().to_frame(None), "no level None"),
        (lambda: scmsim.Result().write(5), "path must be"),
        (lambda: scmsim.Result().table([]), r"no breakdown by \[\]"),
        (lambda: read(None), "path must be"),
        (lambda: read_all(3), "path must be"),
        (lambda: Workload("append", 4096.5), "unit must be a whole number, not 4096.5"),
        (lambda: Workload("append", "4KiB"), "unit must be a whole number, not '4KiB'"),
        (lambda: Workload(interval=None), "interval must be"),
    ],
)
def test_other_entries(call, text):
    with pytest.raises(UsageError, match=text) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_printed_result_is_its_table():
    result = scmsim.replay(WORK, "nova-cow")
    assert str(result) == result.table() and repr(result) == "<Result of 1 run: nova-cow>"
