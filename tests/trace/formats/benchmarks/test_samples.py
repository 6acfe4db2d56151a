"""Logs of fio by hand, and what Filebench describes."""

from pathlib import Path

import pytest

from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.core.records import DATA_ONLY
from scmsim.trace.formats import find
from tests.trace.formats_helper import convert, convert_text


def test_iolog_version_3(tmp_path: Path) -> None:
    case = convert("fio_iolog_v3.log", tmp_path)
    a, b = "/data/a.0.0", "/data/a.0.1"
    assert case.rows[:6] == [
        ("open", a, -1, 0), ("read", a, 0, 4096), ("open", b, -1, 0), ("read", b, 20480, 4096),
        ("read", a, 24576, 4096), ("write", b, 8192, 8192),
    ]  # fmt: skip
    assert case.records["time_ns"][:3].tolist() == [114_000, 118_000, 471_000]  # the first line is at 21 us
    assert case.report.left_out == {"title": 1, "file made known": 2}
    assert dict(zip(case.trace.files.path, case.trace.files.first_size.tolist(), strict=True)) == {a: 28672, b: 28672}


def test_iolog_version_2_waits_since_the_start(tmp_path: Path) -> None:
    case = convert("fio_iolog_v2.log", tmp_path)
    assert [row[0] for row in case.rows] == ["open", "write", "read", "fsync", "fsync", "close"]
    assert case.records["flag"].tolist() == [0, 0, 0, 0, DATA_ONLY, 0]
    assert case.report.left_out["wait"] == 1
    assert case.trace.files.first_size.tolist() == [0]  # read after it was written


@pytest.mark.parametrize("line", ["5 /a read 0", "5 /a", "x /a open", "5 /a fly 0 1", "5 /a open 3", "5 /a read -1 4",
                                  "5 /a read 0 9999999999999999999",
                                  "5 /a write 999999999999999999 999999999999999999"])  # fmt: skip
def test_iolog_lines_that_fio_would_refuse(tmp_path: Path, line: str) -> None:
    text = f"fio version 3 iolog\n1 /a open\n{line}\n"
    case = convert_text(tmp_path, text)
    assert case.report.bad == 1 and case.report.bad_lines[0][0] == 3
    with pytest.raises(UsageError, match="line 3: "):
        convert_text(tmp_path, text, strict=True)


def test_names_are_utf_8_where_they_can_be(tmp_path: Path) -> None:
    case = convert_text(tmp_path, "fio version 3 iolog\n1 /é open\n1 /".encode() + b"\xff open\n")
    assert case.trace.files.path == ["/é", "/\\xff"]


def test_a_filebench_file_is_a_workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "w.f").write_text("set $dir=/tmp\ndefine fileset name=bigfileset,path=$dir,size=16k,entries=10\n")
    assert find(tmp_path / "w.f")[0] == "filebench"
    known = registry.names
    monkeypatch.setattr(registry, "names", lambda kind: ["microbench"] if kind == "workload" else known(kind))
    with pytest.raises(UsageError, match="is a Filebench workload, not a trace"):
        convert(tmp_path / "w.f", tmp_path, "filebench")
