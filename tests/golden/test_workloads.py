"""The classic benchmarks against recordings of the real programs (tests/data/workloads, see tests/data/README.md)."""

import gzip
import json
import pathlib
import re

import numpy as np
import pytest
from click.testing import CliRunner

from scmsim.cli import main
from scmsim.core.records import OFFSET_UNKNOWN, OPS, READ, SETUP, WRITE, joined
from scmsim.trace import open_trace
from scmsim.workload import filebench, fio, iozone, mdtest, postmark, vdbench
from tests.verification.mdtest_lines import by_task
from tests.verification.vdbench_files import rows_of

DATA = pathlib.Path(__file__).parent.parent / "data"


def recorded(name):
    return json.loads(gzip.decompress((DATA / "workloads" / f"{name}.json.gz").read_bytes()))


def rows(work):
    return joined(list(work.batches()))


def told(work, top=""):
    """[operation, file below `top`, offset, length, parent, flags] of each row, as in the recordings."""
    paths = [path.removeprefix(top) for path in work.files.path]
    return [
        [
            OPS[r["op"]],
            paths[r["file"]],
            int(r["offset"]),
            int(r["length"]),
            paths[r["file2"]] if r["file2"] >= 0 else None,
            int(r["flag"]) & ~(OFFSET_UNKNOWN | SETUP),
        ]
        for r in rows(work)
    ]


POSTMARK = recorded("postmark")


def as_parameters(configuration):
    """Postmark's configuration lines as the workload's parameters."""
    given = {}
    for line in configuration.splitlines():
        match line.split():
            case ["size", low, high]:
                given |= {"size_low": int(low), "size_high": int(high)}
            case ["bias", which, value]:
                given[f"bias_{which}"] = "off" if value == "-1" else value
            case ["buffering", value]:
                given["buffering"] = int(value == "true")
            case ["number", value]:
                given["files"] = int(value)
            case [name, value]:
                given[name] = int(value)
    return given


@pytest.mark.parametrize("configuration", POSTMARK, ids=lambda text: text.replace("\n", ", ") or "defaults")
def test_postmark(configuration):
    assert told(postmark.Workload(**as_parameters(configuration)), "/postmark") == POSTMARK[configuration]


@pytest.mark.parametrize("configuration", POSTMARK, ids=lambda text: text.replace("\n", ", ") or "defaults")
def test_postmark_reads_its_own_configuration(configuration, tmp_path):
    (tmp_path / "pm.cfg").write_text("".join(f"set {line}\n" for line in configuration.splitlines()) + "run\nquit\n")
    work = postmark.Workload(config=str(tmp_path / "pm.cfg"))
    assert told(work, "/postmark") == POSTMARK[configuration]


def test_postmark_as_a_capture_from_elsewhere_has_it(tmp_path):
    """The file calls of an older capture, through the strace importer; it left out stat."""
    out = tmp_path / "t.parquet"
    assert (
        CliRunner()
        .invoke(main, ["trace", "convert", str(DATA / "strace" / "postmark_500.strace.gz"), str(out)])
        .exit_code
        == 0
    )
    trace = open_trace(out)
    batch = joined(list(trace.batches()))
    below = [
        path.removeprefix("/dev/shm/w/pm") if path.startswith("/dev/shm/w/pm/") else None for path in trace.files.path
    ]
    found = [
        [OPS[r["op"]], below[r["file"]], int(r["offset"]), int(r["length"])]
        for r in batch
        if r["file"] >= 0 and below[r["file"]]
    ]
    assert found == [row[:4] for row in told(postmark.Workload(), "/postmark") if row[0] != "stat"]


def counts(transactions):
    work = postmark.Workload(transactions=transactions)
    batch = rows(work)
    ops = {name: int((batch["op"] == OPS.index(name)).sum()) for name in ("create", "unlink")}
    opened = batch[np.flatnonzero(batch["op"] == OPS.index("open")) + 2][
        "op"
    ]  # behind the open: stat, then the transfer
    moved = [int(batch["length"][batch["op"] == op].sum()) for op in (READ, WRITE)]
    return [ops["create"], ops["unlink"], int((opened == READ).sum()), int((opened == WRITE).sum()), *moved]


def test_postmark_counts_of_its_reports():
    """What the program prints at the end, for its defaults and for 20,000 transactions."""
    created, deleted, reads, appends, read, written = counts(500)
    assert (created, deleted, reads, appends) == (764, 764, 243, 257)
    assert (f"{read / 2**20:.2f}", f"{written / 2**20:.2f}") == ("1.36", "4.45")
    created, deleted, reads, appends, *_ = counts(20_000)
    assert (created, deleted, reads, appends) == (10_582, 10_582, 9_999, 9_928)


IOZONE = recorded("iozone")
IOZONE_PARAMETERS = {
    "-a -s 128k -r 4k": {"min_file": 128 << 10, "max_file": 128 << 10, "max_record": 4096},
    "-a -n 64k -g 256k -q 32k -y 2k": {"max_file": 256 << 10, "min_record": 2048, "max_record": 32768},
    "-a -n 64k -g 512k -i 0 -i 5 -i 7": {"max_file": 512 << 10, "tests": "0,5,7"},
}


@pytest.mark.parametrize("by_command", [False, True])
@pytest.mark.parametrize("arguments", IOZONE)
def test_iozone(arguments, by_command):
    seen = {}
    given = {"command": f"iozone {arguments}"} if by_command else IOZONE_PARAMETERS[arguments]
    batch = rows(iozone.Workload(**given))
    made = [
        [OPS[r["op"]], seen.setdefault(int(r["file"]), len(seen)), int(r["offset"]), int(r["length"])] for r in batch
    ]
    assert made == IOZONE[arguments]


def test_iozone_permutation_of_32_records():
    """The order of records in its random tests, as strace showed it for 128 KiB in records of 4 KiB."""
    order = "26 25 16 15 6 8 24 0 18 20 12 11 21 30 5 7 1 19 27 2 4 28 17 3 14 13 9 22 29 10 23 31"
    assert iozone.shuffled(32).tolist() == [int(number) for number in order.split()]


FIO = recorded("fio")


@pytest.mark.parametrize("options", FIO)
def test_fio(options):
    made = [
        [op, file, offset, length, flag] for op, file, offset, length, _, flag in told(fio.Workload(options=options))
    ]
    assert made == FIO[options]


FX = {"read": "read", "write": "write", "rw": "rw", "randrw": "randrw", "z": "randwrite"}


@pytest.mark.parametrize("name", FX)
def test_fio_against_its_own_log(name):
    log = (DATA / "workloads" / f"fx_{name}.log").read_text()
    logged = [
        (op, int(offset), int(length)) for op, offset, length in re.findall(r" (read|write) (\d+) (\d+)$", log, re.M)
    ]
    extra = " random_distribution=zipf:1.2 overwrite=1" if name == "z" else ""
    work = fio.Workload(options=f"rw={FX[name]} bs=4k size=64k filename=/dev/shm/w/fx.dat{extra}")
    batch = rows(work)
    batch = batch[(batch["flag"] & SETUP == 0) & np.isin(batch["op"], (READ, WRITE))]
    assert [(OPS[r["op"]], int(r["offset"]), int(r["length"])) for r in batch] == logged


def test_filebench_files_and_calls():
    """Everything but the sizes of random appends, which Filebench draws from the system."""
    real = recorded("filebench")
    work = filebench.Workload(file=str(DATA / "workloads" / "filebench.f"), flowops=1000)
    batch, top = rows(work), "/d/"
    setup = (batch["flag"] & SETUP) != 0
    made = batch[setup & (batch["op"] == WRITE)]
    paths = [path.removeprefix(top) for path in work.files.path]
    assert sorted([paths[r["file"]], int(r["length"])] for r in made) == real["made"]
    calls = [r for r in batch[~setup] if not work.files.is_dir[r["file"]]]
    together = list(zip(real["calls"], calls, strict=False))
    assert len(together) > 1200
    assert [call[:2] for call, _ in together] == [[OPS[r["op"]], paths[r["file"]]] for _, r in together]
    differ = {paths[r["file"]] for call, r in together if call[2:] != [r["offset"], r["length"]]}
    appended = {call[1] for call, r in together if call[0] == "write" and r["length"] % 1024 and call[3] < 16 << 10}
    assert differ <= appended


FILEBENCH_MORE = recorded("filebench_more")
MOVES = ("read", "write")


@pytest.mark.parametrize("number", range(len(FILEBENCH_MORE)))
def test_filebench_with_random_variables_directories_and_ends(number, tmp_path):
    """Random variables, `indexed`, leaf directories, listdir, finishoncount and finishonbytes; stat calls are not recorded."""
    text, expected = list(FILEBENCH_MORE.items())[number]
    (tmp_path / "w.f").write_text(text)
    work = filebench.Workload(file=str(tmp_path / "w.f"), starved="stop")
    found = {"made": [], "calls": []}
    for row, (op, path, offset, length, _, _) in zip(rows(work), told(work, "/tmp/t/"), strict=True):
        moved = [offset, length] if op in MOVES else [0, 0]
        if op != "stat":
            found["made" if row["flag"] & SETUP else "calls"].append([op, path, *moved])
    assert found["calls"] == expected["calls"]
    assert sorted(row for row in found["made"] if row[0] in ("create", "mkdir", "write")) == expected["made"]


MDTEST = recorded("mdtest")


@pytest.mark.parametrize("line", MDTEST)
def test_mdtest(line):
    """Each task's calls; which task creates a shared file first is the scheduler's, so creates of -S count as opens."""
    tasks, _, command = line.partition(" ")
    work = mdtest.Workload(command=f"{command} -d /md", tasks=int(tasks))
    assert json.loads(json.dumps(by_task(rows(work), work.files.path, "/md", command.split()))) == MDTEST[line]


VDBENCH = recorded("vdbench")


@pytest.mark.parametrize("number", range(len(VDBENCH)))
def test_vdbench(number, tmp_path):
    """The format, and the first calls of a run with one thread; stat calls are not recorded."""
    text, expected = list(VDBENCH.items())[number]
    (tmp_path / "p.txt").write_text(text.replace("$top", "/t"))
    work = vdbench.Workload(file=str(tmp_path / "p.txt"), operations=1000)
    found = [list(row) for row in rows_of(rows(work), work.files.path, "/t")]
    assert len(expected) >= 10 and found[: len(expected)] == expected
