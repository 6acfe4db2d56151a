"""Every command that reads a file, on every kind of bad file: one line, exit code 2, nothing printed, nothing left behind."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.core.records import OP, Files
from scmsim.trace import TraceWriter

READERS = {
    "advise": "advise IN",
    "amplify": "amplify IN",
    "compare, simulated": "compare IN result.json",
    "compare, measured": "compare result.json IN",
    "crash": "crash IN --fs nova-cow",
    "lab calibrate": "lab calibrate IN --fs ext4-dax --fit 1KiB -o out.toml",
    "export": "export IN -o out.folded",
    "mmu": "mmu IN",
    "mrc": "mrc IN -o out.csv",
    "perf figures": "perf figures IN -o figures",
    "perf import": "perf import IN -o out.json",
    "perf profile": "perf profile --from IN -o out.json",
    "perf run": "perf run IN -o measured --backend fake",
    "replay": "replay IN --fs nova-cow -o out.json",
    "replay --costs": "replay trace.parquet --fs nova-cow --costs IN -o out.json",
    "replay --machine": "replay trace.parquet --fs nova-cow --machine IN -o out.json",
    "report": "report IN -o out.html",
    "space": "space IN",
    "timeline": "timeline IN --fs pmfs-4k -o out.json",
    "sweep": "sweep IN -o sweep",
    "synth fio": "synth fio IN -o out.parquet",
    "synth filebench": "synth filebench IN -o out.parquet",
    "trace convert": "trace convert IN out.parquet",
    "trace convert --to": "trace convert IN out.log --to fio-iolog",
    "trace cut": "trace cut IN -o out.parquet",
    "trace filter": "trace filter IN -o out.parquet",
    "trace head": "trace head IN",
    "trace info": "trace info IN",
    "trace merge": "trace merge IN trace.parquet -o out.parquet",
    "trace plot": "trace plot IN -o out.svg",
    "trace scale": "trace scale IN --times 2 -o out.parquet",
    "trace stats": "trace stats IN",
}
BAD = ["missing.parquet", "no/such.json", "", "-", "folder", "folder.parquet", "/dev/null"]
BAD += [
    "empty.parquet",
    "empty.json",
    "junk.parquet",
    "junk.json",
    "junk.toml",
    "cut.parquet",
    "cut.json",
    "deep.json",
    "other.json",
]
LINES = {"perf run": 8, "replay --machine": 5}  # these say every mistake, one a line
FINE = {
    ("trace convert", "-"),
    ("synth fio", ""),
    ("synth filebench", ""),
}  # standard input is empty; no job file is needed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import numpy as np

    from scmsim.result import SCHEMA

    folder = tmp_path_factory.mktemp("bad")
    with TraceWriter(folder / "trace.parquet", {"tool": "test"}) as writer:
        writer.append(np.zeros(1, OP))
        writer.close(Files(["/a"], np.zeros(1, "i8"), np.zeros(1, bool)))
    trace = (folder / "trace.parquet").read_bytes()
    result = json.dumps({"schema": SCHEMA, "manifest": {}, "results": []}).encode()
    content = {"empty": b"", "junk": bytes(range(256)) * 4, "deep": b"[" * 100_000, "other": b"[]"}
    for name in BAD:
        if name.partition(".")[0] in content:
            (folder / name).write_bytes(content[name.partition(".")[0]])
    (folder / "cut.parquet").write_bytes(trace[: len(trace) // 2])
    (folder / "cut.json").write_bytes(result[:20])
    (folder / "result.json").write_bytes(result)
    (folder / "folder").mkdir()
    (folder / "folder.parquet").mkdir()
    return folder


@pytest.mark.parametrize("reader", READERS)
def test_bad_files_are_one_line(reader: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    for name in BAD:
        if (reader, name) in FINE:
            continue
        words = [name if word == "IN" else word for word in READERS[reader].split()]
        done = CliRunner().invoke(cli.main, words, input="")
        assert isinstance(done.exception, SystemExit), (words, done.exception)
        assert (done.exit_code, done.stdout) == (2, ""), (words, done.output)
        assert done.stderr.startswith("scmsim: error: "), (words, done.stderr)
        assert 1 <= done.stderr.count("\n") <= LINES.get(reader, 1), (words, done.stderr)
        assert sorted(folder.rglob("*")) == before, words


WRITERS = {
    "capture": "capture -o OUT.parquet -- true",
    "demo": "demo --keep OUT.parquet",
    "export": "export result.json -o OUT.folded",
    "hunt": "hunt --fs nova-cow -o OUT",
    "mrc": "mrc trace.parquet -o OUT.csv",
    "mrc --plot": "mrc trace.parquet --plot OUT.svg",
    "perf import": "perf import junk.json -o OUT.json",
    "perf run": "perf run perf-smoke --backend fake -o OUT",
    "replay": "replay trace.parquet --fs nova-cow -o OUT.json",
    "report": "report result.json -o OUT.html",
    "report --figures": "report result.json -o out.html --figures OUT",
    "reproduce": "reproduce VSM-4 --figures OUT",
    "sweep": "sweep sweep-page-sizes -o OUT",
    "synth": "synth pattern --calls 9 -o OUT.parquet",
    "timeline": "timeline trace.parquet --fs pmfs-4k -o OUT.json",
    "trace convert": "trace convert trace.parquet OUT.log --to fio-iolog",
    "trace convert to csv": "trace convert trace.parquet OUT.csv",
    "trace filter": "trace filter trace.parquet -o OUT.parquet",
    "trace plot": "trace plot trace.parquet -o OUT.svg",
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("place", ["no/such/folder/x", "result.json/x", "pipe"])
def test_bad_places_are_found_before_the_work(
    writer: str, place: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    words = [word.replace("OUT", place) for word in WRITERS[writer].split()]
    target = Path(next(word for word in words if word.startswith(place)))
    if place == "pipe":  # like a device: a file must not take its place
        os.mkfifo(target)
    before = sorted(folder.rglob("*"))
    try:
        done = CliRunner().invoke(cli.main, words)
        assert isinstance(done.exception, SystemExit), (words, done.exception)
        assert (done.exit_code, done.stdout) == (2, ""), (words, done.output)
        assert done.stderr.splitlines()[-1].startswith("scmsim: error: "), words
        assert sorted(folder.rglob("*")) == before, words
        assert place != "pipe" or target.is_fifo()
    finally:
        if place == "pipe":
            target.unlink()
