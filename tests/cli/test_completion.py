"""Values that a shell completes, asked as bash asks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scmsim.core import registry
from scmsim.reproduce.rows import DOCUMENTS


def completed(words: str, folder: Path | None = None, **environment: str) -> list[str]:
    count = len(words.split()) - (0 if words.endswith(" ") else 1)
    given = {"_SCMSIM_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(count), **environment}
    done = subprocess.run(
        [sys.executable, "-m", "scmsim"],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **given},
    )
    assert not done.stderr
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("replay x --fs nova-", ["nova-cow", "nova-fast16", "nova-inplace"]),
        ("replay x --fs ext4,nova-c", ["ext4,nova-cow"]),
        ("replay x --fs nova-cow,nova-", ["nova-cow,nova-fast16", "nova-cow,nova-inplace"]),
        ("replay x --machine zen4,zen", [f"zen4,zen{i}" for i in ("1", "2", "3", "4-epyc", "5", "5-epyc")]),
        ("replay x --paging base", ["base-4k"]),
        ("replay x --medium nv", ["nv-cmm", "nvdimm", "nvdimm-6", "nvdimm-remote"]),
        ("replay x --set nova-c", ["nova-cow."]),
        ("replay x --set nova-cow.cap", ["nova-cow.capacity="]),
        ("space x --set tps.sizing=d", ["tps.sizing=doubling"]),
        ("replay x --format m", ["markdown"]),
        ("replay qu", ["quickstart"]),
        ("space qu", ["quickstart"]),
        ("space x --policy two", ["two-zone"]),
        ("sweep sw", ["sweep-llm", "sweep-page-sizes", "sweep-thesis"]),
        ("check perf-s", ["perf-smoke"]),
        ("perf run perf-t", ["perf-thesis"]),
        ("lab run sm", ["smoke"]),
        ("reproduce VSM-1", [f"VSM-1{i}" for i in ("", *range(10))]),
        ("capture --backend h", ["hybrid"]),
        ("perf stat --backend soft", ["software"]),
        ("trace convert x y --format stra", ["strace"]),
        ("synth filebench --personality varm", ["varmail"]),
        ("list fs nova-c", ["nova-cow"]),
        ("list metrics tlb_t", ["tlb_traffic"]),
    ],
)
def test_values_are_completed(words: str, values: list[str], tmp_path: Path) -> None:
    assert completed(f"scmsim {words}", tmp_path) == values


def test_every_name_of_a_kind_and_every_document_is_there(tmp_path: Path) -> None:
    for kind in ("fs", "machine", "paging", "medium"):
        assert completed(f"scmsim replay x --{kind} ", tmp_path) == registry.names(kind)
    assert set(DOCUMENTS) <= set(completed("scmsim reproduce ", tmp_path))


def test_files_stand_beside_shipped_names(tmp_path: Path) -> None:
    (tmp_path / "quick.parquet").touch()
    (tmp_path / "traces").mkdir()
    assert completed("scmsim replay qui", tmp_path) == ["quickstart", "quick.parquet"]
    assert completed("scmsim replay tr", tmp_path) == ["traces/"]


def test_a_folder_of_plugins_that_is_none_does_not_disturb_the_prompt(tmp_path: Path) -> None:
    assert completed("scmsim replay x --fs n", tmp_path, SCMSIM_PLUGINS="/nowhere") == []


def test_a_parameter_takes_other_values_as_before() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scmsim", "replay", "no-such"], capture_output=True, text=True, env=dict(os.environ)
    )
    assert done.returncode == 2 and "no trace file 'no-such'" in done.stderr
