"""`scmsim lab check`: show what the emulated machine needs, and the one command that installs what is missing."""

import click

SUMMARY = "Show what the lab has and lacks on this machine, and the command that installs the rest."


@click.command("check", help=SUMMARY)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: findings, install.")
def command(as_json: bool) -> int:
    import json

    from scmsim.lab import tools

    found = tools.examine()
    install = tools.command(found)
    missing = [finding for finding in found if finding.package]
    if as_json:
        click.echo(json.dumps({"findings": [finding._asdict() for finding in found], "install": install}, indent=2))
        return 3 if missing else 0
    width = max(len(finding.name) for finding in found)
    for finding in found:
        click.echo(f"{'-' if finding.package else ' '} {finding.name:<{width}}  {finding.value}")
    if install:
        click.echo(f"\nrun: {install}")
    if any(finding.name == "kernel" for finding in missing):
        click.echo("\nrun: scmsim lab setup --apply   (or --kernel FILE.deb, or --kernel-image FILE --modules DIR)")
    return 3 if missing else 0
