"""Recordings of persistent memory, and the states of a crash guest, as the plugin writes and reads them."""

import io
import struct

import numpy as np
import pytest

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.core.records import FALLOCATE, MMAP, OP, PUNCH_HOLE, WRITE, Files
from scmsim.lab import cache, persistence
from scmsim.lab.persistence import Entry, Name


def head(kind, at=0, length=0, code=0, node=0, cpu=0):
    return struct.pack("<QQIHBB", at, code, node, length, kind, cpu)


def test_a_recording_is_read_line_by_line_and_more_than_once(tmp_path):
    (tmp_path / "record").write_bytes(
        head(persistence.BEGUN)
        + head(persistence.STORED, 64, 5, 9, 3)
        + b"hello\0\0\0"
        + head(persistence.WRITTEN_BACK, 64, 2, cpu=3)
    )
    found = persistence.Recorded(tmp_path / "record")
    lines = [
        Entry(persistence.BEGUN, 0, 0, 0, 0),
        Entry(persistence.STORED, 64, 5, 9, 3, b"hello"),
        Entry(persistence.WRITTEN_BACK, 64, 2, 0, 0, cpu=3),
    ]
    assert list(found) == lines and list(found) == lines


@pytest.mark.parametrize("cut", [1, 8, 20, 39])
def test_a_recording_that_is_cut_short_is_an_error(tmp_path, cut):
    (tmp_path / "record").write_bytes((head(persistence.STORED, 64, 16) + bytes(16))[:-cut])
    with pytest.raises(EnvironmentProblem, match="cut short"):
        list(persistence.Recorded(tmp_path / "record"))


def test_states_are_written_as_the_plugin_reads_them():
    out = io.BytesIO()
    writer = persistence.StateWriter(out)
    writer.arrived(128, b"abc")
    writer.state([(4096, bytes(5000))])
    pieces, at, raw = [], 0, out.getvalue()
    while at < len(raw):
        place, length, kind = struct.unpack_from("<QII", raw, at)
        pieces.append((kind, place, raw[at + 16 : at + 16 + length]))
        at += 16 + -(-length // 8) * 8
    # struct piece of persistence.c: what arrived for good, a state, and what it has besides, in pieces of 4 KiB at most
    assert pieces == [(0, 128, b"abc"), (1, 0, b""), (2, 4096, bytes(4096)), (2, 8192, bytes(904))]
    assert writer.count == 1


def test_a_file_that_was_not_read_to_its_end_is_refused():
    seen = struct.pack("<QqIIIIii", 12, 1 << 30, 0, 65537, 1, 1, 0, 0) + bytes(16 * 65537)
    with pytest.raises(UsageError, match="more than 65,536 pieces"):
        list(persistence._files(seen, 1))
    (whole,) = persistence._files(struct.pack("<QqIIIIii", 12, 16, 0, 1, 2, 1, 0, 39) + struct.pack("<QQ", 5, 2), 1)
    assert whole == persistence.SeenFile(12, 16, False, ((5, 2),), links=2, use=39)
    assert "#define MOST_RUNS 65536\n" in (cache.HERE / "guest_crash.c").read_text()


def test_names_are_made_as_the_guest_makes_them():
    assert [Name(-1, 17, number).leaf for number in (0, 1, 19, 20, 41)] == [
        "f000017", "g000017", "y000017", "f000017.1", "g000017.2",
    ]  # fmt: skip


class Trace:
    header = {}

    def __init__(self, op, flag=0):
        self.files, self.rows = Files(["/f"], np.array([4096]), np.array([False])), 1
        self.array = np.zeros(1, OP)
        self.array["op"], self.array["length"], self.array["flag"] = op, 8, flag

    def batches(self, chunk=1 << 14):
        yield self.array.view(np.recarray)


def test_a_plan_has_the_trace_and_nothing_before_it():
    plan = persistence.plan_of(Trace(WRITE))
    assert len(plan.operations) == len(plan.files) == 1 and plan.operations["op"][0] == WRITE


@pytest.mark.parametrize(("op", "flag", "said"), [(MMAP, 0, "maps files"), (FALLOCATE, PUNCH_HOLE, "punches holes")])
def test_what_is_not_followed_is_refused(op, flag, said):
    with pytest.raises(UsageError, match=said):
        persistence.plan_of(Trace(op, flag))


def test_numbers_of_marks_are_those_of_the_guest():
    plugin, common, guest = ((cache.HERE / name).read_text() for name in ("persistence.c", "tcg.h", "guest.h"))
    assert "enum mark { NEXT = 0xffb, END, BEGIN }" in plugin and "#define ARM 0xffe " in common
    assert "#define COUNT 0xffe" in guest and "enum { NEXT = 0xffb, END, BEGIN }" in guest
