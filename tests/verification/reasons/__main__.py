"""The reasons of `scmsim reproduce` put to the test: what the reason of a row names is changed, and its figure moves or does not.

Run: python -m tests.verification.reasons [scmfs|thesis|vsm|scm_manager] [--long]   (Markdown; a minute, with --long five)
A line has the figure unchanged, the figure with the change, and what was published.  docs/validation/reproduce.md says what
follows from it.
"""

import sys

from tests.verification.reasons import of_scm_manager, of_scmfs, of_thesis, of_vsm
from tests.verification.reasons.lines import LONG, Figures

DOCUMENTS = {"scmfs": of_scmfs, "thesis": of_thesis, "vsm": of_vsm, "scm_manager": of_scm_manager}


def figures(values: Figures) -> str:
    """As a cell of the table: three digits."""
    return ", ".join(f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}" for value in values)


def main() -> None:
    """Print the experiments of the documents that are named, or of all."""
    print("| row | what is changed | as it is | changed | published |\n|---|---|---|---|---|")
    for document in [name for name in sys.argv[1:] if name != LONG] or DOCUMENTS:
        for experiment in DOCUMENTS[document].EXPERIMENTS:
            for line in experiment():
                row = (line.row, line.change, figures(line.before), figures(line.after), line.published)
                print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
