"""`scmsim machine detect`: describe the machine that scmsim runs on as a machine file."""

import click

from scmsim.core.text import printable

SUMMARY = "Write a machine file of this machine from CPUID, /proc and /sys, and list the values that they lack."


@click.command("detect", help=SUMMARY)
@click.option("-o", "--out", type=click.Path(), help="File to write (.toml).  [default: standard output]")
@click.option("--cpu", type=click.IntRange(min=0), help="CPU to examine, if the processor has several kinds of cores.")
def command(out: str | None, cpu: int | None) -> None:
    from scmsim.core import atomic
    from scmsim.mmu import host

    if out is not None:
        atomic.writable(out)
    seen = host.look(cpu)
    text = host.toml(host.table(seen), seen.unseen)
    if out is None:
        click.echo(text, nl=False)
        return
    with atomic.whole(out) as draft:
        draft.write_text(text, encoding="utf-8")
    click.echo(f"{out}: use it with --machine {out}")
    for what in seen.unseen:
        click.echo(printable(f"not seen: {what}"))
