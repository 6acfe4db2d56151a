"""The command line's own behaviour: help without imports, one-line errors, exit codes, completion."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from scmsim import cli
from scmsim.core import registry
from scmsim.core.errors import EnvironmentProblem, UsageError

COMMANDS = cli.main.list_commands(click.Context(cli.main))


def run(*args: str) -> Result:
    return CliRunner().invoke(cli.main, list(args))


def shell(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scmsim", *args], capture_output=True, text=True, env={**os.environ, **environment}
    )


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch):
    """Make `scmsim list` raise what the test says."""

    def install(error: BaseException) -> None:
        def callback() -> None:
            raise error

        monkeypatch.setattr(cli.LazyGroup, "get_command", lambda *_: click.Command("list", callback=callback))

    return install


@pytest.mark.parametrize("name", COMMANDS)
def test_every_subcommand_has_a_summary_and_a_command(name: str) -> None:
    assert cli.summary(name), f'cli/{name}.py needs SUMMARY = "..." on one line'
    command = cli.main.get_command(click.Context(cli.main), name)
    assert isinstance(command, click.Command) and command.name == name
    assert f"Usage: scmsim {name}" in run(name, "--help").output


def test_help_lists_every_subcommand() -> None:
    for text in (run("--help").output, run().output):
        assert "Commands:" in text
        for name in COMMANDS:
            assert f"  {name} " in text and cli.summary(name).split()[0] in text


def test_summaries_are_the_literals_of_the_files() -> None:
    folder = Path(cli.__file__).parent
    for name in COMMANDS:
        stem = name.replace("-", "_")
        file = folder / stem / "__init__.py" if (folder / stem).is_dir() else folder / f"{stem}.py"
        tree = ast.parse(file.read_text())
        values = [
            ast.literal_eval(n.value) for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "SUMMARY"
        ]
        assert values == [cli.summary(name)]


def test_version() -> None:
    for words in ("--version", "-V", "version"):
        assert run(words).output.split() == ["scmsim", cli.__version__]


def test_help_is_a_command_too() -> None:
    for words in ((), ("replay",), ("trace", "convert"), ("perf",)):
        assert run("help", *words).output == run(*words, "--help").output
    for words, message in ((("relpay",), "did you mean 'replay'?"), (("list", "fs"), "'scmsim list' has no commands")):
        result = run("help", *words)
        assert result.exit_code == 2 and message in result.stderr and result.stderr.count("\n") == 1


def test_every_command_can_be_quiet() -> None:
    for words in (("-q", "list", "fs"), ("list", "fs", "--quiet"), ("trace", "-q", "info", "--help")):
        assert run(*words).exit_code == 0
    assert "--quiet" in run("trace", "convert", "--help").output


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["lsit"], "no command named 'lsit'; did you mean 'list'? choose from "),
        (["list", "fz"], "no kind named 'fz'; "),
        (["list", "fs", "nova-cwo"], "no file system named 'nova-cwo'; did you mean 'nova-cow'? "),
        (
            ["list", "--jsno"],
            "no option named '--jsno'; did you mean '--json'? choose from --params, --plot, --json, --quiet, --help",
        ),
        (["check"], "missing argument 'FILE'; see 'scmsim check --help'"),
        (["check", "no/such.toml"], "no file 'no/such.toml'; "),
    ],
)
def test_a_mistake_is_one_line_on_stderr_and_exit_code_2(args: list[str], message: str) -> None:
    result = run(*args)
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith(f"scmsim: error: {message}") and result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (UsageError("bad 'x'"), 2, "scmsim: error: bad 'x'\n"),
        (EnvironmentProblem("no perf"), 3, "scmsim: error: no perf\n"),
        (PermissionError(13, "Permission denied", "/a"), 2, "scmsim: error: '/a': permission denied\n"),
        (KeyboardInterrupt(), 130, "\nscmsim: error: interrupted\n"),
    ],
)
def test_expected_failures_have_one_line_and_their_code(failing, error: BaseException, code: int, message: str) -> None:
    failing(error)
    result = run("list")
    assert (result.exit_code, result.stderr) == (code, message)


def test_an_unexpected_failure_is_not_hidden(failing) -> None:
    failing(ZeroDivisionError())
    assert isinstance(run("list").exception, ZeroDivisionError)


def test_a_closed_pipe_is_silent() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "scmsim", "list"], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_list_all_kinds() -> None:
    assert json.loads(run("list", "--json").stdout) == {kind: registry.names(kind) for kind in registry.KINDS}
    assert run("list").output.splitlines()[0].startswith("fs ")


def test_list_one_kind() -> None:
    lines = run("list", "fs").output.splitlines()
    assert [line.split()[0] for line in lines] == registry.names("fs")
    assert registry.literals("fs", "nova-cow")["SUMMARY"] in lines[registry.names("fs").index("nova-cow")]


def test_list_parameters_with_units() -> None:
    text = run("list", "fs", "nova-cow").output
    default, unit, meaning = registry.literals("fs", "nova-cow")["PARAMS"]["capacity"]
    assert f"capacity     {default} ({unit}): {meaning}" in text
    described = json.loads(run("list", "fs", "nova-cow", "--json").stdout)
    assert described[0]["params"]["capacity"] == {"default": default, "unit": unit, "meaning": meaning}
    assert run("list", "fs", "--params").output.count("capacity") >= len(registry.names("fs"))


def test_list_presets_with_their_values() -> None:
    assert "granule" in run("list", "medium", "optane").output
    assert json.loads(run("list", "medium", "optane", "--json").stdout)[0]["values"]["granule"] == 256


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("scmsim ch", {"check"}),
        ("scmsim ", set(COMMANDS)),
        ("scmsim list ", {*registry.KINDS, "counters", "metrics", "rows"}),
        ("scmsim list fs nova-c", {"nova-cow"}),
        ("scmsim list --js", {"--json"}),
    ],
)
def test_completion(words: str, expected: set[str]) -> None:
    count = len(words.split()) - (0 if words.endswith(" ") else 1)
    done = shell(_SCMSIM_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(count))
    assert {line.split(",")[1] for line in done.stdout.split()} == expected, done.stderr


def test_check_says_ok_or_every_problem(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text('fs = "nova-cow"\n[workload]\nkind = "microbench"\n')
    assert run("check", str(file)).output == f"{file}: ok\n"
    assert json.loads(run("check", "--json", str(file)).stdout) == {"file": str(file), "ok": True, "problems": []}
    file.write_text('fs = "nova-cow"\nby = "inode"\nmachin = "x"\n')
    result = run("check", "--json", str(file))
    problems = json.loads(result.stdout)["problems"]
    assert result.exit_code == 2 and [problem["key"] for problem in problems] == ["", "by", "machin"]
    assert run("check", str(file)).stdout.count(f"{file}:") == 3


def test_a_file_named_after_a_group_is_that_groups_subcommand() -> None:
    assert "perf" in COMMANDS and not [name for name in COMMANDS if name.startswith("perf-")]
    assert "  check " in run("perf", "--help").output and run("perf").output == run("perf", "--help").output
    assert "Usage: scmsim perf check" in run("perf", "check", "--help").output
    result = run("perf", "chekc")
    assert result.exit_code == 2 and result.stderr.startswith("scmsim: error: no command named 'chekc'; did you mean")


@pytest.mark.parametrize("name", ["trace", "perf", "lab", "synth"])
def test_a_group_without_a_subcommand_shows_its_help(name: str) -> None:
    done = run(name)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == run(name, "--help").stdout


def test_check_knows_the_matrix_of_a_measurement(tmp_path: Path) -> None:
    assert run("check", "perf-smoke").stdout.endswith("perf-smoke.toml: ok\n")
    path = tmp_path / "mine.toml"
    path.write_text(
        '[fs.ext4]\ndir = "/mnt"\n[matrix]\noperations = ["wrte"]\nfile_sizes = ["1MiB"]\nunits = ["4KiB"]\n'
    )
    done = run("check", str(path))
    assert done.exit_code == 2
    assert done.stdout.startswith(f"{path}:4: matrix.operations.0: no operation named 'wrte'; did you mean 'write'?")
    missing = run("check", "perf-nothing")
    assert (missing.exit_code, "choose from perf-smoke, perf-thesis" in missing.stderr) == (2, True)


def test_the_summary_of_list_names_the_event_tables() -> None:
    assert "event tables" in cli.summary("list")


def test_an_empty_or_wrong_value_is_no_value_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # an unset variable of a shell must not read this folder or take a default
    for args, message in (
        (("report", "", "-o", "r.html"), "no such file or folder ''"),
        (("replay", "quickstart", "--fs", ""), "no file system given"),
        (("replay", "quickstart", "--machine", ""), "no machine named ''"),
        (("replay", "quickstart", "-o", ""), "cannot tell the format"),
        (("space", "quickstart", "--fs", ""), "no file system or policy given"),
        (("hunt", "--fs", "nova-cow,ext4"), "no file system named 'nova-cow,ext4'"),
        (("advise", "quickstart", "--capacity", "0"), "--capacity '0' is 0"),
    ):
        result = run(*args)
        assert result.exit_code == 2 and message in result.stderr, (args, result.output)


def test_numbers_out_of_range_are_one_line() -> None:
    for args, message in (
        (("synth", "pattern", "--seed", "-1"), "pattern.seed: -1 is out of range; give a whole number from 0 "),
        (("synth", "pattern", "--files", "9" * 20), "is out of range"),
        (("trace", "head", "x", "-n", "4KB"), "'4KB' is not a whole number; see 'scmsim trace head --help'"),
        (("crash", "x", "--fs", "vsm", "--lines", "99"), "99 is not in the range 0<=x<=24"),
    ):
        more = ("-o", "x.parquet") if args[0] == "synth" else ()
        result = run(*args, *more)
        assert result.exit_code == 2 and message in result.stderr, (args, result.output)
        assert result.stderr.count("\n") == 1


def test_a_name_in_capitals_is_near_enough() -> None:
    assert "did you mean 'nova-cow'?" in run("list", "fs", "NOVA-COW").stderr


def test_no_memory_is_a_problem_of_the_environment(failing) -> None:
    failing(MemoryError())
    result = run("list")
    assert result.exit_code == 3 and result.stderr.startswith("scmsim: error: not enough memory")


def test_list_shows_lists_as_words() -> None:
    assert "4KiB 2MiB 1GiB\n" in run("list", "machine", "zen4").output and "['" not in run("list", "machine").output


def test_a_trace_named_without_its_suffix_is_not_taken_for_an_experiment_alone() -> None:
    message = "no trace file 'mine', and no experiment named 'mine'; choose from "
    for command in ("replay", "space", "advise"):
        assert message in run(command, "mine").stderr


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[fixed]\nmachine = "i7"\n[axes]\nfs = ["nova-cow"]\n', "fixed.machine"),
        ('mode = "list"\n[[point]]\nfs = "nova"\n', "point.0.fs"),
        ('[fixed.workload]\nkind = "mikrobench"\n', "fixed.workload.kind"),
    ],
)
def test_check_knows_a_sweep_by_its_tables(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    found = json.loads(run("check", str(file), "--json").stdout)["problems"]
    assert problem in [entry["key"] for entry in found], found


def test_threads_are_shown_below_the_table(tmp_path):
    trace = str(tmp_path / "reads.parquet")
    run("synth", "pattern", "--op", "read", "--unit", "64KiB", "--file-size", "1MiB", "--calls", "4", "-o", trace)
    found = run(
        "replay", trace, "--fs", "ext4-dax", "--footprints", "none", "--medium", "nvdimm,cxl", "--threads", "1..2"
    )
    assert found.exit_code == 0
    rows = found.stdout[found.stdout.index("threads at once") :].splitlines()[2:6]
    assert [row.split()[:3] for row in rows] == [
        ["ext4-dax", medium, count] for medium in ("nvdimm", "cxl") for count in "12"
    ]
    written = run(
        "replay", trace, "--fs", "ext4-dax", "--footprints", "none", "--threads", "2", "-o", f"{tmp_path}/r.json"
    )
    assert "threads at once" in written.stdout and (tmp_path / "r.json").exists()


def test_threads_have_no_place_in_csv():
    found = run("replay", "none.parquet", "--threads", "2", "--format=csv")
    assert (
        found.exit_code != 0
        and "--threads cannot be written as CSV; give --format table, markdown or json" in found.output
    )
