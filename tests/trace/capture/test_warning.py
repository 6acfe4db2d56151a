"""What `scmsim capture` says when nothing was recorded below the chosen directory."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.core import registry
from scmsim.trace.reading.report import Report


@pytest.mark.parametrize("backend, advice", [("perf", "perf knows only the names"), ("strace", "check --under")])
def test_nothing_below_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, advice: str
) -> None:
    recorder = SimpleNamespace(capture=lambda *given, **more: SimpleNamespace(report=Report(), status=0))
    monkeypatch.setattr(registry, "load", lambda kind, name: recorder)
    out = tmp_path / "t.parquet"
    result = CliRunner().invoke(
        cli.main, ["capture", "-o", str(out), "--backend", backend, "--under", "/d", "--", "true"]
    )
    assert result.exit_code == 0 and f"did no file operation below '/d'; {advice}" in result.stderr
