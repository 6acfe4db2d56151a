"""Read the papers of file systems in BibTeX: entries of `fs/papers.bib`, which the key `paper` of a model's row names."""

import pathlib
import re

from scmsim.core import registry
from scmsim.core.errors import UsageError

FILE = pathlib.Path(__file__).parents[1] / "fs" / "papers.bib"


def entries() -> dict[str, str]:
    """Return the BibTeX text of every entry by its key."""
    text = FILE.read_text(encoding="utf-8")
    return {key: entry for entry, key in re.findall(r"^(@\w+\{([\w-]+),$.*?^\})", text, re.MULTILINE | re.DOTALL)}


def bibtex(fs: str) -> str:
    """Return the paper of a file system as BibTeX; raise UsageError for a file system without a paper."""
    row = registry.literals("fs", fs)
    if "PAPER" not in row:
        known = [name for name in registry.names("fs") if "PAPER" in registry.literals("fs", name)]
        raise UsageError(
            f"no paper is recorded for {fs!r} (its source: {row['SOURCE']}); there is one for {', '.join(known)}"
        )
    return entries()[row["PAPER"]]
