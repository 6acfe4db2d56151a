"""`scmsim artifact make`: pack a result into a folder that others can verify."""

import json

import click

SUMMARY = "Pack a result into a folder: its inputs, one command, versions, digests and the figures to expect."


@click.command(
    "make",
    help=f"""{SUMMARY}

RESULT is a result of replay (R.json, R.parquet), the folder of a sweep, or the output of reproduce --json in a file R.json. The
inputs must be those that the result was computed from, by the same version of scmsim. The name of the machine, the
command line and the paths of files are left out of the artifact.""",
)
@click.argument("result", type=click.Path())
@click.option("-o", "--out", required=True, type=click.Path(), help="Folder to make; new or empty.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: folder, kind, claims, files (bytes, sha256).")
def command(result: str, out: str, as_json: bool) -> None:
    from scmsim.artifact import contents, make

    folder = make(result, out)
    index = contents.read_index(folder)
    files = index["files"]
    if as_json:
        found = {"folder": str(folder), "kind": index["kind"], "claims": index["claims"], "files": files}
        click.echo(json.dumps(found, indent=2))
        return
    total = sum(one["bytes"] for one in files.values())
    click.echo(f"{folder}: {len(files)} files, {total:,} bytes; check it: scmsim artifact verify {folder}")
