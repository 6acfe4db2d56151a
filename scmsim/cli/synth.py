"""`scmsim synth`: a generated workload as a stored trace."""

from typing import Any

import click

SUMMARY = "Write the trace of a generated workload, such as the thesis' microbenchmark."


class Workloads(click.Group):
    """One subcommand per file of the workload folder; its options are the workload's PARAMS."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from scmsim import registry

        return registry.names("workload")

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from scmsim import registry

        if cmd_name not in registry.names("workload"):
            registry.path("workload", cmd_name)  # raises with the nearest match
        literals = registry.literals("workload", cmd_name)
        options: list[click.Parameter] = [
            click.Option(
                [f"--{name.replace('_', '-')}"], default=default, show_default=True, help=f"{meaning} ({unit})"
            )
            for name, (default, unit, meaning) in literals["PARAMS"].items()
        ]
        options.append(click.Option(["-o", "--out"], required=True, help="trace to write (.parquet)"))
        options.append(click.Option(["--json", "as_json"], is_flag=True, help="print JSON: path, rows, calls"))
        return click.Command(cmd_name, params=options, callback=_writer(cmd_name), help=literals["SUMMARY"])


def _writer(name: str) -> Any:
    def write(out: str, as_json: bool, **given: str) -> None:
        import json

        from scmsim import registry
        from scmsim.cli._progress import Progress
        from scmsim.pipeline import model_params
        from scmsim.records import CONTINUES, SETUP
        from scmsim.trace import TraceWriter

        source = registry.load("workload", name).source(**model_params("workload", name, given))
        rows = calls = 0
        with Progress() as progress, TraceWriter(out, source.header) as writer:
            for batch in source.batches():
                writer.append(batch)
                rows += len(batch)
                calls += int(((batch.flag & (SETUP | CONTINUES)) == 0).sum())
                progress("writing", rows, source.rows)
            writer.close(source.files)
        if as_json:
            click.echo(json.dumps({"path": out, "rows": rows, "calls": calls}))
        else:
            click.echo(f"{out}: {calls:,} calls, {rows:,} operations with their preparation; next: scmsim replay {out}")

    return write


command = Workloads("synth", help=SUMMARY)
