"""Every command that the documents, the notebooks or a message show is one that the command line takes."""

import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from scmsim import cli

ROOT = Path(__file__).parents[2]
MADE = ("_build", "jupyter_execute", "notebooks", "reference")  # what a build of the site or the code makes
DOCUMENTS = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.relative_to(ROOT / "docs").parts[0] not in MADE),
    ROOT / "traces" / "README.md",
]
SOURCES = [*sorted((ROOT / "scmsim").rglob("*.py")), *sorted((ROOT / "notebooks").glob("*.ipynb"))]
WORD = re.compile(r"[a-z][a-z-]*$")


def find(words: list[str]) -> tuple[click.Command, list[str], str]:
    """The command that the words lead to, the words left, and its name; click's own errors for a wrong name."""
    command: click.Command = cli.main
    path = "scmsim"
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        inner = command.get_command(click.Context(command), words[0])
        assert inner is not None, f"{path} has no command {words[0]!r}"
        command, path, words = inner, f"{path} {words[0]}", words[1:]
    return command, words, path


def examples(text: str) -> list[str]:
    """Command lines of the indented and fenced blocks of a document."""
    lines = text.replace("\\\n", " ").splitlines()
    fenced, found = False, []
    for line in lines:
        fenced ^= line.startswith("```")
        if fenced or line.startswith("    "):
            parts = re.split(r"&&|;|\|(?! )|\| |<<?|>|\s#\s", line)
            found += [part.strip().removeprefix("$ ") for part in parts]
    return [line for line in found if re.match(r"(\.venv/bin/)?scmsim [a-z]", line)]


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda file: file.stem)
def test_examples_parse(file: Path) -> None:
    for line in examples(file.read_text(encoding="utf-8")) if file.exists() else []:
        command, words, path = find(shlex.split(line)[1:])
        if "..." in words:
            words.remove("...")
        try:
            command.make_context(path, words)
        except click.exceptions.Exit:  # --help
            pass
        except click.ClickException as error:
            raise AssertionError(f"{file.name}: {line!r}: {error.format_message()}") from None


@pytest.mark.parametrize("files", [DOCUMENTS, SOURCES], ids=["documents", "messages"])
def test_commands_that_are_mentioned_have_the_options_named(files: list[Path]) -> None:
    count = 0
    for file in files:
        for line in re.findall(r"[`']scmsim ([a-z][^`'\n]*)[`']", file.read_text(encoding="utf-8")):
            words = re.split(r" -- | && ", line)[0].split()  # what follows is another program's
            names = [word for word in words if WORD.match(word)][:2]
            command, _, path = find(names[: 1 + isinstance(find(names[:1])[0], click.Group)])
            known = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
            asked = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
            if isinstance(command, click.Group):  # `scmsim synth NAME -o ...`
                continue
            assert asked <= known | {"-h", "--help"}, f"{file.name}: {path} has no {asked - known}"
            count += 1
    assert count > 10


def test_the_same_thing_has_the_same_option_everywhere() -> None:
    def walk(command: click.Command, path: str) -> None:
        if isinstance(command, click.Group):
            for name in command.list_commands(click.Context(command)):
                walk(command.get_command(click.Context(command), name), f"{path} {name}")  # type: ignore[arg-type]
            return
        text = command.get_help(click.Context(command, info_name=path))
        assert "\\b" not in text, path
        options = {option for param in command.params for option in param.opts}
        if path == "scmsim replay":
            options -= {"--threads"}  # of the simulated program, not of the simulator
        assert not options & {"--output", "--output-file", "--threads", "--workers"}, f"{path}: -o/--out, --jobs"
        assert all(param.help for param in command.params if isinstance(param, click.Option)), path
        assert ("--out" in options) == ("-o" in options), f"{path}: -o and --out go together"

    walk(cli.main, "scmsim")


def test_the_demo_ends_with_commands_on_a_trace_that_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from scmsim.cli import demo, replay

    class Shown:
        @staticmethod
        def table() -> str:
            return ""

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "_capture", lambda program, scratch: None)
    monkeypatch.setattr(replay, "run_all", lambda *jobs: Shown)
    done = CliRunner().invoke(cli.main, ["demo"])
    assert done.exit_code == 0, done.output
    traces = re.findall(r"scmsim replay (\S+) --fs", done.output)
    assert len(traces) == 2 and all(Path(trace).exists() for trace in traces)
