"""No output of a command overwrites one of its inputs, under whatever name."""

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator

import click
import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.cli import _inputs
from scmsim.core.atomic import protected, writable
from scmsim.core.errors import UsageError
from scmsim.result import Result, Run

COMMANDS = (  # INPUT is a trace or a result of that ending, OUTPUT the same file by another name
    ("parquet", "replay INPUT --fs nova-cow -o OUTPUT"),
    ("parquet", "mrc INPUT -o OUTPUT"),
    ("parquet", "trace filter INPUT -o OUTPUT"),
    ("parquet", "trace cut INPUT -o OUTPUT"),
    ("parquet", "trace merge INPUT INPUT -o OUTPUT"),
    ("parquet", "trace convert INPUT OUTPUT"),
    ("json", "timeline INPUT -o OUTPUT"),
    ("json", "perf import INPUT -o OUTPUT"),
    ("xml", "compare INPUT INPUT --junit OUTPUT"),
    ("folded", "export INPUT -o OUTPUT"),
    ("svg", "trace plot INPUT -o OUTPUT"),
    ("html", "report INPUT -o OUTPUT"),
)
NAMES: dict[str, Callable[[pathlib.Path, pathlib.Path], None]] = {
    "symbolic link": lambda name, file: name.symlink_to(file),
    "hard link": lambda name, file: name.hardlink_to(file),
}


def leaves(command: click.Command, path: str = "") -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from leaves(child, f"{path} {name}".strip())
    else:
        yield path, command


def run(*args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scmsim", *map(str, args)], capture_output=True, text=True, check=False
    )


@pytest.fixture
def trace(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "trace.parquet"
    done = CliRunner().invoke(cli.main, ["synth", "microbench", "--total", "32KiB", "--unit", "4KiB", "-o", str(path)])
    assert done.exit_code == 0, done.output
    return path


def test_every_parameter_that_is_written_is_known_as_an_output() -> None:
    for path, command in leaves(cli.main):
        for param in command.params:
            about = (getattr(param, "help", "") or "").lower()
            written = about.startswith(
                ("write", "draw", "also write", "also keep", "keep the", "folder for", "the page")
            )
            if isinstance(param.type, click.Path) and (written or "to write" in about) or "-o" in param.opts:
                assert param.name in _inputs.OUTPUTS, (path, param.opts)


@pytest.mark.parametrize("how", ["path", *NAMES])
@pytest.mark.parametrize(("ending", "line"), COMMANDS)
def test_a_command_refuses_to_write_over_its_input(tmp_path: pathlib.Path, ending: str, line: str, how: str) -> None:
    given, alias = tmp_path / f"given.{ending}", tmp_path / f"alias.{ending}"
    given.write_text("the only copy")
    if how != "path":
        NAMES[how](alias, given)
    output = str(given if how == "path" else alias)
    words = [{"INPUT": str(given), "OUTPUT": output}.get(word, word) for word in line.split()]
    done = CliRunner().invoke(cli.main, words)
    message = f"{output!r} is an input of this command, which the output would replace; choose another name"
    assert (done.exit_code, done.output) == (2, f"scmsim: error: {message}\n")
    assert given.read_text() == "the only copy"


def test_every_command_refuses_its_inputs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command with a file as an argument and an output, whatever else it takes."""
    given = tmp_path / "given"
    given.write_text("the only copy")
    seen = 0
    for path, command in leaves(cli.main):
        outputs = [param for param in command.params if param.name in _inputs.OUTPUTS]
        inputs = [param for param in command.params if isinstance(param, click.Argument) and param not in outputs]
        if not outputs or not inputs:
            continue
        refused: list[str] = []

        def write(refused: list[str] = refused, **_: object) -> None:
            try:
                writable(given)
            except UsageError as error:
                refused.append(str(error))

        monkeypatch.setattr(command, "callback", write)
        _inputs.protect(command)
        with click.Context(command) as context:
            context.params = {inputs[0].name: (str(given),), outputs[0].name: str(given)}
            command.invoke(context)
        assert len(refused) == 1, path
        seen += 1
    assert seen > 15


def test_an_experiment_names_its_inputs(trace: pathlib.Path) -> None:
    experiment = trace.with_name("experiment.toml")
    experiment.write_text(f'trace = "{trace.name}"\nfs = "nova-cow"\n')
    before = trace.read_bytes()
    done = run("replay", experiment, "-o", trace)
    assert done.returncode == 2 and "is an input of this command" in done.stderr and len(done.stderr.splitlines()) == 1
    assert trace.read_bytes() == before


def test_a_result_names_its_trace(tmp_path: pathlib.Path) -> None:
    trace, file = tmp_path / "trace.json", tmp_path / "result.json"
    trace.write_text("{}")
    result = Result({"inputs": {str(trace): {"sha256": "0"}}}, [Run("ext4", calls=1)])
    with pytest.raises(UsageError, match="is an input of this command"):
        result.write(trace)
    file.write_text(result.to_json())
    folded = tmp_path / "trace.folded"
    folded.symlink_to(trace)
    with pytest.raises(UsageError, match="is an input of this command"), protected([]):
        from scmsim.result import read

        read(file)
        writable(folded)
    assert trace.read_text() == "{}"


def test_a_result_may_replace_the_result_of_the_same_experiment(trace: pathlib.Path) -> None:
    experiment = trace.with_name("experiment.toml")
    experiment.write_text(f'trace = "{trace.name}"\nfs = "nova-cow"\nout = "result.json"\n')
    for _ in range(2):
        done = run("replay", experiment)
        assert done.returncode == 0, done.stderr


def test_six_replays_into_one_output_leave_one_whole_result(trace: pathlib.Path) -> None:
    out = trace.with_name("result.json")
    line = [sys.executable, "-m", "scmsim", "replay", str(trace), "--fs", "nova-cow", "-o", str(out)]
    writers = [subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(6)]
    assert [each.wait() for each in writers] == [0] * 6
    assert len(json.loads(out.read_text())["results"]) == 1
    assert sorted(os.listdir(out.parent)) == ["result.json", "trace.parquet"]


def test_outside_of_a_command_nothing_is_protected(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with protected([str(file), "nowhere", "a\0b"]), pytest.raises(UsageError, match=f"{str(file)!r} is an input"):
        writable(file)
    assert writable(file) == file
