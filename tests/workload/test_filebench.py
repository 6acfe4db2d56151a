"""Filebench: exact file sets, the workload language, and what its steps ask for."""

import collections

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.core.records import APPENDS, CREATE, OPS, READ, SETUP, STAT, WRITE, joined
from scmsim.workload import _wml, filebench
from scmsim.workload._fileset import Drand48, Gamma, Tree, rand


def drawn(entries, width, mean):
    return Tree(entries, width, 1500, Gamma(mean, 1.5), Drand48())


@pytest.mark.parametrize(
    ("entries", "width", "mean", "megabytes"),
    [
        (10_000, 20, 131_072, "1240.757"),
        (1000, 20, 131_072, "119.223"),
        (200, 20, 131_072, "24.608"),
        (1000, 1_000_000, 16_384, "14.959"),
    ],
)
def test_totals_that_filebench_prints(entries, width, mean, megabytes):
    assert f"{sum(drawn(entries, width, mean).sizes) / 2**20:.3f}" == megabytes


def test_first_sizes_of_fileserver_and_varmail():
    assert drawn(10_000, 20, 131_072).sizes[:5] == [51042, 211768, 12069, 126779, 74088]
    assert drawn(1000, 1_000_000, 16_384).sizes[:5] == [2096, 7949, 6380, 26471, 1508]


def test_rand_is_glibc_s():
    """The first numbers of rand() without srand, as printed by a C program."""
    numbers = rand()
    assert [next(numbers) for _ in range(4)] == [1804289383, 846930886, 1681692777, 1714636915]


def parse(text, **changed):
    return _wml.Parser(text, "w.f", changed).workload()


TINY = """
set $n=10
set $size=cvar(type=cvar-gamma,parameters=mean:1000;gamma:1.5)
define fileset name=t,path=/x,size=$size,entries=$n,dirwidth=4,prealloc=100
define process name=p,instances=2 { thread name=w,memsize=1m,instances=3 { flowop %s } }
run 60
"""


def test_language():
    made = parse(TINY % "readwholefile name=r,filesetname=t,iosize=4k,\n  fd=1", n="12")
    assert made.filesets[0] == _wml.FileSet("t", "/x", Gamma(1000.0, 1.5), 12, 4, 1500, 100)
    assert [(thread.count, thread.memsize) for thread in made.threads] == [(6, 1 << 20)]
    assert made.threads[0].flowops[0].given == {"name": "r", "filesetname": "t", "iosize": 4096, "fd": 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TINY % "wakeup name=l", "no modelled flowop named 'wakeup'"),
        (TINY % "read name=r,index=3", "did you mean 'indexed'"),
        (TINY.replace("$n,", "$m,") % "hog value=1", "w.f:4: variable $m is used before it is set"),
        (TINY.replace("entries=$n", "entries=0") % "hog value=1", "entries or leafdirs of at least 1"),
        (
            TINY.replace("set $n=10", "set $n = randvar(type=tabular)") % "hog value=1",
            "type=tabular without a randtable",
        ),
        (
            TINY.replace("set $n=10", "set $n = randvar(type=gamma, mode=3)") % "hog value=1",
            "no attribute of a random variable named 'mode'",
        ),
        (
            TINY.replace("set $n=10", "set $n = randvar(type=tabular, randtable={{50, 1, 2}})") % "hog value=1",
            "add up to 100",
        ),
        (
            TINY.replace("set $n=10", "set $n = randvar(mean=3)") % "hog value=1",
            "entries must be a number here, not a random variable",
        ),
        (TINY % "hog value=1" + "set mode quit never", "no mode named 'never'"),
        (TINY.replace("cvar-gamma", "cvar-weibull") % "hog value=1", "'cvar-weibull' is not modelled"),
        ((TINY % "hog value=1").rpartition("} }")[0], "check that the file is complete"),
        ("set $n=3", "no thread is defined"),
        ("defin fileset", "did you mean 'define'"),
        (TINY.replace("$n=10", "$n=99999999") % "hog value=1", "more than 1,048,576 files"),
        (TINY.replace("instances=3", "instances=99999999") % "hog value=1", "threads; set fewer"),
    ],
)
def test_what_is_refused_is_one_line(text, said):
    with pytest.raises(UsageError) as error:
        parse(text)
    assert said in str(error.value) and "\n" not in str(error.value)


@given(st.text(alphabet='{}=,$ \n"ad;set fin proces1k', max_size=60))
def test_any_text_is_a_workload_or_one_line(text):
    try:
        parse(text)
    except UsageError as error:
        assert "\n" not in str(error)


def calls(tmp_path, flowops, count=50, **given):
    path = tmp_path / "w.f"
    path.write_text((TINY % flowops).replace("instances=2", "instances=1").replace("instances=3", "instances=1"))
    batch = joined(list(filebench.Workload(file=str(path), flowops=count, **given).batches()))
    return batch.view(np.recarray)[(batch["flag"] & SETUP) == 0]


def test_a_file_larger_than_one_transfer_is_written_rounded_up(tmp_path):
    batch = calls(tmp_path, "deletefile filesetname=t flowop createfile filesetname=t,fd=1 "
                  "flowop writewholefile fd=1,iosize=512 flowop closefile fd=1", 40)  # fmt: skip
    sizes = Tree(10, 4, 1500, Gamma(1000.0, 1.5), Drand48()).sizes
    written = collections.Counter()
    for r in batch[batch.op == WRITE]:
        written[int(r.file)] += int(r.length)
    expected = [size if size <= 512 else -(-size // 512) * 512 for size in sizes]
    assert sorted(written.values()) == sorted(expected) and max(sizes) > 512


def test_files_are_taken_in_turn(tmp_path):
    batch = calls(tmp_path, "statfile filesetname=t", 25)
    assert (np.diff(batch.file) % 10 == 1).all() and len(set(batch.file)) == 10


def test_reading_a_whole_file_ends_with_nothing(tmp_path):
    batch = calls(tmp_path, "openfile filesetname=t,fd=1 flowop readwholefile fd=1,iosize=300 flowop closefile fd=1", 3)
    reads = batch[batch.op == READ]
    assert reads.length[-1] == 0 and reads.offset[-1] == reads.length.sum() and (reads.length[:-2] == 300).all()


def test_random_appends_lie_at_the_end_and_stay_below_their_size(tmp_path):
    batch = calls(tmp_path, "appendfilerand filesetname=t,fd=1,iosize=16k", 4000)
    writes = batch[batch.op == WRITE]
    assert (writes.flag == APPENDS).all() and len(set(writes.file)) == 1
    assert (np.diff(writes.offset) == writes.length[:-1]).all()
    assert 0 < writes.length.min() and writes.length.max() < 16384 and abs(writes.length.mean() - 8192) < 400


def test_buffers_lie_in_the_thread_s_memory_at_multiples_of_the_transfer(tmp_path):
    batch = calls(tmp_path, "write filesetname=t,fd=1,iosize=10k,random,workingset=1m", 2000)
    writes = batch[batch.op == WRITE]
    assert (writes.buffer % 10240 == 0).all() and writes.buffer.max() <= (1 << 20) - 10240
    assert len(set(writes.buffer)) > 80 and (writes.offset % 10240 == 0).all()


def test_a_step_without_a_file_waits_or_ends_the_run(tmp_path):
    create = "createfile filesetname=t,fd=1 flowop closefile fd=1"  # all ten exist already
    with pytest.raises(IndexError):
        calls(tmp_path, create)[0]
    kinds = "statfile filesetname=t flowop createfile filesetname=t,fd=1"
    assert [OPS[op] for op in calls(tmp_path, kinds, starved="stop").op] == ["stat"]


def test_writers_of_oltp_come_after_as_many_reads_as_their_semaphores_say():
    work = filebench.Workload(personality="oltp", flowops=400_000, set="nshadows=20 ndbwriters=2")
    batch = joined(list(work.batches()))
    batch = batch[(batch["flag"] & SETUP) == 0]
    log = len(work.files) - 1
    reads = (batch["op"] == READ).sum()
    data = ((batch["op"] == WRITE) & (batch["file"] != log)).sum()
    logged = ((batch["op"] == WRITE) & (batch["file"] == log)).sum()
    assert abs(data - 2 * 100 * (reads // 1000 + 1)) <= 200 and abs(logged - (reads // 3200 + 1)) <= 1


def test_seeds_change_places_but_not_the_file_set():
    one, two = (filebench.Workload(personality="varmail", flowops=500, seed=seed) for seed in (1, 2))
    assert one.files.path == two.files.path
    batches = [joined(list(work.batches())) for work in (one, two)]
    assert not np.array_equal(*batches)
    assert len({int((batch["op"][batch["flag"] & SETUP != 0] == CREATE).sum()) for batch in batches}) == 1


@pytest.mark.parametrize(
    "given",
    [
        {"flowops": 0},
        {"seed": -1},
        {"set": "nothing=1"},
        {"file": "/nowhere.f"},
        {"file": "x.f", "personality": "oltp"},
        {"set": "iosize=999999999g"},
        {"set": "iosize=20m"},
        {"flowops": 1 << 50},
    ],
)
def test_parameters_are_checked(given):
    with pytest.raises(UsageError):
        filebench.Workload(**given)


def test_every_personality_is_offered():
    shipped = {path.stem for path in filebench._FOLDER.glob("*.f")}
    assert shipped == set(registry.literals("workload", "filebench")["PARAMS"]["personality"][1].split("|"))


SOME = TINY.replace("instances=2", "instances=1").replace("instances=3", "instances=1")


@pytest.mark.parametrize(
    "define",
    ["set $io = randvar(type=uniform,min=1k,mean=2k)", "define randvar name=$io, type=uniform, min=1k, mean=2k"],
)
def test_a_random_variable_in_both_languages(define, tmp_path):
    (tmp_path / "w.f").write_text(
        f"{define}\neventgen rate=5\n" + SOME % "appendfile name=a,filesetname=t,iosize=$io,fd=1"
    )
    work = filebench.Workload(file=str(tmp_path / "w.f"), flowops=200)
    batch = joined(list(work.batches()))
    sizes = batch["length"][(batch["op"] == WRITE) & (batch["flag"] & SETUP == 0)]
    assert len(set(sizes)) > 100 and 1024 <= sizes.min() <= sizes.max() <= 3072
    assert work.header["notes"] == ["a trace has no clock; without effect: eventgen"]


@pytest.mark.parametrize(("mode", "calls"), [("firstdone", 9), ("timeout", 9), ("alldone", 10)])
def test_a_run_ends_with_its_first_or_its_last_thread(mode, calls, tmp_path):
    """Two threads take turns, and each counts its own flowop; the first to reach five ends the run before the other's check."""
    text = TINY.replace("instances=2", "instances=1").replace("instances=3", "instances=2") % (
        "statfile name=s,filesetname=t flowop finishoncount name=f,value=5,target=s"
    )
    (tmp_path / "w.f").write_text(f"set mode quit {mode}\n{text}")
    batch = joined(list(filebench.Workload(file=str(tmp_path / "w.f")).batches()))
    assert abs(int(((batch["op"] == STAT) & (batch["flag"] & SETUP == 0)).sum()) - calls) <= 1


WORDS = "set define randvar ( ) { } {{ , = name type tabular randtable 50 1k $x fileset process thread flowop mode quit".split()


@given(st.lists(st.sampled_from(WORDS), max_size=25))
def test_any_words_are_a_workload_or_one_line(words):
    try:
        parse(" ".join(words))
    except UsageError as error:
        assert "\n" not in str(error)
