"""fio's job files: what is read, what is refused and how; generators against reference implementations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scmsim.core.errors import UsageError
from scmsim.core.records import OPEN, OPS, READ, SETUP, WRITE, joined
from scmsim.workload import fio
from scmsim.workload._fio_file import parse, size
from scmsim.workload._fio_state import jhash


def counted(text, tmp_path):
    path = tmp_path / "job.fio"
    path.write_text(text)
    batch = joined(list(fio.Workload(job=str(path)).batches()))
    return batch[(batch["flag"] & SETUP) == 0].view(np.recarray)


def test_sections_inherit_from_global_and_count_jobs():
    jobs = parse(
        "; a comment\n[global]\nbs=4k\nsize=1m\n[a]\nrw=randread\nnumjobs=2\n# more\n[global]\nbs=8k\n[b]\nrw=write\n"
    )
    assert [(job.name, job.number, job.clone, job.least, job.random) for job in jobs] == [
        ("a", 1, 0, (4096, 4096), 1),
        ("a", 2, 1, (4096, 4096), 1),
        ("b", 3, 0, (8192, 8192), 0),
    ]
    assert jobs[1].paths() == ["a.1.0"]


@pytest.mark.parametrize(
    ("text", "bytes"),
    [("4k", 4096), ("4KB", 4096), ("4ki", 4000), ("4KiB", 4000), ("1g", 1 << 30), ("0x10", 16), ("7", 7)],
)
def test_sizes(text, bytes):
    assert size(text, "here") == bytes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a]\nsize=1m\nverify=md5\n", "f:3: option 'verify' is not modelled"),
        ("[a]\nsize=1m\nruntime=60\n", "f:3: runtime needs a clock"),
        ("[a]\nsize=1m\nrw=randrwx\n", "did you mean 'randrw'"),
        ("[a]\nsize=10%\n", "f:2: '10%' is not a size"),
        ("[a]\nrw=read\n", "job 'a': size 0 is smaller than a block"),
        ("rw=read\n", "f:1: 'rw=read' stands before"),
        ("[global]\nsize=1m\n", "there is no job in it"),
        ("[a]\nsize=1m\nioengine=mmap\n", "choice that is modelled"),
        ("[a]\nsize=1m\nrandom_distribution=zipf:1\n", "is not a distribution"),
        ("[a]\nsize=1m\nrandom_distribution=zoned:50/50\n", "no choice that is modelled named 'zoned'"),
        ("[a]\nsize=$mb\n", "variables"),
        ("[a]\nsize=1m\nbs=0\n", "a block of 0 bytes"),
        ("[a]\nsize=1m\nrw=write:8k\n", "modifier after the colon"),
        ("[a]\nsize=1m\nrandrepeat=0\n", "cannot be repeated"),
        ("[a]\nsize=1m\nnumjobs=99999999\n", "not a number from 0 to 4096"),
        ("[a]\nsize=1m\nnrfiles=1000000\nnumjobs=2\n", "more than 1,048,576 files"),
        ("[a]\nsize=1m\noffset_increment=1023p\nnumjobs=9\n", "beyond 2 EiB"),
        ("[a]\nsize=1m\nbsrange=4k\n", "not LOW-HIGH"),
    ],
)
def test_what_is_refused_is_named_with_its_line(text, said):
    with pytest.raises(UsageError) as error:
        parse(text, "f")
    assert said in str(error.value) and "\n" not in str(error.value)


@given(st.text(alphabet="[]=ab \nrwsize1mk%:,-", max_size=80))
def test_any_text_is_a_list_of_jobs_or_one_line(text):
    try:
        assert parse(text)
    except UsageError as error:
        assert "\n" not in str(error)


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
