"""The command line: each subcommand is a file of this folder, and only the one that runs is imported.

A subcommand's file defines `SUMMARY` (a literal on one line) and a click command named `command`.  If a command returns an integer,
it is the exit code (0 ok, 1 comparison failed, 2 usage or input, 3 environment, 4 input lost or only partly understood).
A folder is a group: the file `perf/stat.py` is the subcommand `scmsim perf stat`.
"""

import ast
import contextlib
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from scmsim import __version__
from scmsim.cli._process import Stopped
from scmsim.core.errors import ScmsimError, unknown
from scmsim.core.text import printable

_FOLDER = os.path.dirname(__file__)  # without pathlib, whose import takes a tenth of the time of `scmsim --help`
_INTERRUPTED = 130  # 128 + SIGINT, like in a shell
_PIPE_CLOSED = 141  # 128 + SIGPIPE
_PLAIN = {"integer": "a whole number", "float": "a number"}
_NUMBERS = re.compile(r"a valid (integer|float)(?: range)?")


def _set_quiet(ctx: click.Context, param: click.Parameter, quiet: bool) -> None:
    if quiet:
        from scmsim.cli import _progress

        _progress.start(quiet)


QUIET = click.Option(
    ["-q", "--quiet"], is_flag=True, expose_value=False, callback=_set_quiet, help="Show no progress on stderr."
)


class Group(click.Group):
    """A group that suggests the nearest name for an unknown command, lists full summaries, and adds --quiet to commands."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        command = self.get_command(ctx, args[0])
        if command is None:
            raise unknown("command", args[0], self.list_commands(ctx))
        if QUIET not in command.params:
            from scmsim.cli._inputs import protect

            command.params.append(QUIET)
            protect(command)
        return args[0], command, args[1:]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.sentence(ctx, name)) for name in self.list_commands(ctx)])

    def sentence(self, ctx: click.Context, name: str) -> str:
        """Return the one-line summary of a command, for the group's help."""
        command = self.get_command(ctx, name)
        return (command.short_help or command.help or "").partition("\n")[0] if command else ""


class LazyGroup(Group):
    """A group whose commands are the files and folders of `scmsim/cli/PARENT`; help and completion import no command."""

    def __init__(self, *args: Any, parent: str = "", **extra: Any) -> None:
        super().__init__(*args, **extra)
        self.parent = parent

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_files(self.parent))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        file = _files(self.parent).get(cmd_name)
        if file is None:
            return None
        name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        module = importlib.import_module(f"scmsim.cli.{name}")
        command: click.Command = module.command
        command.name = cmd_name
        return completed(command, f"{self.parent} {cmd_name}".strip())

    def sentence(self, ctx: click.Context, name: str) -> str:
        return summary(name, self.parent)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        known = (name for name in self.list_commands(ctx) if name.startswith(incomplete))
        return [CompletionItem(name, help=summary(name, self.parent)) for name in known]

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _pipe_watched():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _pipe_watched():
            return super().invoke(ctx)

    def main(self, args: Sequence[str] | None = None, *_: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        def run() -> Any:
            return super(LazyGroup, self).main(args, **{**extra, "prog_name": "scmsim", "standalone_mode": False})

        if not standalone_mode:
            return run()
        sys.exit(_exit_code(run))


def group(name: str, summary: str, cls: type[Group] | None = None, **extra: Any) -> Any:
    """Return a group that shows its help if no command is given; by default, its commands are the files of folder NAME."""
    extra |= {} if cls else {"parent": name}

    @click.group(name, cls=cls or LazyGroup, help=summary, invoke_without_command=True, **extra)
    @click.pass_context
    def command(ctx: click.Context) -> None:
        if ctx.invoked_subcommand is None:
            click.echo(ctx.get_help())

    return command


def completed(command: click.Command, path: str) -> click.Command:
    """Return the command, with completions of its parameters' values if a shell requests completion."""
    if "_SCMSIM_COMPLETE" in os.environ:
        from scmsim.cli._completion import attach

        return attach(command, path)
    return command


class _PipeClosed(Exception):
    """The reader of stdout has closed the pipe; not an OSError, for which click would exit with code 1."""


@contextlib.contextmanager
def _pipe_watched() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise _PipeClosed from None


def _files(parent: str) -> dict[str, str]:
    """Map the commands of a group to their files below `scmsim/cli`; `import_.py` is `import`, a keyword of Python."""
    found = {}
    for entry in os.listdir(os.path.join(_FOLDER, parent)):
        file = f"{parent}/{entry}" if parent else entry
        file = file if entry.endswith(".py") else f"{file}/__init__.py"
        if not entry.startswith("_") and os.path.isfile(os.path.join(_FOLDER, file)):
            found[entry.removesuffix(".py").rstrip("_").replace("_", "-")] = file
    return found


def summary(name: str, parent: str = "") -> str:
    """Return the one-line help of a subcommand, read from its file without importing it."""
    with open(os.path.join(_FOLDER, _files(parent)[name]), encoding="utf-8") as file:
        match = re.search(r"^SUMMARY = (.+)$", file.read(), re.MULTILINE)
    return str(ast.literal_eval(match[1])) if match else ""


def _exit_code(run: Callable[[], Any]) -> int:
    """Run the command line; turn every expected failure into one line on stderr and an exit code."""
    try:
        result = run()
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except ScmsimError as error:
        return _fail(str(error), error.exit_code)
    except Stopped as stop:
        return _fail(f"stopped by {stop.name}", stop.exit_code)
    except click.Abort as abort:
        if isinstance(abort.__cause__, EOFError):  # click treats EOFError as Ctrl-D at a prompt
            raise abort.__cause__ from None
        return _fail("interrupted", _INTERRUPTED)
    except click.ClickException as error:
        return _fail(_click_message(error), 2)
    except (_PipeClosed, BrokenPipeError):
        # the reader (head, less) has ended: keep Python from reporting the closed pipe at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    except MemoryError:
        return _fail("not enough memory; give a smaller input or smaller numbers", 3)
    except OSError as error:
        from scmsim.core.atomic import OF_THE_DISK

        where = f"{error.filename!r}: " if error.filename is not None else ""
        return _fail(f"{where}{(error.strerror or str(error)).lower()}", 3 if error.errno in OF_THE_DISK else 2)
    except Exception as error:
        from scmsim.core import user_plugins

        mistake = user_plugins.mistake(error)
        if mistake is None:
            raise
        return _fail(mistake, 2)


def _click_message(error: click.ClickException) -> str:
    """Return click's error message in scmsim's style: lower case, no full stop, and the command that prints the help."""
    context = getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption) and context:
        options = [
            name for param in context.command.get_params(context) for name in param.opts if name.startswith("--")
        ]
        return str(unknown("option", error.option_name, options))
    text = _NUMBERS.sub(lambda match: _PLAIN[match[1]], error.format_message().strip().rstrip("."))
    return f"{text[:1].lower()}{text[1:]}; see '{context.command_path if context else 'scmsim'} --help'"


def _fail(message: str, code: int) -> int:
    try:
        click.echo(f"scmsim: error: {printable(message, keep=chr(10))}", err=True)
    except OSError:  # stderr is closed, too: only the exit code can report the error
        pass
    return code


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog='Completion for bash: eval "$(_SCMSIM_COMPLETE=bash_source scmsim)" (zsh: zsh_source, fish: fish_source).',
)
@click.option("-q", "--quiet", is_flag=True, help="Show no progress on stderr.")
@click.version_option(__version__, "-V", "--version", prog_name="scmsim", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context, quiet: bool) -> None:
    """Replay file-system traces against models of storage-class-memory file systems.

    Predicts TLB misses and page walks as perf would count them, bytes stored, write amplification and space.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        return
    from scmsim.cli import _progress

    _progress.start(quiet)
