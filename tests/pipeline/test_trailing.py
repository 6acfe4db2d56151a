"""A replay on two threads: every figure of a replay on one, for every model, and what happens where a stage fails."""

import dataclasses
import itertools
import threading

import pytest

import scmsim
from scmsim.core import registry
from scmsim.core.errors import ScmsimError
from scmsim.fs.engine.model import Model
from scmsim.pipeline import DEFAULTS, at_once, model_params
from scmsim.pipeline import trailing as trailing_module
from scmsim.pipeline.run import Replay
from scmsim.pipeline.stages import CounterIndex, Loop, Stage
from scmsim.pipeline.trailing import trailing
from scmsim.workload.filebench import Workload
from scmsim.workload.mapped import Workload as Mapped
from tests.conftest import NO_JIT
from tests.fs import drive
from tests.pipeline.test_periods_properties import Cell

SETTINGS = (
    {"by": "op"},
    {"by": "file", "sync_at_end": True, "system": "thesis"},
    {"system": "busy"},
    {"footprints": "none"},
    {"footprints": "6.1-lines", "caches": "stream"},
)


def small():
    return Workload(set="nfiles=20", flowops=60 if NO_JIT else 1500)


def results(source, fs, jobs, **given):
    return [dataclasses.asdict(run) for run in scmsim.replay(source, fs, jobs=jobs, **given).runs]


@pytest.mark.parametrize("fs", registry.names("fs"))
def test_every_model_has_the_same_figures(fs):
    assert results(small(), fs, 2, chunk=97) == results(small(), fs, 1)


@pytest.mark.parametrize("given", SETTINGS, ids=str)
def test_every_setting_has_the_same_figures(given):
    assert results(small(), "ext4-dax,nova-cow", 4, chunk=333, **given) == results(
        small(), "ext4-dax,nova-cow", 1, **given
    )


def test_faults_of_mapped_files_are_the_same():
    mapped = Mapped(file_size=1 << 20, touches=3000)
    assert results(mapped, "ext4-dax", 2) == results(mapped, "ext4-dax", 1)


@pytest.mark.parametrize("given", [{}, {"footprints": "6.1-lines", "caches": "stream"}], ids=str)
@pytest.mark.parametrize("jobs", [2, 3, 16])
def test_several_models_have_the_same_figures(jobs, given):
    names = "ext4-dax,nova-cow,tmpfs,ext4"
    assert results(small(), names, jobs, chunk=50, by="op", **given) == results(small(), names, 1, by="op", **given)


class Waiting:
    """A source for two models; the model that starts second waits after each batch until the other model has ended."""

    def __init__(self, source, ended):
        self.source, self.ended, self.passes = source, ended, itertools.count()
        self.header, self.files, self.rows = source.header, source.files, source.rows

    def batches(self, chunk):
        waits = next(self.passes) == 1
        for batch in self.source.batches(chunk):
            yield batch
            if waits:
                assert self.ended.wait(60)


def test_a_model_uses_a_second_thread_once_another_has_ended(monkeypatch):
    ended, started, was_ended, start = threading.Event(), [], at_once._Shared.ended, trailing_module.Trailing.__init__

    def end(shared, *arguments):
        was_ended(shared, *arguments)
        ended.set()

    def begin(late, loop, stages):
        started.append(ended.is_set())
        start(late, loop, stages)

    monkeypatch.setattr(at_once._Shared, "ended", end)
    monkeypatch.setattr(trailing_module.Trailing, "__init__", begin)
    before = threading.active_count()
    found = results(Waiting(small(), ended), "ext4-dax,nova-cow", 2, chunk=50)
    assert started == [True] and threading.active_count() == before
    assert found == results(small(), "ext4-dax,nova-cow", 1)


@pytest.mark.parametrize("first", [0, 1, 3])
def test_passes_are_skipped_alike_if_the_thread_starts_in_a_later_batch(first):
    """Each pass is one batch, so with `first` 1 and 3 the thread starts between two passes of the part."""
    found = []
    for asked in (itertools.count(-first), itertools.repeat(-1)):
        source = Cell([("read", 0, 2), ("read", 2, 2)], 400, 1000)
        replay = Replay(source, "nova-cow", DEFAULTS["machine"], None, DEFAULTS["medium"], {}, "site", "6.1", 1 << 14)
        found.append(dataclasses.asdict(replay.run(False, None, lambda asked=asked: next(asked) >= 0)))
    assert found[0] == found[1] and found[0]["repeated"] > 250


class Late(Stage):
    """A trailing stage that keeps what it is given, and fails at the event of the number `failing`."""

    trails = True

    def __init__(self, failing=-1):
        self.seen, self.failing, self.thread = [], failing, None

    def take(self, events, bins):
        self.thread = threading.get_ident()
        self.seen += zip(events["op"].tolist(), events["addr"].tolist(), bins.tolist(), strict=True)
        if 0 <= self.failing < len(self.seen):
            raise ScmsimError("the stage failed")


def loop_of(late, room):
    source = small()
    model = Model("nova-cow", model_params("fs", "nova-cow", {}), source.files, room)
    return Loop(model, [CounterIndex(source.files, model.sites, "site"), late], source.files), source


@pytest.mark.parametrize("room", [1, 50, 1 << 14])
def test_a_stage_sees_the_same_events_in_buffers_that_grow(room):
    seen = []
    for on_two in (False, True):
        late = Late()
        loop, source = loop_of(late, room)
        stages = loop.stages
        if on_two:
            with trailing(loop, lambda: True) as take:
                for batch in source.batches(70):
                    take(batch)
            assert late.thread != threading.get_ident()
        else:
            for batch in source.batches(70):
                loop.take(batch)
        assert loop.stages == stages
        seen.append(late.seen)
    assert seen[0] == seen[1] and len(seen[0]) > 100


def test_the_error_of_a_stage_is_raised_and_the_thread_ends():
    late, before = Late(failing=20), threading.active_count()
    loop, source = loop_of(late, 50)

    def work():
        with trailing(loop, lambda: True) as take:
            for batch in source.batches(70):
                take(batch)

    with pytest.raises(ScmsimError, match="the stage failed"):
        work()
    count = len(late.seen)
    assert threading.active_count() == before and count < 20 + len(loop.model.out) + 1


def test_an_error_of_the_model_ends_the_thread():
    before = threading.active_count()
    rows = [("create", 1, 0, 0, 0), *(("write", 1, at << 20, 1 << 20) for at in range(10))]
    source = drive.source(drive.files(0, -1, dirs=[0]), drive.ops(*rows))

    def stop(*told):
        if told[1]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scmsim.replay(source, "nova-cow", jobs=2, chunk=2, progress=stop)
    assert threading.active_count() == before
    assert scmsim.replay(source, "nova-cow", jobs=2).runs[0].payload["written"] == 10 << 20
