"""Write the README of an artifact."""

from collections.abc import Mapping
from typing import Any

from scmsim.artifact import claims, rerun

_KINDS = {
    "replay": "a replay: `experiment.toml` names the models, `inputs/` has the trace and whatever else the run reads",
    "sweep": "a sweep: `sweep.toml` has its points, `inputs/` whatever they read",
    "reproduce": "the published figures of four papers beside the models'; both are part of scmsim",
}
_CLAIMS = """- **exact**: figures that follow from the trace and a model's structure (bytes, lines, fences, calls, space).
  They must be equal.
- **tolerance**: figures with fitted costs or a modelled TLB. They may differ by the tolerance of `scmsim compare`, in percent.
- **shown**: figures without a tolerance. They are compared, and have no verdict."""
_ROWS = """- **exact**: rows that a model computes without a fitted cost. Their figures must be equal.
- **tolerance**: predicted rows. They must have the same verdict beside the published value (met, near, off, contradicted) again,
  and each number may differ by {percent:g} %.
- **shown**: rows without a verdict (calibrated, not comparable). They are compared.
- Rows that `--quick` leaves out are no claims; `expected/table.csv` names them."""


def text(index: Mapping[str, Any]) -> str:
    """Return the README of an artifact with this index."""
    made = index["made"]
    command = " ".join(["scmsim", *rerun.arguments(index["kind"], index["command"])])
    packages = ", ".join(f"{name} {version}" for name, version in made["packages"].items())
    bases = index["claims"]
    exact = sum(basis == "exact" for basis, _ in bases.values())
    if index["kind"] == "reproduce":
        meaning, each = _ROWS.format(percent=bases[claims.ROW][1]), "rows"
    else:
        meaning, each = _CLAIMS, f"each claim ({exact} exact quantities)"
    return f"""# A result of scmsim, to be run again
This folder is {_KINDS[index["kind"]]}.

## One command
With scmsim {made["scmsim"]} installed, in this folder:

    scmsim artifact verify .

It checks every file, runs `{command}` in a temporary folder, and prints a verdict on every claim. It writes nothing into this
folder. Exit code 0: reproduced; 1: a file has changed, or a claim is not met.

## Contents
| file | content |
|---|---|
| `{index["result"]}` | the expected figures, complete |
| `expected/table.*` | the expected figures as a table |
| `artifact.json` | SHA-256 of every file; the command; basis and tolerance of {each} |
| `sources.json` | digests of scmsim's code and tables of costs, so that a difference is named |

## Claims
{meaning}

On every machine the same figures come from the same version of scmsim. A tolerance is for other versions.

## Made with
scmsim {made["scmsim"]} (sources {made["sources"]}), Python {made["python"]}, {packages}; {made["kernel"]}, {made["cpu"]};
{made["date"]}.
"""
