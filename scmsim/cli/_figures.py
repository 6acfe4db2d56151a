"""The option of the commands that draw figures."""

import click

figure_format = click.option(
    "--format",
    "suffix",
    type=click.Choice(["svg", "png", "pdf"]),
    default="svg",
    show_default=True,
    help="Of the figures.",
)
