"""`scmsim lab calibrate`: fit the costs of a model to the lab's measurements on a kernel."""

import click

SUMMARY = "Fit a model's costs to a kernel that the lab measured; other units test the fit."


@click.command(
    "calibrate",
    help=f"""{SUMMARY}

MEASURED is the folder of a lab run of the microbenchmark. The costs are fitted to the cells with the units of --fit; the other
units test them.

\b
Example: scmsim lab run transfers -o lab
         scmsim lab calibrate lab --fs ext4-dax --fit 1KiB,16KiB,256KiB -o ext4-6.1.toml
         scmsim replay trace.parquet --fs ext4-dax --costs ext4-6.1.toml
""",
)
@click.argument("measured", type=click.Path())
@click.option("--fs", required=True, help="A file system of MEASURED that has a model.")
@click.option("--fit", required=True, help="Units (bytes per call) of the cells to fit, separated by commas.")
@click.option("-o", "--out", required=True, type=click.Path(), help="The cost table to write (TOML).")
@click.option("--cells", "show", is_flag=True, help="Show the error of each cell.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: table, told, cells.")
def command(measured: str, fs: str, fit: str, out: str, show: bool, as_json: bool) -> None:
    import json

    from scmsim.core import registry
    from scmsim.lab.job import units_of
    from scmsim.result import read_all
    from scmsim.study import calibrate

    registry.path("fs", fs)
    result = read_all(measured)
    found = calibrate.calibrate(result, fs, units_of(fit))
    kernel = str(result.manifest.get("kernel", "")).removeprefix("Linux ")
    calibrate.write(found, out, kernel)
    rows = [
        {
            "operation": error.key.operation,
            "unit_bytes": error.key.unit_bytes,
            "fitted": error.fitted,
            **{
                f"{column}_percent": round(100 * float(e), 2)
                for column, e in zip(calibrate.COLUMNS, error.after, strict=True)
            },
        }
        for error in found.errors
    ]
    if as_json:
        click.echo(json.dumps({"table": out, "told": found.told, "cells": rows}, indent=2))
        return
    for row in rows if show else ():
        click.echo("  ".join(str(value) for value in row.values()))
    for line in found.summary():
        click.echo(line)
    click.echo(f"{out}: {len(found.told)} costs in place of {found.name}; scmsim replay --costs {out}")
