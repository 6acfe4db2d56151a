"""A replay that does not fit into the memory of the machine ends with one line that names the operation."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.core import memory
from scmsim.core.errors import EnvironmentProblem

GROUP = "0::/user/job\n4:memory:/box\n"


def test_a_replay_beyond_the_memory_names_the_operation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "far.csv").write_text("op,path,path2,offset,length\ncreate,/db/far\nwrite,/db/far,,68719476736,4096\n")
    trace = str(tmp_path / "far.parquet")
    assert not CliRunner().invoke(cli.main, ["trace", "convert", str(tmp_path / "far.csv"), trace]).exit_code
    monkeypatch.setattr(memory, "available", lambda: 1 << 26)
    words = ["replay", trace, "--fs", "nova-cow", "-o", str(tmp_path / "out.json")]
    done = CliRunner().invoke(cli.main, words)
    assert done.exit_code == 3 or isinstance(done.exception, EnvironmentProblem)
    text = done.stderr or str(done.exception)
    assert "operation 1 (write of '/db/far') on nova-cow: the model's tables need 0.3 GiB" in text
    assert "0.1 GiB free" in text and len(text) <= 300 and "Traceback" not in text
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(("count", "free"), [((1 << 26) - 1, 0), (1 << 30, 1 << 30), (1 << 40, None)])
def test_what_fits_or_is_small_or_cannot_be_known_passes(
    monkeypatch: pytest.MonkeyPatch, count: int, free: int | None
) -> None:
    monkeypatch.setattr(memory, "available", lambda: free)
    memory.expect_room(count, "tables")


def test_the_smallest_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "user/memory.max": "max", "user/job/memory.max": "1000", "user/job/memory.current": "700",
        "user/job/memory.stat": "anon 5\ninactive_file 50\n", "memory/box/memory.limit_in_bytes": "5000",
        "memory/box/memory.usage_in_bytes": "4000", "memory/box/memory.stat": "total_inactive_file 10\n",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(memory, "_GROUPS", tmp_path)
    usual = memory._text
    monkeypatch.setattr(memory, "_text", lambda path: GROUP if str(path) == "/proc/self/cgroup" else usual(path))
    assert memory._of_groups() == [350, 1010]
    assert memory.available() == 350
    assert (memory._of_machine() or 0) > 0
