"""Derive the cost tables of Debian's kernels: measure in the lab, fit to microbenchmarks.

    python -m tools.calibration.kernels FOLDER [--kernel 6.12,6.18] [--fs ext4-dax,tmpfs] [--write]

FOLDER keeps the runs: `scmsim lab run costs` on each kernel and the traces of lab_costs.py (all of them for ext4); only missing
runs are made.  The fit is to units of 1, 16 and 256 KiB and to passes over names; units of 4 KiB, 64 KiB and 2 MiB and sums of
passes are tests, whose errors are printed.  --write replaces the tables in scmsim/fs/FAMILY/costs.  No workload is fitted to:
tests/verification/kernel_costs.py tests the costs on whole workloads.
"""

import argparse
import pathlib
import subprocess
import sys

from scmsim.core import registry
from scmsim.fs.engine.costs import COLUMNS
from scmsim.result import read_all
from scmsim.study import calibrate
from tools.calibration import cached_xfs, folios, free_runs, lab_costs, tables
from tools.calibration.tables import Cost

# kernel -> file system -> table from which the fit starts: of a kernel with the same driver.  The model follows the rules of the
# kernel itself, for which it needs a table, at first a copy.  tmpfs.py and ext2.py derive the other tables of 6.1.
START = {
    "6.1": {"ext4-dax": "ext4-5.13", "ext4": "ext4-5.13", "xfs-dax": "xfs-5.13", "xfs": "xfs-dax-6.1"},
    "6.12": {
        "ext4-dax": "ext4-5.13",
        "tmpfs": "tmpfs-6.1",
        "ext4": "ext4-5.13",
        "xfs-dax": "xfs-5.13",
        "ext2-dax": "ext2-dax-6.1",
        "xfs": "xfs-6.1",
    },
    "6.18": {
        "ext4-dax": "ext4-dax-6.12",
        "tmpfs": "tmpfs-6.12",
        "ext4": "ext4-6.12",
        "xfs-dax": "xfs-dax-6.12",
        "ext2-dax": "ext2-dax-6.1",
        "xfs": "xfs-6.12",
    },
    "7.3": {
        "ext4-dax": "ext4-dax-6.18",
        "tmpfs": "tmpfs-6.18",
        "ext4": "ext4-6.18",
        "xfs-dax": "xfs-dax-6.18",
        "ext2-dax": "ext2-dax-6.12",
        "xfs": "xfs-6.18",
    },
}
MACHINE = {"capacity": "2GiB", "tick": "0"}  # the lab's device; the lab's counts exclude interrupts
TICK = "the lab's counts contain no interrupts; a system adds those of a machine (scmsim replay --system)"
NOT_TOLD = "not determined by the cells"
SHOWN = 0.05  # relative error above which a cell is listed
UNITS = "units of 1, 16 and 256 KiB, and passes over names"


def measured(folder: pathlib.Path, kernel: str, fs: str) -> calibrate.Result:
    """Return the microbenchmark's result on a kernel, after running it if it is missing."""
    out = folder / f"costs-{kernel}"
    command = [sys.executable, "-m", "scmsim", "lab", "run", "costs", "--kernel", kernel, "-o", str(out), "--fs"]
    if not (out / f"{fs}-1.calls.parquet").exists() or not (out / "result.json").exists():
        subprocess.run([*command, ",".join(START[kernel])], check=True, stdout=subprocess.DEVNULL)
    return read_all(str(out))


def calibrated(folder: pathlib.Path, kernel: str, fs: str) -> tuple[str, calibrate.Calibration]:
    """Return (the kernel's release, the fit) of a file system."""
    result = measured(folder, kernel, fs)
    ext4 = fs.startswith("ext4")
    single = folder / (f"single-{kernel}" if ext4 else f"single-{kernel}-{fs}")
    single.mkdir(exist_ok=True)
    known = (lab_costs.costs_of if ext4 else lab_costs.quiet_costs_of)(single, fs, kernel)
    if kernel in folios.FITTED.get(fs, ()):
        known = folios.PRIORS | known | folios.costs_of(single, fs, kernel)
    elif fs == "xfs":
        known = cached_xfs.PRIORS | known
    if fs.startswith("xfs"):
        known |= free_runs.costs_of(single, "xfs-dax", kernel)
    found = lab_costs.fitted(tables.shipped(fs, START[kernel][fs]) | known, result, fs, MACHINE | {"kernel": kernel})
    return str(result.manifest["kernel"]).removeprefix("Linux "), found


def table(fs: str, kernel: str, release: str, found: calibrate.Calibration) -> str:
    """Return the table as TOML text."""
    costs, origin = {}, START[kernel][fs]
    for name, entry in found.table.items():
        source = str(entry["source"])
        if name in found.told:
            source = f"lab, Linux {release}: {UNITS}"
        elif not source.startswith(("lab", NOT_TOLD)):
            source = f"{NOT_TOLD}, so taken from {origin}: {source}"
        costs[name] = Cost([entry[column] for column in COLUMNS], entry["site"], entry["per"], entry["kind"], source)
    if "timer_tick" in costs:
        costs["timer_tick"] = costs["timer_tick"]._replace(amounts=(0, 0, 0), kind="measured", source=TICK)
    head = (
        f"# Costs of {fs} on Linux {kernel} (Debian's {release}): instructions, loads and stores (rep-strings left out) per\n"
        f"# unit, as counted on an emulated machine; written by tools/calibration/kernels.py.  Start of the fit: {origin}.\n"
    )
    return tables.text(head, costs, tables.tenths)


def main() -> None:
    """Derive the tables of the chosen kernels and file systems."""
    parser = argparse.ArgumentParser("python -m tools.calibration.kernels", description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument(
        "--kernel", default=",".join(START), help="kept kernels of the lab (scmsim lab setup --release)"
    )
    parser.add_argument("--fs", help="[default: those of START]")
    parser.add_argument("--write", action="store_true", help="replace the tables")
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    for kernel in given.kernel.split(","):
        for fs in given.fs.split(",") if given.fs else START[kernel]:
            release, found = calibrated(given.folder, kernel, fs)
            print(f"{fs} on {release}, from {START[kernel][fs]}; costs that no cell tells: "
                  + (", ".join(name for name in found.table if name not in found.told) or "none"))  # fmt: skip
            print(*found.summary(), sep="\n", flush=True)
            for error in found.errors:
                if abs(error.after).max() > SHOWN:
                    what = f"{'fitted' if error.fitted else 'test':7} {error.key.operation:14} {error.key.unit_bytes or '':>8}"
                    print(what, *(f"{100 * each:+7.1f} %" for each in error.after), flush=True)
            if given.write:
                family = registry.path("fs", fs).parent.name
                tables.write(f"{family}/{fs}-{kernel}", table(fs, kernel, release, found))


if __name__ == "__main__":
    main()
