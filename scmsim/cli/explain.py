"""`scmsim explain`: explain a term of the output."""

import dataclasses
import json

import click

from scmsim.core.errors import UsageError

SUMMARY = "Explain a counter, a metric, a row of a table, a site or another term of the output."


@click.command(
    "explain",
    help=f"""{SUMMARY}

\b
Examples: scmsim explain write amplification
          scmsim explain STLB
          scmsim explain log scan

Without WORD, the command prints every term with its first sentence. With --errors and --bibtex, WORD is a file system
(scmsim list fs).""",
)
@click.argument("word", nargs=-1)
@click.option("--markdown", "as_markdown", is_flag=True, help="Print all terms as a Markdown page.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of terms as JSON.")
@click.option("--bibtex", is_flag=True, help="Print the paper of a file system, as BibTeX.")
@click.option("--errors", is_flag=True, help="Print how far a file system's figures are from those of a real kernel.")
def command(word: tuple[str, ...], as_markdown: bool, as_json: bool, bibtex: bool, errors: bool) -> None:
    from scmsim.result import glossary

    if as_markdown:
        if word:
            raise UsageError("--markdown prints every term; leave WORD out")
        click.echo(glossary.markdown(), nl=False)
        return
    text = " ".join(word)
    if bibtex:
        from scmsim.core import papers

        if as_json:
            raise UsageError("--bibtex prints BibTeX; leave --json out")
        click.echo(papers.bibtex(text))
        return
    if errors:
        click.echo(_errors(text, as_json))
        return
    plugins = _plugins(text)
    found = [] if plugins else glossary.find(text)
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(term) for term in found], indent=2))
    elif plugins:
        click.echo("\n".join(plugins))
    elif not text:
        for kind, title in glossary.KINDS.items():
            click.echo(title)
            for term in found:
                if term.kind == kind:
                    click.echo(f"  {term.name}: {term.sentence}")
    else:
        click.echo("\n".join(map(str, found)))


def _plugins(name: str) -> list[str]:
    """Return a line for each plug-in with this name."""
    from scmsim.core import registry

    kinds = [kind for kind in registry.KINDS if kind != "sites" and name in registry.names(kind)]
    return [
        f"{kind} {name}: {registry.literals(kind, name)['SUMMARY']} ('scmsim list {kind} {name}')" for kind in kinds
    ]


def _errors(fs: str, as_json: bool) -> str:
    """Return a table of a model's errors in measured cells."""
    from scmsim.core import registry
    from scmsim.result import residuals

    registry.path("fs", fs)
    found = residuals.of_model(fs)
    if as_json:
        return json.dumps([one._asdict() for one in found], indent=2)
    if not found:
        return f"{fs}: not checked against a real kernel call by call; docs/validation lists what was checked"
    head = f"{'kernel':8} {'counter, per call':16} {'basis':10}{'cells':>6}{'median':>10}{'9 of 10':>10}{'worst':>10}"
    rows = [
        f"{one.kernel:8} {one.counter:16}  {one.basis:10}{one.cells:>6}"
        + "".join(f"{error:>8.1f} %" for error in (one.median, one.ninetieth, one.worst))
        for one in found
    ]
    note = "errors without sign, in percent of the measured figure; calls on data of the microbenchmark, 512 bytes to 256 KiB"
    return "\n".join([head, *rows, note])
