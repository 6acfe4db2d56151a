"""The PMFS kernels against their reference implementation, operation by operation."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.errors import UsageError
from scmsim.core.records import LOAD, USER, WORK
from scmsim.fs.engine import costs
from scmsim.fs.pmfs.templates import SITES
from tests.conftest import NO_JIT
from tests.fs import drive, laws
from tests.fs.pmfs.reference import Pmfs

offsets = st.one_of(
    st.integers(0, 70_000), st.integers(0, 20).map(lambda page: page * 4096), st.integers(2_000_000, 5_000_000)
)
lengths = st.one_of(st.integers(1, 20_000), st.integers(1, 90).map(lambda page: page * 4096), st.just(0))


commands = laws.commands(
    offsets,
    lengths,
    st.just(("create", 0, 0, 0, -1)),  # the directory: its row may be new when something has replaced it
    laws.PLAIN.map(lambda file: ("rename", file, 0, 0, 0)),
    parent=st.sampled_from([-1, 0, 0, 3]),  # 3 is never a directory
)

VARIANTS = {
    "in place": ("pmfs-4k", 12, {}),
    "copy-on-write": ("pmfs-4k", 12, {"data_path": "cow"}),
    "original": ("pmfs-4k", 12, {"version": "original"}),
    "2 MiB": ("pmfs-2m", 21, {}),
    "2 MiB copy-on-write": ("pmfs-2m", 21, {"data_path": "cow"}),
}


def start(variant, capacity=64 << 20):
    fs, shift, params = VARIANTS[variant]
    model = drive.Model(fs, drive.files(*laws.SIZES, dirs=[0], names=laws.NAMES), capacity=capacity, **params)
    cow, dax = params.get("data_path") == "cow", params.get("version") != "original"
    return model, Pmfs(laws.names_of(laws.NAMES), laws.SIZES, (0,), capacity, shift, cow, dax)


def same(model, slow, events):
    assert int(model.record.free_blocks) == len(slow.space.free)


FAMILY = laws.BySite(start, same)


@pytest.mark.parametrize("variant", VARIANTS)
@settings(max_examples=3 if NO_JIT else 25, deadline=None)
@given(rows=st.lists(commands, max_size=14))
def test_kernels_do_what_the_twin_does(variant, rows):
    FAMILY.agree(rows, variant)


@pytest.mark.parametrize("variant", VARIANTS)
def test_edges_of_blocks(variant):
    FAMILY.agree(laws.edges_of_blocks(4096), variant)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_directory_that_was_replaced_and_holds_names_stays_one(variant):
    """Its block would else be counted as live data that nothing has allocated."""
    rows = [("rename", 1, 0, 0, 0), ("create", 2, 0, 0, 0), ("create", 0, 0, 0, -1), ("write", 2, 0, 4096)]
    model, _ = FAMILY.agree(
        [*rows, ("create", 3, 0, 0, 2)], variant
    )  # 2 is a file: the unnamed directory takes the name
    assert model.space()["live_bytes"] == 4096 and model.space()["directory_blocks"] == 2


@pytest.mark.slow
def test_directories_of_many_names():
    """Names of three lengths come and go until directory blocks have gaps, and a second level of the tree is needed."""
    rows = [(op, i, 0, 0, 0) for _ in range(120) for i in (1, 2, 3) for op in ("create", "link", "link")]
    rows += [("unlink", i, 0, 0, 0) for _ in range(70) for i in (3, 1)] + [("link", 2, 0, 0, 0)] * 90
    FAMILY.agree(rows, "in place")


@pytest.mark.slow
def test_the_cleaner_runs_when_an_eighth_of_the_journal_is_used():
    model, slow = FAMILY.agree([("write", 1, 0, 8192)] * 4200, "in place")
    assert int(model.record.cleanings) == 1


def test_a_copy_past_the_caches_is_charged_its_own_loop():
    """The original's loads and stores of 8 bytes in a loop, not the write-backs that follow the port's rep-string."""
    lines, work, widths = 1024, {}, {}
    for version in ("dax", "original"):
        model = drive.Model("pmfs-4k", drive.files(0, -1, dirs=[0]), version=version)
        model.feed(drive.ops(("create", 1), ("write", 1, 0, 64 * lines)))
        events = model.feed(drive.ops(("write", 1, 0, 64 * lines)))
        copies = events[events["site"] == model.sites.index("data copy")]
        work[version] = int(copies["addr"][copies["code"] == WORK].sum())  # thousandths of instructions
        widths[version] = set(copies["width"][(copies["code"] == LOAD) & (copies["space"] == USER)].tolist())
    cached, past = costs.load("pmfs-5.13", ("copy_line", "nocache_line"), list(SITES))[:, 0]
    assert work["dax"] - work["original"] == lines * (cached - past) > 0
    assert widths == {"dax": {0}, "original": {8}}


@pytest.mark.parametrize("fs", ["pmfs-1g", "vsm-1g"])
def test_a_device_has_room_for_two_blocks(fs):
    """Of 1 GiB each, and says so."""
    with pytest.raises(UsageError, match="out of range"):
        drive.Model(fs, drive.files(0, dirs=[0]), capacity="1GiB")
    drive.Model(fs, drive.files(0, dirs=[0]), capacity="2GiB")
