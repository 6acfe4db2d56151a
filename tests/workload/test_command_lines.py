"""Command lines of mdtest and db_bench, and vdbench's parameter files: what is accepted, refused by name, and counted."""

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.cli import main
from scmsim.core.errors import UsageError
from scmsim.core.records import OPS, SETUP, joined
from scmsim.workload import _db_bench, _mdtest, _vdbench, db_bench, mdtest, vdbench


def counts(work):
    """Calls of each kind, preparation left out."""
    batch = joined(list(work.batches()))
    ops = [OPS[op] for op in batch["op"][batch["flag"] & SETUP == 0]]
    return {op: ops.count(op) for op in sorted(set(ops))}


def test_a_tree_of_mdtest_is_counted_as_its_manual_does():
    """Branching 3, depth 2: 13 directories; -n is rounded down to a multiple of them."""
    found = counts(mdtest.Workload(command="-n 40 -z 2 -b 3 -F -C -T -w 10", tasks=2))
    assert found == {"close": 78, "create": 78, "mkdir": 14, "stat": 78, "write": 78}


def test_leaves_only():
    work = mdtest.Workload(command="-I 2 -z 2 -b 3 -L -F -C")
    assert counts(work) == {"close": 18, "create": 18, "mkdir": 14}
    files = [path for path, is_dir in zip(work.files.path, work.files.is_dir, strict=True) if not is_dir]
    assert all(path.count("mdtest_tree") == 3 for path in files)


def test_the_launcher_says_how_many_tasks():
    assert mdtest.Workload(command="mpirun -np 3 /usr/bin/mdtest -n 2").plan.tasks == 3
    with pytest.raises(UsageError, match="given twice"):
        mdtest.Workload(command="srun -n 3 mdtest -n 2", tasks=2)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("-n 5 -W 3", "mdtest: -W=3 is not modelled; the clock decides"),
        ("-n 5 -Q", "mdtest: no modelled flag named 'Q'"),
        ("-n 5 -w much", "mdtest: -w takes a number such as 64k, not 'much'"),
        ("-n 5 -a HDFS", "mdtest: -a takes POSIX or posix, not 'HDFS'"),
        ("-F", "the run has no items; give their number with -n"),
        ("-n 2 -z 3 -b 4", "fewer items than the 85 directories"),
        ("-n 5 -u -S", "-u and -S exclude each other"),
        ("-n 5 -w 1 -e 2", "-e 2 reads more than -w 1 writes"),
        ("-n 5 -I 3", "-n 5 is not a multiple of -I 3"),
        ("python mdtest -n 5", "'python' before mdtest is not one of mpirun"),
        ("-n 5 '", "close the quotes"),
    ],
)
def test_lines_of_mdtest_that_are_refused(command, said):
    with pytest.raises(UsageError) as error:
        mdtest.Workload(command=command)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_all_mistakes_are_reported_at_once():
    with pytest.raises(UsageError) as error:
        db_bench.Workload(command="--benchmarks=fillrandm,mixgraph --num=0 --duration=60 --mmap_read --foo=3 --sync")
    said = str(error.value).splitlines()
    assert said[0] == "db_bench: 6 mistakes" and len(said) == 7
    for words in (
        "--mmap_read is not modelled; it means loads",
        "'foo'",
        "--num=0 is out of range",
        "--duration",
        "'mixgraph'",
    ):
        assert any(words in line for line in said)
    assert any("did you mean 'fillrandom'" in line for line in said)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("--num=5", "no --benchmarks"),
        ("--benchmarks=readrandom", "readrandom would run on an empty store"),
        ("--benchmarks=fillseq --use_existing_db=1", "fillseq with --use_existing_db is skipped"),
        ("--benchmarks=stats", "no benchmark makes a request"),
        ("--benchmarks=fillseq --num=1e6", "--num takes a number, not '1e6'"),
        ("--benchmarks=fillseq --batch_size=100", "--batch_size=100 is not modelled; only 1 is"),
        ("--benchmarks=fillseq --sync=maybe", "--sync takes nothing, 1 or 0, not 'maybe'"),
        ("--benchmarks=fillseq,fill100K", "fill100K beside benchmarks with a different value size"),
    ],
)
def test_lines_of_db_bench_that_are_refused(command, said):
    with pytest.raises(UsageError) as error:
        db_bench.Workload(command=command)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_the_forms_of_a_flag_of_db_bench():
    forms = ("--num=7 --nosync --histogram", "-num=7 --sync=false --histogram=1", "--num 7 --sync=0 --histogram")
    lines = [_db_bench.parse(f"/usr/bin/db_bench --benchmarks=fillseq[X2],stats {form}") for form in forms]
    assert lines[0] == lines[1] == lines[2] and len(lines[0].benchmarks) == 2 and lines[0].numbers["num"] == 7
    assert lines[0].notes[0] == "flags and benchmarks that change no call: histogram, stats"


def test_puts_and_gets_of_db_bench():
    """Every put is one write to the log; a synchronous one is made durable."""
    found = counts(
        db_bench.Workload(command="--benchmarks=fillseq,overwrite --num=500 --writes=300 --sync --threads=2")
    )
    assert found["write"] == found["fsync"] == 2 * 2 * 300
    found = counts(db_bench.Workload(command="--benchmarks=fillseq --num=500 --disable_wal"))
    assert found == {} or "write" not in found


def test_an_existing_store_is_preparation():
    work = db_bench.Workload(
        command="--benchmarks=readrandom --num=2000 --reads=50 --use_existing_db --write_buffer_size=65536"
    )
    assert set(counts(work)) == {"read"}


FILES = "fsd=f,anchor=/a,files=4,size=10k\n"


def parameters(tmp_path, text, **other):
    (tmp_path / "p.txt").write_text(text)
    return vdbench.Workload(file=str(tmp_path / "p.txt"), **other)


def test_operations_of_vdbench(tmp_path):
    """Four files, made, looked at, read once and deleted."""
    text = FILES + "fwd=w,fsd=f,xfersize=4k,fileselect=once\n"
    text += "rd=r,fwd=w,fwdrate=max,format=yes,elapsed=9,operations=(getattr,read,delete)\n"
    found = counts(parameters(tmp_path, text.replace("format=yes", "format=(yes,once)")))
    assert found == {"close": 4, "open": 4, "read": 12, "stat": 4, "unlink": 4}


def test_skew_and_rdpct_of_vdbench(tmp_path):
    text = (
        FILES
        + "fwd=default,fileio=random,rdpct=75\nfwd=a,skew=80\nfwd=b\nrd=r,fwd=*,fwdrate=max,format=yes,elapsed=1\n"
    )
    work = parameters(tmp_path, text, operations=4000)
    batch = joined(list(work.batches()))
    moves = batch[(batch["flag"] & SETUP == 0) & (batch["length"] > 0)]
    assert len(moves) == 4000 and abs((moves["op"] == OPS.index("read")).mean() - 0.75) < 0.03
    assert (moves["thread"] == 0).sum() == 3200 and (moves["offset"] % 4096 == 0).all()


def test_devices_of_vdbench(tmp_path):
    text = "sd=s,lun=/d,size=1m,threads=2\nwd=w,sd=s,xfersize=64k,seekpct=eof,rdpct=0\nrd=r,wd=w,iorate=max,elapsed=5\n"
    batch = joined(list(parameters(tmp_path, text).batches()))
    moves = batch[batch["length"] > 0]
    assert moves["offset"].tolist() == [65536 * i for i in range(1, 16)]  # the first block is never touched
    assert moves["thread"].tolist() == [i % 2 for i in range(15)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            FILES + "fwd=w\nrd=r,fwd=w,elapsed=60",
            "run 'r' ends by time, and a trace has no clock; add --operations",
        ),
        (FILES + "fwd=w,operation=copy\nrd=r", "p.txt:2: no modelled operation named 'copy'"),
        (
            FILES + "fwd=w,xfersize=(4k,50,8k,40)\nrd=r",
            "p.txt:2: xfersizes='4k,50,8k,40': write each size with its per",
        ),
        (FILES + "fwd=w,fsd=other\nrd=r", "p.txt:2: no fsd is named 'other'"),
        (FILES + "fwd=w\nrd=r,format=maybe", "p.txt:3: no modelled word of format named 'maybe'"),
        ("fsd=f,files=4\nfwd=w\nrd=r", "p.txt:1: fsd=f has no anchor"),
        ("sd=s,lun=/d\nwd=w\nrd=r", "p.txt:1: sd=s has no size"),
        ("fsd=f,anchor=$dir\nfwd=w\nrd=r", "p.txt:1: variable $dir has no value; give it with --set dir=VALUE"),
        (FILES, "the file defines no run"),
        (FILES + "fwd=w,depht=3\nrd=r", "no modelled parameter of fwd named 'depht'"),
    ],
)
def test_parameter_files_that_are_refused(text, said, tmp_path):
    with pytest.raises(UsageError) as error:
        parameters(tmp_path, text)
    assert said in str(error.value)


WORDS = """
    -n 5 -z 2 -b -w 4k -FCT -u -S -R --random-seed=3 -I 1 -d a@b mdtest mpirun --num=9 --benchmarks=fillseq,readseq -x = ' ² -- -
""".split()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=9))
def test_any_words_are_a_run_or_an_error(words):
    for read in (lambda text: _mdtest.plan(text, 1, 1), _db_bench.parse):
        try:
            read(" ".join(words))
        except UsageError as error:
            assert str(error).strip()


PIECES = """
    fsd=a fwd=b sd=c wd=d rd=e ,anchor=/x ,lun=/y ,size=4k ,depth=2 ,xfersize=(4k,50,8k,50) ,th=3 ,skew= ( ) $v * ,format=yes ,fwd=*
""".split()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["\n", *PIECES]), max_size=14))
def test_any_parameters_are_entries_or_an_error(pieces):
    try:
        _vdbench.parse("".join(pieces), "p", {})
    except UsageError as error:
        assert str(error).strip()


def test_the_commands_take_the_lines_as_they_are(tmp_path):
    out = str(tmp_path / "o.parquet")
    for name, words in (
        ("db_bench", "db_bench --benchmarks=fillseq --num=9"),
        ("mdtest", "mpirun -n 2 mdtest -n 3 -F"),
    ):
        result = CliRunner().invoke(main, ["synth", name, "-o", out, "--", *words.split()])
        assert result.exit_code == 0, result.output
