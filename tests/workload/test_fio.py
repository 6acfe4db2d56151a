"""fio's job files: what is read, what is refused and how; generators against reference implementations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scmsim.core.errors import UsageError
from scmsim.core.records import OPEN, OPS, READ, SETUP, WRITE, joined
from scmsim.workload import fio
from scmsim.workload._fio_file import parse, parse_words
from scmsim.workload._fio_options import SETTERS, size
from scmsim.workload._fio_state import jhash


def counted(text, tmp_path):
    path = tmp_path / "job.fio"
    path.write_text(text)
    batch = joined(list(fio.Workload(job=str(path)).batches()))
    return batch[(batch["flag"] & SETUP) == 0].view(np.recarray)


def test_sections_inherit_from_global_and_count_jobs():
    text = "; a comment\n[global]\nbs=4k ; inline\nsize=1m # too\n[a]\nrw=randread\nnumjobs=3\n"
    text += "# more\n[global]\nbs=8k\n[b]\nrw=write\n"
    jobs, _ = parse(text)
    assert [(job.name, job.number, job.clone, job.least, job.random) for job in jobs] == [
        ("a", 1, 0, (4096, 4096), 1),
        ("a", 2, 2, (4096, 4096), 1),  # fio numbers clones backwards
        ("a", 3, 1, (4096, 4096), 1),
        ("b", 4, 0, (8192, 8192), 0),
    ]
    assert jobs[1].paths() == ["a.2.0"]


@pytest.mark.parametrize(
    ("text", "bytes"),
    [("4k", 4096), ("4KB", 4096), ("4ki", 4000), ("4KiB", 4000), ("1g", 1 << 30), ("0x10", 16), ("7", 7)],
)
def test_sizes(text, bytes):
    assert size(text, "here") == bytes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a]\nsize=1m\nverify=md5\nverify_backlog=1\n", "f:4: verify_backlog mixes reads into the writes"),
        ("[a]\nsize=1m\nlookup=1\n", "f:3: option 'lookup' is not modelled; take it out (did you mean 'loops'?)"),
        ("[a]\nsize=1m\nruntime=soon\n", "f:3: runtime=soon is not a time"),
        ("[a]\nsize=1m\ntime_based\n", "f:3: time_based starts the job again until its runtime is over"),
        ("[a]\nsize=1m\nrw=randtrim\n", "f:3: rw=trim discards blocks"),
        ("[a]\nsize=1m\nrw=rw\nrate=1m\n", "f:4: rate of a mixed job"),
        (
            "[a]\nsize=1m\nbs=4k\nbssplit=4k/${MOST}\n",
            "f:4: the variable in bssplit=4k/${MOST} has no value here; set MOST=VALUE",
        ),
        ("[a]\nsize=1m\nbssplit=4k/60:8k/60\n", "add up to 120 per cent"),
        ("[a]\nsize=1m\nwait_for=b\n", "wait_for='b' names no job before it"),
        ("[a]\nsize=1m\nfilename=/dev/null\n", "f:3: /dev/null is not a regular file"),
        ("[a]\nsize=1m\nzonemode=strided\n", "needs a zonesize"),
        ("[a]\nsize=1m\nzonemode=zbd\n", "f:3: zonemode=zbd needs a zoned device"),
        ("[a]\nsize=1m\nrw=randrwx\n", "did you mean 'randrw'"),
        ("[a]\nsize=10x\n", "f:2: '10x' is not a size"),
        ("rw=read\n", "f:1: 'rw=read' comes before"),
        ("[global]\nsize=1m\n", "the file defines no job"),
        ("[a]\nsize=1m\nioengine=rbd\n", "modelled choice"),
        ("[a]\nsize=1m\nrandom_distribution=zipf:1\n", "is not a distribution"),
        ("[a]\nsize=1m\nrandom_distribution=zoned:50/50\n", "the shares of zoned must add up to 100"),
        ("[a]\nsize=$mb\n", "the variable in size=$mb has no value"),
        ("[a]\nsize=1m\nbs=0\n", "a block of 0 bytes"),
        ("[a]\nsize=1m\nrw=randread:0\n", "repeats its first offset for ever"),
        ("[a]\nsize=1m\nnumjobs=99999999\n", "not a number from 0 to 4096"),
        ("[a]\nsize=1m\nnrfiles=1000000\nnumjobs=2\n", "more than 1,048,576 files"),
        ("[a]\nsize=1m\nbsrange=4k\n", "not LOW-HIGH"),
    ],
)
def test_what_is_refused_is_named_with_its_line(text, said):
    with pytest.raises(UsageError) as error:
        parse(text, "f")
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("rw=read", "job 'job': its size is not given"),
        ("rw=read size=10%", "size=N% is a share of the file"),
        ("size=1m offset_increment=1023p numjobs=9", "beyond 2 EiB"),
        ("filesize=4k offset=8k", "its offset is beyond its filesize"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(options, said):
    with pytest.raises(UsageError) as error:
        fio.Workload(options=options)
    assert said in str(error.value)


def test_all_mistakes_are_reported_at_once():
    with pytest.raises(UsageError) as error:
        parse("[global]\nbs=x\n[a]\nsize=1m\nfrob=1\n[b]\nsize=1m\nrw=up\n", "f")
    lines = str(error.value).splitlines()
    assert lines[0] == "f: 3 mistakes" and [line.partition(": ")[0] for line in lines[1:]] == ["f:2", "f:5", "f:8"]


def test_options_that_change_no_call_are_noted():
    text = "[a]\nsize=1m\nruntime=60\ngroup_reporting\ndirect=1\nrandrepeat=0\nfilename=/dev/sda\n"
    notes = parse(text).notes
    assert [note.partition(":")[2].strip() or note for note in notes] == [
        "runtime",
        "group_reporting, direct",
        "/dev/sda",
        "randrepeat=0 draws other numbers in each run of fio; the trace has those of one fixed seed",
    ]


def test_options_replace_those_of_every_job(tmp_path):
    path = tmp_path / "j.fio"
    path.write_text("[global]\ntime_based\nruntime=9\nbs=${BS}\n[a]\nsize=9g\n[b]\n")
    work = fio.Workload(job=str(path), set="size=64k time_based=0 BS=8k")
    assert [(job.size, job.bs) for job in work.jobs] == 2 * [(65536, (8192, 8192))]


@pytest.mark.parametrize(
    "text",
    [
        "--name=a --rw=randread --size=64k --name=b --size=128k",
        "fio --size=1m --name a --rw randread --size 64k -name=b --size=128k --rw=read --output=x --minimal",
        "--name=global --bs=4k --name=a --rw=randread --size=64k --group_reporting --name=b --size=128k",
    ],
)
def test_a_command_line(text):
    assert [(job.name, job.size) for job in parse_words(text).jobs] == [("a", 65536), ("b", 131072)]


@pytest.mark.parametrize("text", ["--name=a x.fio", "--name='a", "--name=a --size", "--size=1m"])
def test_a_command_line_that_is_refused_is_one_error(text):
    with pytest.raises(UsageError):
        parse_words(text)


def test_what_was_written_is_read_back(tmp_path):
    for options, order in (("rw=randwrite", False), ("rw=randwrite\nnorandommap", True)):
        batch = counted(f"[a]\nsize=64k\nverify=md5\n{options}\n", tmp_path)
        wrote, read = (batch.offset[batch.op == op].tolist() for op in (WRITE, READ))
        assert read == (sorted(set(wrote)) if order else wrote)


def test_engines_that_only_open(tmp_path):
    ops = {}
    for engine in ("filecreate", "filestat", "filedelete", "dircreate", "dirstat", "dirdelete"):
        batch = counted(f"[a]\nioengine={engine}\nfilesize=4k\nnrfiles=3\n", tmp_path)
        ops[engine] = [OPS[op] for op in batch.op if OPS[op] != "close"]
    names = ("create", "stat", "unlink", "mkdir", "stat", "rmdir")
    assert ops == {engine: 3 * [name] for engine, name in zip(ops, names, strict=True)}


def test_the_engine_mmap_maps_once_and_syncs(tmp_path):
    batch = counted("[a]\nioengine=mmap\nrw=write\nsize=16k\nfsync=2\n", tmp_path)
    said = [OPS[op] for op in batch.op]
    assert said == ["open", "mmap", "store", "store", "msync", "store", "store", "munmap", "close"]


def test_a_job_waits_for_another(tmp_path):
    batch = counted("[global]\nsize=16k\n[a]\nrw=write\n[b]\nrw=read\nwait_for=a\n[c]\nrw=read\n", tmp_path)
    last, first = np.flatnonzero(batch.thread == 0)[-1], np.flatnonzero(batch.thread == 1)[0]
    assert last < first and np.flatnonzero(batch.thread == 2)[0] == 1


def test_flow_is_the_share_of_the_turns(tmp_path):
    batch = counted("[global]\nsize=64k\nrw=read\n[a]\nflow=3\n[b]\nflow=1\n", tmp_path)
    assert batch.thread[:8].tolist() == [0, 0, 0, 1, 0, 0, 0, 1]


@given(st.text(alphabet="[]=ab \nrwsize1mk%:,-/$;#", max_size=80))
def test_any_text_is_a_list_of_jobs_or_an_error(text):
    try:
        assert parse(text).jobs
    except UsageError as error:
        assert str(error)


KEYS = [*SETTERS, "runtime", "numjobs", "bogus"]
VALUES = st.sampled_from(
    [
        "",
        "0",
        "1",
        "7",
        "-1",
        "50%",
        "4k",
        "1m",
        "4k,8k",
        "4k/50:8k/50",
        "1k-4k",
        "zipf:0.9",
        "randrw:4",
        "²",
        "1e9",
        "9" * 30,
    ]
)


@given(st.lists(st.tuples(st.sampled_from(KEYS), VALUES), max_size=6), st.booleans())
def test_any_options_make_a_workload_or_an_error(options, as_words):
    text = " ".join(f"{'--' * as_words}{key}={value}" for key, value in [("size", "64k"), *options])
    try:
        work = fio.Workload(options=f"--name=a {text}" if as_words else text)
        assert next(work.batches(), None) is not None or not work.rows
    except UsageError as error:
        assert str(error)


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        fio.Workload(job=str(tmp_path / "none.fio"))


def test_jobs_take_turns_until_a_stonewall(tmp_path):
    batch = counted("[global]\nsize=16k\n[a]\nrw=read\n[b]\nrw=read\n[c]\nstonewall\nrw=write\n", tmp_path)
    assert batch.thread[:12].tolist() == [0, 1] * 6 and set(batch.thread[12:]) == {2}
    assert (batch.op == READ).sum() == 8 and (batch.op == WRITE).sum() == 4


def test_jobs_may_share_a_file(tmp_path):
    batch = counted("[global]\nfilename=x\nsize=64k\nrw=randwrite\n[a]\n[b]\n", tmp_path)
    assert set(batch.file) == {1} and (batch.op == OPEN).sum() == 2
    orders = [batch.offset[(batch.thread == i) & (batch.op == WRITE)].tolist() for i in (0, 1)]
    assert orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1])


def test_a_file_that_is_made_anew_is_the_one_that_all_jobs_use(tmp_path):
    """The second job finds the first one's file too short, removes it and makes its own before either runs."""
    batch = counted("[global]\nfilename=x\nfallocate=none\nrw=write\n[a]\nsize=16k\n[b]\nsize=32k\n", tmp_path)
    assert len(set(batch.file)) == 1 and (batch.op == WRITE).sum() == 12


def test_each_block_once_with_a_map_or_an_lfsr_and_not_without():
    for options, once in (("", True), ("random_generator=lfsr", True), ("norandommap", False)):
        batch = joined(list(fio.Workload(options=f"rw=randread size=3000k bs=1k {options}").batches()))
        batch = batch[(batch["flag"] & SETUP == 0) & (batch["op"] == READ)]
        assert len(batch) == 3000 and (len(set(batch["offset"])) == 3000) == once


def test_each_unit_of_the_queue_has_its_buffer():
    for engine, buffers in (("libaio", 4), ("psync", 1)):
        work = fio.Workload(options=f"rw=write size=256k bs=6k ioengine={engine} iodepth=4")
        batch = joined(list(work.batches()))
        batch = batch[(batch["flag"] & SETUP == 0) & (batch["op"] == WRITE)]
        assert sorted(set(batch["buffer"])) == [8192 * i for i in range(buffers)]


def test_hash_of_a_name_depends_on_every_byte():
    names = [b"", b"a", b"abcdefghijkl", b"abcdefghijklm", b"abcdefghijklmnopqrstuvwxyz"]
    values = [jhash(name) for name in names]
    assert len(set(values)) == len(names) and all(0 <= value < 1 << 32 for value in values)


def test_the_header_says_what_differs_from_fio_s_defaults():
    header = fio.Workload(options="rw=randread size=1m").header
    assert header["jobs"] == [{"name": "job", "random": 1, "size": 1 << 20}]
    assert OPS[READ] == "read"
