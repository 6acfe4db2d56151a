"""Derive the cost tables of a family from measured rows.

Prints the fitted costs' errors in the measured cells; --write replaces the tables in scmsim/fs/FAMILY/costs.
`--leave-out UNIT` excludes the cells of one unit from the fit, as test cells (nova, pmfs, xfs).
"""

import argparse
import importlib
import pathlib

from tools.calibration import tables

HERE = pathlib.Path(__file__).parent
FAMILIES = sorted(path.stem for path in HERE.glob("*.py") if "def derive(" in path.read_text(encoding="utf-8"))


def main() -> None:
    """Derive the tables of one family."""
    parser = argparse.ArgumentParser("python -m tools.calibration", description=__doc__)
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("--write", action="store_true", help="replace the tables")
    parser.add_argument("--leave-out", type=int, metavar="UNIT", help="do not fit to cells of this unit")
    given = parser.parse_args()
    options = {} if given.leave_out is None else {"leave_out": given.leave_out}
    for name, table in importlib.import_module(f"tools.calibration.{given.family}").derive(**options).items():
        if given.write:
            tables.write(name, table)


main()
