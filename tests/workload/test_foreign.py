"""Configurations of other benchmarks: Postmark's commands, IOzone's command line, YCSB's properties, and names that people type."""

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from scmsim.cli import main
from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.core.records import SETUP, joined
from scmsim.workload import _foreign, iozone, lsm, postmark, ycsb

WORKLOAD_A = """# Yahoo! Cloud System Benchmark
recordcount=500
operationcount = 300
workload=site.ycsb.workloads.CoreWorkload
readallfields=true
readproportion:0.5
updateproportion 0.5
scanproportion=0
insertproportion=0
requestdistribution=zipfian
"""


def test_a_property_file_is_the_workload_that_lsm_knows(tmp_path):
    (tmp_path / "workloada").write_text(WORKLOAD_A)
    read, known = ycsb.Workload(file=str(tmp_path / "workloada")), lsm.Workload(records=500, operations=300)
    assert (joined(list(read.batches())) == joined(list(known.batches()))).all()
    assert read.header["workload"]["kind"] == "ycsb" and read.header["notes"] == [
        "properties that change no call: readallfields"
    ]


def test_a_mix_of_its_own(tmp_path):
    shares = {"read": 0, "update": 0, "scan": 1}
    text = "recordcount=500\noperationcount=300\nmaxscanlength=3\nfieldcount=2\n"
    text += "".join(f"{name}proportion={share}\n" for name, share in shares.items())
    (tmp_path / "w").write_text(text)
    batch = joined(list(ycsb.Workload(file=str(tmp_path / "w"), write_buffer=8192).batches()))
    assert (batch["flag"] & SETUP == 0).sum() >= 300


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "recordcount=5\noperationcount=5\nreadproportions=1",
            "w:3: no modelled property of YCSB named 'readproportions'; did you",
        ),
        ("recordcount=5", "w: operationcount is not given"),
        (
            "recordcount=5\noperationcount=5\nrequestdistribution=hotspot",
            "w:3: no modelled distribution named 'hotspot'",
        ),
        ("recordcount=x", "w:1: 'x' is not a number from 1"),
        ("recordcount=5\noperationcount=5\nreadproportion=much", "w:3: 'much' is not a proportion"),
        ("recordcount=5\noperationcount=5\nworkload=site.ycsb.workloads.TimeSeriesWorkload", "w:3: workload="),
        ("recordcount=5\noperationcount=5\nreadproportion=0\nupdateproportion=0", "all proportions are 0"),
    ],
)
def test_properties_that_are_refused(text, said):
    with pytest.raises(UsageError) as error:
        _foreign.ycsb(text, "w")
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("set sizes 5 9\nrun", "c:1: no modelled setting of Postmark named 'sizes'; did you mean 'size'"),
        ("set size 500\nrun", "c:1: set size needs 2 value(s)"),
        ("load x\nrun", "c:1: Postmark's command 'load' is not modelled; use set, run or quit"),
        ("set number 5", "c: 0 'run' and 0 'set location' commands"),
        ("run\nset number 5\nrun", "c:2: a 'set' after 'run' begins a second run"),
        ("set location /a\nset location /b\nrun", "c: 1 'run' and 2 'set location' commands"),
        ("set bias write 5\nrun", "c:1: set bias takes read or create"),
    ],
)
def test_configurations_of_postmark_that_are_refused(text, said):
    with pytest.raises(UsageError) as error:
        _foreign.postmark(text, "c")
    assert said in str(error.value)


def test_a_setting_beside_the_configuration_is_refused(tmp_path):
    (tmp_path / "c").write_text("set number 7\nrun\n")
    assert postmark.Workload(config=str(tmp_path / "c"), transactions=20).count == 7
    with pytest.raises(UsageError, match="files is given both"):
        postmark.Workload(config=str(tmp_path / "c"), files=9)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("-s 64k", "without -a"),
        ("-a -t 4", "no modelled flag named '-t'"),
        ("-a -s big", "-s 'big' is not a size"),
        ("-a -i x", "is not a number"),
        ("-a '", "close the quotes"),
        ("-aI", "joins several flags"),
    ],
)
def test_command_lines_of_iozone_that_are_refused(text, said):
    with pytest.raises(UsageError, match=said.replace("(", ".")):
        iozone.Workload(command=text)


WORDS = st.lists(
    st.sampled_from(
        "set size number run quit bias read -1 -a -s 64k -i 0 -z -n -g = recordcount 5 zipfian # \n ²".split(" ")
    ),
    max_size=12,
)


@given(WORDS)
def test_any_words_are_parameters_or_one_line(words):
    text = " ".join(words)
    for read in (lambda: _foreign.postmark(text, "c"), lambda: _foreign.ycsb(text, "c"), lambda: _foreign.iozone(text)):
        try:
            read()
        except UsageError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("ycsb-a", "lsm --workload a"),
        ("YCSB-A", "lsm --workload a"),
        ("rocksdb", "lsm --workload a"),
        ("varmail", "filebench --personality varmail"),
    ],
)
def test_names_that_people_type(name, near, tmp_path):
    result = CliRunner().invoke(main, ["synth", name, "-o", str(tmp_path / "o.parquet")])
    assert result.exit_code == 2 and f"the nearest is: scmsim synth {near}" in result.output + str(result.exception)
    assert near.split()[0] in registry.names("workload")


@pytest.mark.parametrize(
    ("name", "value"), [("transactions", 1 << 31), ("subdirectories", -2), ("subdirectories", 1 << 33)]
)
def test_a_count_beyond_an_int_of_postmark_is_named(name: str, value: int) -> None:
    with pytest.raises(UsageError, match=rf"^{name} = {value}: Postmark counts in C's int; give 0 to 2\^31 - 1$"):
        postmark.Workload(**{name: value})
