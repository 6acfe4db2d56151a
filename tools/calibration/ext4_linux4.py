"""Derive scmsim/fs/ext4/costs/ext4-4.4.toml from measured_440.csv: ext4 of Ubuntu 16.04, with DAX and with page cache.

The model gives how often each cost is charged in each measured row; costs move as little as possible from those of 5.13 until
the rows are met (`tables.ridge`), for both models at once, since they share the costs.  Units of 4 and 64 KiB, and the passes
over names that are sums of others (`ext4.CHECKS`), are excluded from the fit.
"""

import csv
import tomllib

import numpy as np

from scmsim.fs.ext4.templates import COSTS
from tests.verification import cells
from tools.calibration import directories, ext4, tables
from tools.calibration.tables import FIELDS, Cost

TABLE, PRIOR = "ext4-4.4", "ext4-5.13"
SYSTEMS = ("ext4-dax-linux4", "ext4-linux4")
UNITS = (512, 1024, 4096, 16384, 65536, 262144)
HELD_OUT = (4096, 65536)
WEIGHT = 0.1  # weight of the priors: 4.4 has no metadata checksums, so most costs differ much from those of 5.13
UNTOUCHED = (
    "copy_line",
    "zero_block",
    "cache_fill_page",
    "null_call",
    "sync_call",
    "convert",
    "split_extent",
    *directories.MEANING,
)  # no row determines them

HEADER = """\
# Costs of ext4-linux4 and ext4-dax-linux4, on Ubuntu 16.04's Linux 4.4.0-21 without checksums of metadata: instructions, loads and
# stores (rep-strings left out) per unit, as counted in the lab; written by tools/calibration/ext4_linux4.py from measured_440.csv.
"""


def measured():
    """Return the rows with their numbers converted."""
    with open(cells.DATA / "measured_440.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return [{k: v if k in ("kernel", "fs", "op") else float(v) for k, v in row.items()} for row in rows]


def derive():
    """Return the cost table, and print the errors of each row."""
    rows, charged = measured(), {}
    for fs in SYSTEMS:
        charged |= ext4.structure(fs, True, UNITS)
    rows = [row for row in rows if (row["fs"], row["op"], int(row["unit"])) in charged]
    found = [charged[row["fs"], row["op"], int(row["unit"])] for row in rows]
    for row in rows:  # mark test rows by their unit, for `ridge`
        row["unit"] = HELD_OUT[0] if row["unit"] in HELD_OUT or row["op"] in ext4.CHECKS else row["unit"]
    text = (tables.FAMILIES / "ext4" / "costs" / f"{PRIOR}.toml").read_text(encoding="utf-8")
    old = {name: entry for name, entry in tomllib.loads(text).items() if name in COSTS}
    priors = {name: [*(old[name][field] for field in FIELDS), WEIGHT] for name in COSTS if name not in UNTOUCHED}
    fixed = {name: [old[name][field] for field in FIELDS] for name in UNTOUCHED}
    counts, direct = (
        [each[part] for each in found] for part in (slice(0, len(COSTS)), slice(len(COSTS), len(COSTS) + 3))
    )
    costs, left = tables.ridge(rows, (np.array(counts), np.array(direct)), COSTS, priors, fixed, HELD_OUT[0])
    tables.report(left)
    new = {}
    for name in COSTS:
        site, per, _ = ext4.MEANING[name]
        per = per.split(", ")[0] if "checksum" in per else per
        source = (
            "as on 5.13; no row shows it"
            if name in UNTOUCHED
            else "lab: rows of 4.4, fitted with the costs of 5.13 as prior"
        )
        kind = "estimate" if name in UNTOUCHED else "fitted"
        new[name] = Cost(costs.get(name, fixed.get(name)), site, per, kind, source)
    return {f"ext4/{TABLE}": tables.text(HEADER, new, tables.tenths)}
