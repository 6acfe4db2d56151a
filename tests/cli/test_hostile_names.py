"""Names that would steer a terminal are written out wherever a trace's text is printed."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.core.records import OP, WRITE, Files
from scmsim.trace import TraceWriter

ESCAPE = "\x1b[31m"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    rows = np.zeros(2, OP)
    rows["op"], rows["file2"], rows["length"] = WRITE, -1, 4096
    path = tmp_path / "t.parquet"
    header = {"tool": ESCAPE, "command": ["sh", ESCAPE, 7], "under": None, "notes": [ESCAPE], "blind_spots": [ESCAPE]}
    bad = {"bad_lines": {"count": 1, "first": [{"line": 1, "reason": ESCAPE}]}}
    with TraceWriter(path, {**header, **bad}) as writer:
        writer.append(rows)
        writer.close(Files([f"/{ESCAPE}"], np.zeros(1, "i8"), np.zeros(1, bool)))
    return path


@pytest.mark.parametrize(
    "command",
    [("trace", "info"), ("trace", "head"), ("trace", "stats"), ("replay", "--fs", "nova-cow", "--by", "file")],
    ids=lambda command: command[1] if command[0] == "trace" else command[0],
)
def test_no_escape_reaches_the_terminal(hostile: Path, command: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli.main, [*command, str(hostile)], color=True)  # else click takes escapes away
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output and r"\x1b[31m" in result.output
    assert "None" not in result.output
