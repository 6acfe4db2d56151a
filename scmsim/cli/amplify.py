"""`scmsim amplify`: compare how many bytes update schemes (copy-on-write, logs, journals) store for the same writes."""

import json
from typing import Any

import click

SUMMARY = "Compute the write amplification of copy-on-write, logs, journals and multi-grained copy-on-write (MCoW)."
_COLUMNS = ("stored", "lines", "media_64", "media_256", "media_4096")


@click.command(
    "amplify",
    help=f"""{SUMMARY}

TRACE is a stored trace.  The table shows, per byte that the program writes: extra data bytes, bytes stored, bytes of
cache lines written back, and bytes that media with granules of 64, 256 and 4096 bytes store.  For whole file systems,
use scmsim replay.""",
)
@click.argument("trace")
@click.option("--grain", default="4KiB,2MiB,1GiB", show_default=True, help="Page sizes of copy-on-write and MCoW.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object: bytes and ratios of each scheme.")
def command(trace: str, grain: str, as_json: bool) -> None:
    from scmsim.core.units import parse_bytes
    from scmsim.study.amplification import amplify

    table = amplify(trace, [parse_bytes(text.strip()) for text in grain.split(",")])
    if as_json:
        click.echo(json.dumps(table))
    else:
        _print(table)


def _print(table: dict[str, dict[str, Any]]) -> None:
    payload = next(iter(table.values()))["payload"]
    click.echo(f"{payload:,} bytes written by the program; per byte:")
    click.echo(f"{'scheme':<16}{'extra data':>14}" + "".join(f"{name.replace('_', ' '):>14}" for name in _COLUMNS))
    for name, levels in table.items():
        cells = [levels["cow_extra_ratio"], *(levels[column] / payload if payload else None for column in _COLUMNS)]
        click.echo(f"{name:<16}" + "".join(f"{'-':>14}" if cell is None else f" {cell:>13,.3f}" for cell in cells))
