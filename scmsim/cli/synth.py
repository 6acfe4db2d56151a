"""`scmsim synth`: write a generated workload as a stored trace."""

from typing import Any

import click

from scmsim.cli import Group, completed, group

_AFTER = "[-- COMMAND LINE]"
_PERSONALITIES = ("fileserver", "webserver", "varmail", "webproxy", "oltp", "videoserver")
# Names that users may type, and the command of the workload that does the same.
_NEAREST = {
    **{f"ycsb-{letter}": f"lsm --workload {letter}" for letter in "abcdef"},
    **{f"workload{letter}": f"lsm --workload {letter}" for letter in "abcdef"},
    "rocksdb": "lsm --workload a",
    "leveldb": "lsm --workload a",
    "dbbench": "db-bench -- --benchmarks=fillrandom --num=1000000",
    **{name: f"filebench --personality {name}" for name in _PERSONALITIES},
    "mailserver": "filebench --personality varmail",
    "mdbench": "mdtest -- -n 1000",
    "dd": 'fio --options "rw=write bs=1m size=1g"',
    "ior": 'fio --options "rw=write bs=1m size=1g numjobs=4"',
    "tpcc": "sqlite",
    **dict.fromkeys(("lmcache", "vllm", "sglang", "llm", "kv-cache"), "kvcache"),
    "mooncake": "kvcache TRACE.jsonl",
    "sysbench": 'fio --options "rw=randrw bs=16k size=1g"',
}  # fmt: skip
SUMMARY = "Write the trace of a generated workload: a classic benchmark, call by call, or your own job file."


class Workloads(Group):
    """A group with one subcommand per file of the workload folder; its options are the workload's PARAMS.

    A parameter of the unit "file" is the subcommand's argument: `scmsim synth fio JOB.fio -o OUT.parquet`.  A workload with
    COMMAND reads the original program's command line: `scmsim synth fio -o OUT.parquet -- --name=a --rw=randread --size=1m`.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        from scmsim.core import registry

        return registry.names("workload")

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from scmsim.core import registry
        from scmsim.core.errors import UnknownName

        if (dashed := cmd_name.replace("_", "-")) in registry.names("workload"):
            cmd_name = dashed  # a name with an underscore, such as db_bench
        elif near := _NEAREST.get(dashed.lower()):
            raise UnknownName(f"no workload named {cmd_name!r}; the nearest is: scmsim synth {near}")
        else:
            registry.path("workload", cmd_name)  # raises UnknownName with the nearest match
        literals = registry.literals("workload", cmd_name)
        takes = literals.get("COMMAND", "")
        params = [_parameter(name, *about, takes=takes) for name, about in literals["PARAMS"].items()]
        if takes and not any(isinstance(param, click.Argument) for param in params):
            params.append(click.Argument(["words"], nargs=-1, type=click.UNPROCESSED, metavar=_AFTER))
        params.append(click.Option(["-o", "--out"], required=True, metavar="OUT.parquet", help="Trace to write."))
        params.append(click.Option(["--json", "as_json"], is_flag=True, help="Print JSON: path, rows, calls."))
        text = literals["SUMMARY"]
        files = [f"{name.upper()}: {about[2]}." for name, about in literals["PARAMS"].items() if about[1] == "file"]
        command = click.Command(
            cmd_name,
            params=params,
            callback=_writer(cmd_name, literals),
            help="\n\n".join([f"{text[:1].upper()}{text[1:]}.", *files]),
            short_help=text,
        )
        return completed(command, f"synth {cmd_name}")


def _parameter(name: str, default: str, unit: str, meaning: str, *, takes: str) -> click.Parameter:
    """Return one entry of PARAMS as an option, or for a file as an argument.

    If `takes` is not empty (the workload has COMMAND), the argument may also be the original program's command line.
    """
    if unit == "file" and takes:
        form = f"[{name.upper()}] {_AFTER}"
        return click.Argument([name], nargs=-1, type=click.UNPROCESSED, required=False, metavar=form)
    if unit == "file":
        return click.Argument([name], type=click.Path(), default=default, required=False, metavar=f"[{name.upper()}]")
    metavar = f"[{unit}]" if "|" in unit else unit.upper()
    flag = f"--{name.replace('_', '-')}"
    if name == "set":  # as in replay: --set a=1 --set b=2, besides --set 'a=1 b=2'
        return click.Option(
            [flag, name], multiple=True, metavar="NAME=VALUE", help=f"{meaning}; may be given several times"
        )
    return click.Option([flag, name], default=default, show_default=bool(default), metavar=metavar, help=meaning)


def _given(name: str, options: dict[str, Any], literals: dict[str, Any]) -> dict[str, str]:
    """Return the options as text; for a workload with COMMAND, words after -- are its program's command line."""
    import shlex

    takes = literals.get("COMMAND", "")
    files = [name for name, about in literals["PARAMS"].items() if about[1] == "file"]
    words = list(options.pop("words", ()) or (options[files[0]] if takes and files else ()))
    given = {key: value if isinstance(value, str) else " ".join(value) for key, value in options.items()}
    # the user pasted the program's name with its command line: drop the name
    if len(words) > 1 and words[0].rpartition("/")[2].replace("_", "-") == name:
        words = words[1:]
    if takes and files:
        given[files[0]] = words[0] if words and not words[0].startswith("-") else ""
        words = [] if given[files[0]] and len(words) == 1 else words
        if words and given[files[0]]:
            raise click.UsageError(f"got {words[1]!r} after {words[0]!r}; give a file, or a command line after --")
    if words:
        given[takes] = shlex.join(words)
    return given


def _writer(name: str, literals: dict[str, Any]) -> Any:
    def write(out: str, as_json: bool, **options: str | tuple[str, ...]) -> None:
        import json

        from scmsim.cli._progress import Progress, on_terminal
        from scmsim.core import registry
        from scmsim.core.records import CONTINUES, SETUP
        from scmsim.core.text import printable
        from scmsim.pipeline import model_params
        from scmsim.trace import TraceWriter

        given = _given(name, options, literals)
        source = registry.load("workload", name).Workload(**model_params("workload", name, given))
        total = source.rows if on_terminal() else 0  # some workloads must run once to count their rows
        rows = calls = 0
        with Progress() as progress, TraceWriter(out, source.header) as writer:
            for batch in source.batches():
                writer.append(batch)
                rows += len(batch)
                calls += int(((batch.flag & (SETUP | CONTINUES)) == 0).sum())
                progress("writing", rows, total)
            writer.close(source.files)
        if as_json:
            click.echo(json.dumps({"path": out, "rows": rows, "calls": calls}))
        else:
            for note in source.header.get("notes", ()):
                click.echo(printable(f"note: {note}"), err=True)
            click.echo(f"{out}: {calls:,} calls, {rows:,} operations with their preparation; next: scmsim replay {out}")

    return write


command = group("synth", SUMMARY, Workloads)
